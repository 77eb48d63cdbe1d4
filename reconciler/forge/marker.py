"""The hidden line that finds a comment or an issue again. Made and recognised here, nowhere else.

A marker alone proves nothing: any user can copy it into a comment of their own. So everything that looks for one also
asks who the author is.
"""

from dataclasses import dataclass
from hashlib import sha256
from typing import Final, Literal
from urllib.parse import quote

from reconciler.errors import UsageError

Kind = Literal["plan", "outcome", "drift"]

MAX_LABEL: Final = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class Marker:
    """Which of our comments it is: one per kind and label.

    Attributes:
        kind: What the comment reports.
        label: Which environment, as the user calls it; any text.

    Raises:
        UsageError: The label is too long.
    """

    kind: Kind
    label: str

    def __post_init__(self) -> None:
        if len(self.label) > MAX_LABEL:
            raise UsageError(f"the label has {len(self.label)} characters; {MAX_LABEL} are allowed")

    @property
    def line(self) -> str:
        """An HTML comment. Two hyphens would end it early in some renderers, so a label's hyphens are escaped."""
        return f"<!-- kquota:{self.kind}:{quote(self.label, safe='').replace('-', '%2D')} -->"

    def begins(self, body: str) -> bool:
        """Whether a text is ours: the marker is its whole first line, which does not happen by accident."""
        return body.replace("\r\n", "\n").startswith(f"{self.line}\n")


_STATE: Final = "<!-- kquota:state:"


def with_state(marker: Marker, facts: str) -> str:
    """A marker and, in the next line, a fingerprint of the facts in the text."""
    return f"{marker.line}\n{_STATE}{fingerprint(facts)} -->"


def state_of(body: str) -> str:
    """The fingerprint that a text of ours carries; "" if it has none."""
    second = body.replace("\r\n", "\n").split("\n", 2)[1:2]
    line = second[0] if second else ""
    return line.removeprefix(_STATE).removesuffix(" -->") if line.startswith(_STATE) else ""


def fingerprint(facts: str) -> str:
    """A short name for facts."""
    return sha256(facts.encode("utf-8", "surrogatepass")).hexdigest()[:32]
