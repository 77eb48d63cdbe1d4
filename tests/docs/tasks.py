"""How soon a reader of the README has the answer to a usual question: ``python -m tests.docs.tasks`` prints a table.

A reader goes to "How do I …", looks over its headings, then over the questions below the one that fits, and reads one
answer: at 240 words a minute, and a second for each click.
"""

import re
import sys
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
README = ROOT / "README.md"
PAGE = ROOT / "docs" / "how-do-i.md"
WORDS_A_SECOND = 240 / 60
MOST_SECONDS = 30

TASKS = {
    "remove a limit for good": ("Remove a limit for good", "deletionPolicy: Delete"),
    "raise a limit for two hours": ("Raise a limit for two hours", "--for 2h"),
    "undo the last apply": ("Undo the last apply", "kquota rollback --last"),
    "why was this client throttled": ("Find why a client was throttled", "kquota resolve"),
    "my pull request is refused": ("Find why my pull request is refused", "for each reason"),
    "install without cluster-wide rights": (
        "Install without cluster-wide rights",
        "watch.namespaces",
    ),
    "stop managing a user": ("Stop managing a user", "deletionPolicy: Retain"),
    "move from another tool": ("Move from another tool", "kquota import"),
    "rights of the applier": ("Give the applier its rights", "AlterConfigs"),
    "what a reason in a status means": ("Read a reason in a status", "kubectl describe"),
}
"""Each task with its question on the page, and words of the answer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Way:
    """The way from the README to an answer."""

    clicks: int
    words: int
    answer: str

    @property
    def seconds(self) -> float:
        return self.words / WORDS_A_SECOND + self.clicks


def plain(markdown: str) -> str:
    """The text that a reader sees: links by their words."""
    return re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", markdown).replace("*", "").replace("#", "")


def count_words(markdown: str) -> int:
    return len(plain(markdown).split())


def way_to(question: str) -> Way:
    """The way to the answer of a question of the page."""
    before, link, _ = README.read_text(encoding="utf-8").partition("](docs/how-do-i.md)")
    assert link, "the README has no link to the page"
    words = count_words(f"{before})")
    groups = re.split(r"^(?=## )", PAGE.read_text(encoding="utf-8"), flags=re.MULTILINE)
    words += count_words(groups[0])
    for group in groups[1:]:
        heading, *lines = group.splitlines()
        words += count_words(heading)
        rows = [re.fullmatch(r"- \*\*(.+?)\?\*\* (.+)", line) for line in lines if line]
        questions = [(row[1], row[2]) for row in rows if row]
        assert len(questions) == len(rows), heading
        for text, answer in questions if question in dict(questions) else ():
            words += count_words(text)
            if text == question:
                return Way(clicks=1, words=words + count_words(answer), answer=answer)
    raise LookupError(question)


def main() -> int:
    ways = {task: way_to(question) for task, (question, _) in TASKS.items()}
    lines = [f"{'task':36} clicks  words  seconds"]
    lines += [
        f"{task:36} {way.clicks:6} {way.words:6} {way.seconds:8.0f}" for task, way in ways.items()
    ]
    sys.stdout.write("\n".join(lines) + "\n")
    return int(any(way.seconds >= MOST_SECONDS for way in ways.values()))


if __name__ == "__main__":
    sys.exit(main())
