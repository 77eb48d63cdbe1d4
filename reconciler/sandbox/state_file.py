"""The sandbox's state between runs: one JSON file, replaced atomically.

Values that JSON has no number for are stored as text ("NaN", "Infinity"): the lines before 4.4 accept them.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Final

from reconciler.base.durable_files import replace_file
from reconciler.codecs.reader import DocumentReader, parsed
from reconciler.errors import ConfigError
from reconciler.render.json_values import Json, dump, value_json
from reconciler.sandbox.broker_rules.image import Image, QuotaRecord, names_of

FORMAT: Final = 1


def load(path: Path) -> tuple[str, Image] | None:
    """Return cluster id and image, or ``None`` if there is no file yet.

    Raises:
        ConfigError: The file exists but cannot be read as a state; it is not overwritten then.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        return None
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"the state file cannot be read: {error}", location=str(path)) from error
    fields = parsed(text, location=str(path)).fields("format", "cluster_id", "entities")
    if fields["format"].integer() != FORMAT:
        fields["format"].fail(f"{FORMAT}; move the file to start over")
    return fields["cluster_id"].text(), Image().applied(
        record for row in fields["entities"].items() for record in _records(row)
    )


def _records(row: DocumentReader) -> Iterator[QuotaRecord]:
    fields = row.fields("entity", "values")
    names = names_of(
        (kind, name.optional(DocumentReader.text)) for kind, name in fields["entity"].pairs()
    )
    if not names:
        fields["entity"].fail("an entity with a type and a name")
    for key, value in fields["values"].pairs():
        yield QuotaRecord(names=names, key=key, value=value.set_value())


def save(path: Path, cluster_id: str, image: Image) -> None:
    """Write the state atomically; durable when this returns.

    Raises:
        ConfigError: The folder or file cannot be written.
    """
    rows: list[Json] = [
        {"entity": dict(names), "values": {key: value_json(value) for key, value in values.items()}}
        for names, values in sorted(image.values.items(), key=lambda item: repr(item[0]))
    ]
    content = dump({"format": FORMAT, "cluster_id": cluster_id, "entities": rows}).encode("ascii")
    try:
        replace_file(path, content)
    except OSError as error:
        raise ConfigError(
            f"the state file cannot be written: {error}", location=str(path)
        ) from error
