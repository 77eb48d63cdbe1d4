"""Renders plans, outcomes and states as text. Pure: values in, text out; colour, width and time are arguments."""
