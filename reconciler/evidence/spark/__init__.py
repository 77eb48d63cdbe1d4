"""The definitions of the quota model and of the usage models over whole fleets, on Spark. No network code."""
