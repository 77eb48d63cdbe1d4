"""Laws of the image."""

import math

from reconciler.sandbox.broker_rules.image import same_double


def test_doubles_are_compared_as_java_boxes_them() -> None:
    assert same_double(math.nan, math.nan)
    assert not same_double(0.0, -0.0)
    assert same_double(-0.0, -0.0)
    assert not same_double(None, 0.0)
    assert same_double(1.5, 1.5)
