"""Commands that change quotas or show a change: plan, apply, rollback, override."""
