"""The file map of DESIGN.md, from the first line of each module: ``python -m tests.file_map --write``."""

import ast
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
DESIGN = ROOT / "DESIGN.md"
HEADING = "## 11. File map"
PACKAGES = (
    "", "quota", "usage", "wire", "client", "sandbox", "manifest", "inventory", "git", "reconcile", "render",
    "lake", "telemetry", "spark", "metrics", "notify", "forge", "loop", "kube", "cli",
)  # fmt: skip


def first_line(path: Path) -> str:
    return (ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or "").partition("\n")[0]


def file_map() -> str:
    """The section as it should be."""
    parts = [
        f"{HEADING}\n\nOne line each, as the file itself begins; `python -m tests.file_map --write` makes it.\n"
    ]
    for package in PACKAGES:
        folder = ROOT / "reconciler" / package
        found = sorted(folder.rglob("*.py") if package else folder.glob("*.py"))
        lines = [
            f"- `{path.relative_to(folder).as_posix()}` {first_line(path).replace('``', '`')}"
            for path in found
            if path.name not in {"__init__.py", "__main__.py"}
        ]
        parts.append(f"**`{folder.relative_to(ROOT).as_posix()}/`**\n\n" + "\n".join(lines) + "\n")
    return "\n".join(parts)


def replaced(design: str) -> str:
    """The design with the section as it should be."""
    before, _, rest = design.partition(HEADING)
    _, _, after = rest.partition("\n## ")
    return f"{before}{file_map()}\n## {after}"


if __name__ == "__main__":
    text = DESIGN.read_text(encoding="utf-8")
    if "--write" in sys.argv:
        _ = DESIGN.write_text(replaced(text), encoding="utf-8")
    elif replaced(text) != text:
        sys.exit("the file map of DESIGN.md is out of date: python -m tests.file_map --write")
