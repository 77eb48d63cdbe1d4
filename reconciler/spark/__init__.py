"""The definitions of ``quota`` and ``usage`` over whole fleets, on Spark. No network code."""
