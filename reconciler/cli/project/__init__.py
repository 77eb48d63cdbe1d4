"""Commands that begin a project: ``init`` and ``adopt``, and the pipelines that ``init`` writes."""
