"""Upgrades: the state of the previous version of each part is read, kept and not written again."""
