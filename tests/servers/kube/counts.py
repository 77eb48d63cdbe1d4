"""How many requests the API server has served, by its own metrics."""

import re
from collections import Counter
from typing import NamedTuple

SAMPLE = re.compile(r"apiserver_request_total\{(?P<labels>[^}]*)\} (?P<count>\S+)")
LABEL = re.compile(r'(\w+)="([^"]*)"')
READS = ("GET", "LIST", "WATCH", "CONNECT")


class Request(NamedTuple):
    """One kind of request. Server-side apply has the verb APPLY; `subresource` is often empty."""

    verb: str
    resource: str
    subresource: str = ""

    @property
    def writes(self) -> bool:
        """Whether the verb changes something."""
        return self.verb not in READS


def request_counts(metrics: str) -> Counter[Request]:
    """The requests answered with any status since the API server started, from its `/metrics`.

    Dry runs and refusals count too, and so does everybody: the controllers, and the end of another
    test's namespace. Take the difference of two, and only the kinds that you mean. A request counts
    shortly after its answer: poll for a number that you expect.
    """
    found: Counter[Request] = Counter()
    for sample in SAMPLE.finditer(metrics):
        labels = dict(LABEL.findall(sample["labels"]))
        request = Request(labels["verb"], labels["resource"], labels["subresource"])
        found[request] += int(float(sample["count"]))
    return found
