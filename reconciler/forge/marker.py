"""The hidden line that identifies kquota's comment or issue.

A marker alone proves nothing: any user can copy it into another comment. So every search for one also checks the
author.
"""

from hashlib import sha256
from typing import Final, Literal
from urllib.parse import quote

from msgspec import Struct

from reconciler.errors import UsageError

Kind = Literal["plan", "outcome", "drift"]

MAX_LABEL: Final = 100


class Marker(Struct, frozen=True, kw_only=True):
    """Identifies a comment of kquota: one per kind and label.

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
        """Whether the marker is the whole first line of a text."""
        return body.replace("\r\n", "\n").startswith(f"{self.line}\n")


_STATE: Final = "<!-- kquota:state:"


def with_state(marker: Marker, facts: str) -> str:
    """Return the marker and, in the next line, a fingerprint of the facts in the text."""
    return f"{marker.line}\n{_STATE}{fingerprint(facts)} -->"


def state_of(body: str) -> str:
    """Return the fingerprint in a posted text; "" if it has none."""
    second = body.replace("\r\n", "\n").split("\n", 2)[1:2]
    line = second[0] if second else ""
    return line.removeprefix(_STATE).removesuffix(" -->") if line.startswith(_STATE) else ""


def fingerprint(facts: str) -> str:
    """Return a short hash of facts."""
    return sha256(facts.encode("utf-8", "surrogatepass")).hexdigest()[:32]
