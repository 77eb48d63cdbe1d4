"""The network client: reaches real clusters through the wire, translates quotas, knows deadlines and retries."""
