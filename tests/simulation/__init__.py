"""Deterministic simulation: the product's code on one seeded event loop with virtual time. No sockets, disks or threads.

    make simulate SEED=7            # one simulated world
    make simulate SEED=7 DAYS=0.5   # a longer one

Real: the steps of a reconciliation, the loop, the client down to its bytes, the sandbox's brokers, the inventory and the
audit log. Simulated: time, the order of ready tasks, the network, the file system, processes.
"""
