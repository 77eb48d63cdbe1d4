"""Configuration of a client: its keys, files, references and secrets, to one checked value."""
