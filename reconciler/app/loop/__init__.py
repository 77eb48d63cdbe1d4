"""Serial reconciliations of a cluster in a loop, shared by ``operator``, ``watch`` and ``drift --watch``. Independent of Kubernetes."""
