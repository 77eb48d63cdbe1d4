"""A module for each job of ``kquota spark``: a function of a session, a lake and settings (``runtime.job_runner``)."""
