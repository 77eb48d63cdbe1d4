"""The shipped alert rules in a form for tests, and with shorter durations.

Usage on a shell, as in docs/alerts.md: `python -m tests.alerts.rules --divide 300 > quick.yaml`.
"""

import argparse
import copy
import json
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import yaml

TREE = Path(__file__).parents[2]
FILES = TREE / "charts" / "kafka-quota-reconciler" / "files"
ALERTS = FILES / "alerts.yaml"
DASHBOARD = FILES / "dashboard.json"
CASES = Path(__file__).parent / "cases.yaml"
RUNBOOKS = TREE / "docs" / "runbooks"

SECONDS: Final = {"s": 1, "m": 60, "h": 3600, "d": 86400}


def groups() -> list[dict[str, Any]]:
    """The rule groups of the chart."""
    document: dict[str, Any] = yaml.safe_load(ALERTS.read_text(encoding="utf-8"))
    return list(document["groups"])


def rules() -> Iterator[dict[str, Any]]:
    """Every rule, recording rules included."""
    for group in groups():
        yield from group["rules"]


def alerts() -> dict[str, dict[str, Any]]:
    """Every alert by name."""
    return {rule["alert"]: rule for rule in rules() if "alert" in rule}


def quick(divisor: float, *, every: str = "1s") -> dict[str, object]:
    """The same rules with each `for:` and each range of a query divided, evaluated each second.

    Nothing else changes, so a test that waits for these alerts tests the shipped expressions.
    """
    quick_groups = copy.deepcopy(groups())
    for group in quick_groups:
        group["interval"] = every
        for rule in group["rules"]:
            if "for" in rule:
                rule["for"] = _divided(rule["for"], divisor)
            rule["expr"] = re.sub(
                r"\[(\d+[smhd])\]", lambda m: f"[{_divided(m[1], divisor)}]", rule["expr"]
            )
    return {"groups": quick_groups}


def _divided(duration: str, divisor: float) -> str:
    seconds = int(duration[:-1]) * SECONDS[duration[-1]] / divisor
    return f"{max(round(seconds * 1000), 1)}ms"


def metrics_of(expression: str) -> Mapping[str, set[str]]:
    """Names of time series in a query, each with the labels that its own selector names."""
    labels_by_name: dict[str, set[str]] = {}
    bare = re.sub(r'"(?:[^"\\]|\\.)*"', '""', expression)
    for name, selector in re.findall(
        r"\b([a-z][a-z0-9]*[_:][a-zA-Z0-9_:]+)\b(?:\{([^}]*)\})?", bare
    ):
        if name in FUNCTIONS:
            continue
        labels_by_name.setdefault(name, set()).update(re.findall(r"(\w+)\s*[=!]~?", selector))
    return labels_by_name


FUNCTIONS: Final = frozenset(
    {
        "label_join",
        "label_replace",
        "last_over_time",
        "histogram_quantile",
        "client_id",
        "group_left",
    }
)
"""Names with an underscore that are not time series."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Prints the quick rules as JSON, which is YAML."""
    parser = argparse.ArgumentParser(prog="python -m tests.alerts.rules", description=__doc__)
    parser.add_argument("--divide", type=float, default=300.0, help="divisor of every duration")
    options = parser.parse_args(arguments)
    sys.stdout.write(json.dumps(quick(options.divide), indent=2) + "\n")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
