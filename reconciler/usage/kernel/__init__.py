"""The arithmetic of recorded use: vectorised functions over columns of samples. The only package that imports NumPy.

The preview calls these functions directly; Spark groups series and calls the same. Rates, times and limits are 64-bit
integers and every figure is exact except for documented rounding. Values beyond 64 bits are an error
(:data:`reconciler.usage.kernel.throttling.MOST_UNITS`).
"""
