"""Statuses, conditions and events of custom resources: what decides them and how they are written."""
