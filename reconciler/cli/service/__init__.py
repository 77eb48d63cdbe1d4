"""Commands that run until they are stopped: drift --watch, watch, sandbox."""
