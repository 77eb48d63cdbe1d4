"""Plans, outcomes and states in words. Pure: values in, text out; colour, width and time are arguments."""
