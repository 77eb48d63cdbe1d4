"""Random operations and random faults against a real operator, API server and broker. `python -m tests.soak --help`."""
