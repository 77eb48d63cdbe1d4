"""The sandbox's state between runs: one JSON file, replaced atomically. Reading and writing only.

Values that JSON has no number for are kept as text ("NaN", "Infinity"): the lines before 4.4 accept them.
"""

import json
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from reconciler.base import bounded_json
from reconciler.base.atomic_files import replace_file
from reconciler.errors import ConfigError
from reconciler.sandbox.broker_rules.image import (
    Image,
    Names,
    QuotaRecord,
    names_of,
)

FORMAT: Final = 1
_WORDS: Final = {"NaN": math.nan, "Infinity": math.inf, "-Infinity": -math.inf}


def load(path: Path) -> tuple[str, Image] | None:
    """Cluster id and image, or ``None`` if there is no file yet.

    Raises:
        ConfigError: The file is there but cannot be read as a state; it is never overwritten then.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        return None
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"the state file cannot be read: {error}", location=str(path)) from error
    try:
        state = bounded_json.parse(text, most_bytes=bounded_json.DOCUMENT)
        if state["format"] != FORMAT:
            raise ConfigError(f"format {state['format']} is unknown", location=str(path))
        records = [
            QuotaRecord(names=names, key=str(key), value=_number(value))
            for row in state["entities"]
            for names in (_names(row["entity"]),)
            for key, value in row["values"].items()
        ]
        return str(state["cluster_id"]), Image().applied(records)
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise ConfigError(
            f"this is no state file of the sandbox: {error!r}",
            location=str(path),
            hint="move it away to begin anew",
        ) from error


def save(path: Path, cluster_id: str, image: Image) -> None:
    """Writes the state beside the file, then puts it in place; durable when this returns.

    Raises:
        ConfigError: The folder or file cannot be written.
    """
    rows = [
        {
            "entity": dict(names),
            "values": {key: _json_number(value) for key, value in values.items()},
        }
        for names, values in sorted(image.values.items(), key=lambda item: repr(item[0]))
    ]
    state = {"format": FORMAT, "cluster_id": cluster_id, "entities": rows}
    content = json.dumps(state, ensure_ascii=True, indent=1, allow_nan=False).encode()
    try:
        replace_file(path, content)
    except OSError as error:
        raise ConfigError(
            f"the state file cannot be written: {error}", location=str(path)
        ) from error


def _names(entity: Mapping[str, str | None]) -> Names:
    if not entity or not all(name is None or isinstance(name, str) for name in entity.values()):
        raise ValueError(f"{entity!r} is no entity")
    return names_of(entity.items())


def _number(value: object) -> float:
    if isinstance(value, str):
        return _WORDS[value]
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise TypeError(f"{value!r} is no number")
    return float(value)


def _json_number(value: float) -> float | str:
    if math.isfinite(value):
        return value
    return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
