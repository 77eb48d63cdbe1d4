"""Use cases that the command line, the operator and library users share; no option parsing and no printing."""
