"""Upgrades: what the previous version of each part left is read, kept and not written again."""
