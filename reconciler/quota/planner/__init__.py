"""From documents, records and live state to a plan: desired state, comparison, guards, order, preconditions and effects."""
