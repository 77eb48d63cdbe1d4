"""One self-contained HTML page from plans, outcomes and audit logs."""
