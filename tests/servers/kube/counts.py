"""Counts of API server requests, from its metrics."""

import re
from collections import Counter
from typing import NamedTuple

SAMPLE = re.compile(r"apiserver_request_total\{(?P<labels>[^}]*)\} (?P<count>\S+)")
LABEL = re.compile(r'(\w+)="([^"]*)"')
READS = ("GET", "LIST", "WATCH", "CONNECT")


class Request(NamedTuple):
    """A kind of request. Server-side apply has the verb APPLY; `subresource` may be empty."""

    verb: str
    resource: str
    subresource: str = ""

    @property
    def writes(self) -> bool:
        """Whether the verb writes."""
        return self.verb not in READS


def request_counts(metrics: str) -> Counter[Request]:
    """Parse `/metrics`: requests with any status since the API server started.

    Dry runs, refusals and requests of controllers and other tests are included, so compare two counts,
    and only of the relevant kinds. A request is counted shortly after its response: poll for the expected
    number.
    """
    counts: Counter[Request] = Counter()
    for sample in SAMPLE.finditer(metrics):
        labels = dict(LABEL.findall(sample["labels"]))
        request = Request(labels["verb"], labels["resource"], labels["subresource"])
        counts[request] += int(float(sample["count"]))
    return counts
