"""Versioned JSON documents: plans, outcomes, states and simulations, written and read back strictly."""
