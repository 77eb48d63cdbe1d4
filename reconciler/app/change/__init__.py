"""Use cases that plan or change quotas: plan, apply, rollback, override."""
