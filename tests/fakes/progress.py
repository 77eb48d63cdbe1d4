"""A receiver of progress that does nothing."""


def silent(phase: str, completed: int, total: int) -> None:
    """Report no progress."""
