"""Compact JSON of many small values one after the other, as fast as CPython's C encoder allows."""

import json
from collections.abc import Callable


def compact(*, sort_keys: bool = False) -> Callable[[object], str]:
    """A function that writes a value as JSON: no blanks, ASCII; it refuses what JSON cannot say (ValueError).

    ``JSONEncoder.encode`` builds its C encoder anew for each value, which costs as much as writing a short row. Here
    it is built once. Values must hold no circles. An interpreter without that encoder takes the documented way.
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
