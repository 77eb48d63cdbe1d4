"""Arguments and command line of ``kafka-client-quotas``."""
