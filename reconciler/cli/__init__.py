"""The command lines ``kquota`` and ``kafka-client-quotas``: they pick real things, hand them in, and map errors to exit codes."""
