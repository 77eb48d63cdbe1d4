"""The planner: from documents, records and live state to a plan with changes, guards, send order, fallbacks and effects."""
