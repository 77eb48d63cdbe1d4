"""The arithmetic of recorded use: vectorised functions over columns of samples. The only place that knows NumPy.

The preview calls these functions directly; Spark groups series and calls the same. Rates, times and limits are 64-bit
whole numbers and every figure is exact: there is no rounding but the documented one, and no error bound. What would not fit 64
bits is refused with an error (:data:`reconciler.usage.kernel.throttling.MOST_UNITS`).
"""
