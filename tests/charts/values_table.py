"""The table of values in the chart's README: names and defaults of values.yaml, descriptions of values.schema.json.

`--write` generates it, `--check` compares.
"""

import argparse
import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

CHART = Path(__file__).parents[2] / "charts" / "kafka-quota-reconciler"
README = CHART / "README.md"
BEGIN = "<!-- values: made by `python -m tests.charts.values_table --write` -->\n"
END = "<!-- end of values -->\n"
HEAD = "| value | default | meaning |\n| --- | --- | --- |\n"
CELL = str.maketrans({"|": "\\|", "\n": " "})


def rows(values: Mapping[str, Any], schema: Mapping[str, Any], above: str = "") -> Iterator[str]:
    """One row for each value without nested values, in the order of values.yaml."""
    for name, value in values.items():
        path, field = f"{above}{name}", schema["properties"][name]
        if isinstance(value, dict) and value and "properties" in field:
            yield from rows(value, field, f"{path}.")
        else:
            default = json.dumps(value, ensure_ascii=False).translate(CELL)
            yield f"| `{path}` | `{default}` | {field['description'].translate(CELL)} |\n"


def table() -> str:
    """The table of the current values."""
    values = yaml.safe_load((CHART / "values.yaml").read_text(encoding="utf-8"))
    schema = json.loads((CHART / "values.schema.json").read_text(encoding="utf-8"))
    return HEAD + "".join(rows(values, schema))


def page(text: str) -> str:
    """The README with the current table.

    Raises:
        ValueError: The README does not contain the two marks.
    """
    head, begin, remaining_text = text.partition(BEGIN)
    _, end, tail = remaining_text.partition(END)
    if not begin or not end:
        raise ValueError(f"{README.name} needs the lines {BEGIN!r} and {END!r}")
    return f"{head}{BEGIN}{table()}{END}{tail}"


def main(arguments: Sequence[str] | None = None) -> int:
    """Write or compare; return 1 if a file differs."""
    parser = argparse.ArgumentParser(description=__doc__)
    action = parser.add_mutually_exclusive_group(required=True)
    action.add_argument("--write", action="store_true")
    action.add_argument("--check", action="store_true")
    text = README.read_text(encoding="utf-8")
    expected = page(text)
    if parser.parse_args(arguments).write:
        README.write_text(expected, encoding="utf-8")
    elif text != expected:
        sys.stderr.write(f"{README.name}: run `make generate`; the table of values is stale\n")
        return 1
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
