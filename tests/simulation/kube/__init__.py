"""Simulation of operators: the real operator on a simulated API server, with the simulated brokers and network.

    make simulate WORLD=operator SEED=7

Real: leader election, lists, caches, finalizers, reconciliations, records, statuses, the client of the API server above its
HTTP transport. Simulated: the API server, its watches (instead of Kopf), processes, their pauses and their clocks.
"""
