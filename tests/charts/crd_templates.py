"""Generates the chart's CRD templates from `crds/`: the same lines in a wrapper. `--write` or `--check`."""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).parents[2]
CRDS = ROOT / "crds"
TEMPLATES = ROOT / "charts" / "kafka-quota-reconciler" / "templates" / "crds"

BEGIN = (
    "{{- /* Made by `python -m tests.charts.crd_templates --write` from crds/. */ -}}\n"
    "{{- if .Values.crds.enabled }}\n"
)
METADATA = '  {{- include "kqr.crdMetadata" . | nindent 2 }}\n'
END = "{{- end }}\n"
AFTER = "metadata:\n"


def wrapped(text: str) -> str:
    """The template of a CRD: its text with the chart's annotations and labels, if CRDs are enabled.

    Raises:
        ValueError: The text contains template braces, or not exactly one unindented `metadata:`.
    """
    if "{{" in text:
        raise ValueError("the text would be taken for a template")
    head, anchor, tail = text.partition(f"\n{AFTER}")
    if not anchor or f"\n{AFTER}" in tail:
        raise ValueError("one `metadata:` is needed at the left margin")
    return f"{BEGIN}{head}\n{AFTER}{METADATA}{tail}{END}"


def unwrapped(template: str) -> str:
    """The CRD's text in a template of the chart."""
    inner = template.removeprefix(BEGIN).removesuffix(END)
    return inner.replace(f"\n{AFTER}{METADATA}", f"\n{AFTER}", 1)


def expected() -> dict[Path, str]:
    """Every template with its expected text."""
    return {
        TEMPLATES / path.name: wrapped(path.read_text(encoding="utf-8"))
        for path in sorted(CRDS.glob("*.yaml"))
    }


def stale() -> list[Path]:
    """Templates that differ from `crds/`, are missing, or have no CRD."""
    templates = expected()
    different = [
        path
        for path, text in templates.items()
        if not path.exists() or path.read_text(encoding="utf-8") != text
    ]
    return different + sorted(set(TEMPLATES.glob("*.yaml")) - set(templates))


def main(arguments: Sequence[str] | None = None) -> int:
    """Write or compare; return 1 if a file differs."""
    parser = argparse.ArgumentParser(description=__doc__)
    what = parser.add_mutually_exclusive_group(required=True)
    what.add_argument("--write", action="store_true")
    what.add_argument("--check", action="store_true")
    if parser.parse_args(arguments).write:
        for path, text in expected().items():
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
    for path in (paths := stale()):
        sys.stderr.write(f"{path.relative_to(ROOT)} is not crds/{path.name}\n")
    return 1 if paths else 0


if __name__ == "__main__":
    raise SystemExit(main())
