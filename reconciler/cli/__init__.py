"""The command lines ``kquota`` and ``kafka-client-quotas``: they parse options, call the use cases of ``app``, and map errors to exit codes."""
