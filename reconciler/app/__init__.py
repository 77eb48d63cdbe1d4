"""Use cases shared by the command line, the operator and library users; no option parsing and no printing."""
