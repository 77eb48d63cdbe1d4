"""Fails when a test was skipped that allowed_skips.txt does not list: ``python -m tests.skips REPORT.xml…``."""

import sys
import xml.etree.ElementTree as ET
from pathlib import Path

ALLOWED = Path(__file__).parent / "allowed_skips.txt"


def allowed(text: str) -> dict[str, str]:
    """Node id -> reason; a line without a reason is an error."""
    entries: dict[str, str] = {}
    for line in text.splitlines():
        if not line.strip() or line.startswith("#"):
            continue
        node, separator, reason = line.partition(" # ")
        if not separator or not reason.strip():
            raise SystemExit(f"{ALLOWED}: no reason given for {line!r}")
        entries[node.strip()] = reason.strip()
    return entries


def skipped(report: Path) -> dict[str, str]:
    """``class::name`` of each skipped case in a JUnit report, with pytest's message."""
    messages: dict[str, str] = {}
    for case in ET.parse(report).iter("testcase"):
        mark = case.find("skipped")
        if mark is not None and mark.get("type") != "pytest.xfail":  # that one ran, strictly
            messages[f"{case.get('classname')}::{case.get('name')}"] = mark.get("message", "")
    return messages


def main(reports: list[str]) -> int:
    reasons = allowed(ALLOWED.read_text(encoding="utf-8"))
    total, strangers = 0, {}
    for report in map(Path, reports):
        cases = skipped(report)
        total += len(cases)
        strangers |= {node: why for node, why in cases.items() if node not in reasons}
    for node, why in sorted(strangers.items()):
        print(f"skipped without a listed reason: {node}: {why}")
    print(f"{total} skipped, {len(strangers)} of them not listed in {ALLOWED.name}")
    return 1 if strangers else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
