"""Faults planted where plans are posted: whose comment it is, where it goes, what a stranger's document may say."""

from tests.mutants.fault import Fault

FAULTS: tuple[Fault, ...] = (
    Fault(
        what="a copy of our marker by anybody is taken for ours",
        file="reconciler/forge/sticky.py",
        old="    return [note for note in marked if note.author.casefold() == own.casefold()]",
        new="    return [note for note in marked if own]",
        tests=("tests/forge/test_sticky.py",),
    ),
    Fault(
        what="an issue of anybody with our marker is closed",
        file="reconciler/forge/incident.py",
        old="(issue for issue in marked if issue.author.casefold() == own.casefold())",
        new="(issue for issue in marked if own)",
        tests=("tests/forge/test_incident.py",),
    ),
    Fault(
        what="a write whose answer got lost is sent again at once",
        file="reconciler/forge/rest.py",
        old='_REPEATABLE: Final = frozenset({"GET", "PUT", "PATCH", "DELETE"})',
        new='_REPEATABLE: Final = frozenset({"GET", "PUT", "PATCH", "DELETE", "POST"})',
        tests=("tests/forge/test_rest.py",),
    ),
    Fault(
        what="the store of artifacts gets the token",
        file="reconciler/forge/rest.py",
        old="        if self._token is not None and not open_:",
        new="        if self._token is not None:",
        tests=("tests/forge/test_rest.py",),
    ),
    Fault(
        what="the next page is asked for wherever it is said to be",
        file="reconciler/forge/answers.py",
        old="            if urlsplit(target)[:2] != urlsplit(here)[:2]:",
        new="            if urlsplit(target)[:2] == ():",
        tests=("tests/forge/test_rest.py",),
    ),
    Fault(
        what="a token goes over an open line",
        file="reconciler/forge/rest.py",
        old='    if split.scheme == "http" and not _is_loopback(split.hostname):',
        new='    if split.scheme == "http" and not split.hostname:',
        tests=("tests/forge/test_rest.py",),
    ),
    Fault(
        what="a pull request is found by its commit alone",
        file="reconciler/forge/github.py",
        old='        and maybe(pull, "head.repo.full_name").casefold() == head.repository.casefold()',
        new='        and maybe(pull, "head.sha") == head.sha',
        tests=("tests/forge/test_github.py",),
    ),
    Fault(
        what="a run that failed counts as a review",
        file="reconciler/forge/reviewed.py",
        old='        and maybe(one, "conclusion") == "success"\n',
        new="",
        tests=("tests/forge/test_github.py",),
    ),
    Fault(
        what="a zip may hold anything beside the plan",
        file="reconciler/forge/reviewed.py",
        old="            if names != [_MEMBER]:",
        new="            if _MEMBER not in names:",
        tests=("tests/forge/test_github.py",),
    ),
    Fault(
        what="an output ends where anybody can guess",
        file="reconciler/forge/runner.py",
        old='        delimiter = f"kquota-{secrets.token_hex(16)}"',
        new='        delimiter = "kquota-0"',
        tests=("tests/forge/test_runner.py",),
    ),
    Fault(
        what="a label ends its marker early",
        file="reconciler/forge/marker.py",
        old="quote(self.label, safe='').replace('-', '%2D')",
        new="self.label",
        tests=("tests/forge/test_sticky.py",),
    ),
    Fault(
        what="counts of a posted plan are believed",
        file="reconciler/render/read_preview.py",
        old="        if reader.whole() != found[name]:",
        new="        if reader.whole() < 0:",
        tests=("tests/render/test_read_preview.py",),
    ),
    Fault(
        what="a fork's plan looks like one of ours",
        file="reconciler/cli/posting.py",
        old="    if not untrusted or made.preview is None:",
        new="    if untrusted or made.preview is None:",
        tests=("tests/cli/test_post.py",),
    ),
    Fault(
        what="a number and a head that disagree are posted all the same",
        file="reconciler/cli/posting_github.py",
        old="    await here.check_pull(place.pull, head)\n",
        new="",
        tests=("tests/cli/test_post.py",),
    ),
)
