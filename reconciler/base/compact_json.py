"""Fast compact JSON for many small values, with CPython's C encoder."""

import json
from collections.abc import Callable


def compact(*, sort_keys: bool = False) -> Callable[[object], str]:
    """Return a function that writes a value as JSON without blanks, in ASCII.

    The function raises ``ValueError`` for NaN and infinity. ``JSONEncoder.encode`` creates its C encoder for each value,
    which costs as much as writing a short row. Here it is created once. Values must not contain cycles. Without the C
    encoder ``JSONEncoder.encode`` is used.
    """
    plain = json.JSONEncoder(separators=(",", ":"), sort_keys=sort_keys, allow_nan=False)
    make = getattr(json.encoder, "c_make_encoder", None)
    try:
        markers = indent = None
        skip_keys = allow_nan = False
        pieces = make(  # type: ignore[misc]  # not in the stubs; not callable where it is missing
            markers,
            plain.default,
            json.encoder.encode_basestring_ascii,
            indent,
            ":",
            ",",
            sort_keys,
            skip_keys,
            allow_nan,
        )
        _ = pieces([1, "a"], 0)
    except TypeError:
        return plain.encode
    return lambda value: "".join(pieces(value, 0))
