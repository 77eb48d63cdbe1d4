"""Configuration of a client: keys, files, references and secrets, checked and combined to one value."""
