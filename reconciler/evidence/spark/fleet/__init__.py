"""The plan and the history of a fleet as data frames."""
