"""What a point was scraped from: the column `instance` of a point is a target as one text; and which replica saw it."""

from typing import Final, NamedTuple

_APART: Final = "\t"
_JOB: Final = "job "
_BROKER: Final = "broker "


class ScrapeTarget(NamedTuple):
    """What Prometheus scraped. Several may share an instance: two jobs on one host, or brokers behind one federation.

    Attributes:
        instance: The label ``instance``.
        job: The label ``job``, "" = none.
        broker: The id that ``telemetry.brokerId`` gave, "" = none: then app-info says who it is.
    """

    instance: str
    job: str = ""
    broker: str = ""

    @property
    def text(self) -> str:
        """As a point holds it; without job and broker it is the instance alone."""
        parts = [self.instance.replace(_APART, " ")]
        if self.job:
            parts.append(_JOB + self.job.replace(_APART, " "))
        if self.broker:
            parts.append(_BROKER + self.broker)
        return _APART.join(parts)

    @classmethod
    def read(cls, text: str) -> "ScrapeTarget":
        """The inverse of :attr:`text`."""
        instance, *fields = text.split(_APART)
        job = next((target_field for target_field in fields if target_field.startswith(_JOB)), "")
        broker = next(
            (target_field for target_field in fields if target_field.startswith(_BROKER)), ""
        )
        return cls(instance, job.removeprefix(_JOB), broker.removeprefix(_BROKER))


class SampleOrigin(NamedTuple):
    """Who saw what: a target as one replica of Prometheus scraped it."""

    target: ScrapeTarget
    replica: str
