"""Commands that begin a project: ``init`` and ``adopt``. The pipelines that ``init`` writes are in ``cli/workflows``."""
