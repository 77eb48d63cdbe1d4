"""Faults planted in the reading of manifests."""

from tests.mutants.fault import Fault

READER = "reconciler/manifest/syntax/block_reader.py"
LAWS = ("tests/manifest/syntax/test_block_reader.py",)

FAULTS: tuple[Fault, ...] = (
    Fault(
        what="of a key that is given twice the last one counts",
        file=READER,
        old="        if key in entries:\n            raise _NotPlain\n",
        new="",
        tests=LAWS,
    ),
    Fault(
        what="a line with fewer blanks than the first one ends the document",
        file=READER,
        old="    return None if end < len(rows) else",
        new="    return None if end < 0 else",
        tests=LAWS,
    ),
    Fault(
        what="a line below a value with more blanks is left out",
        file=READER,
        old="    if at < len(rows) and rows[at][1] > depth:\n        raise _NotPlain\n",
        new="    while at < len(rows) and rows[at][1] > depth:\n        at += 1\n",
        tests=LAWS,
    ),
    Fault(
        what="a key without a value takes the next line of its own level",
        file=READER,
        old="rows[at][1] <= depth or level",
        new="rows[at][1] < depth or level",
        tests=LAWS,
    ),
    Fault(
        what="the marker of a document has no line",
        file=READER,
        old="text, first_line = text[4:], first_line + 1",
        new="text, first_line = text[4:], first_line",
        tests=LAWS,
    ),
    Fault(
        what="a quoted text may be a number",
        file=READER,
        old="plain=not is_quoted",
        new="plain=True",
        tests=LAWS,
    ),
    Fault(
        what="lines that cannot be read here are left out",
        file=READER,
        old="    if not rows or None in matches:",
        new="    if not rows:",
        tests=LAWS,
    ),
    Fault(
        what="plain manifests have no bound on their number of nodes",
        file="reconciler/manifest/syntax/yaml_parser.py",
        old="    if block is not None and block[1] <= budget.most:\n",
        new="    if block is not None:\n",
        tests=LAWS,
    ),
)
