"""Where jobs run, as chosen on the command line; loads no PySpark."""

import re
from dataclasses import dataclass

from reconciler.errors import ConfigError


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionSettings:
    """Where jobs run."""

    # A Spark master (`local[2]`, `spark://host:7077`, `k8s://…`, `yarn`); None = that of spark-submit or
    # `SPARK_REMOTE`, else all cores of this machine.
    master: str | None = None
    # `sc://host:port` of a Spark Connect server; excludes `master` and `memory`.
    remote: str | None = None
    # Heap of the JVM that is started here, such as `2g`; None = Spark's default of 1g.
    memory: str | None = None

    def __post_init__(self) -> None:
        if self.master and self.remote:
            raise ConfigError(
                "a session has a master or a remote address, not both",
                key="remote",
                hint="--remote names a Spark Connect server, which has its own master",
            )
        if self.remote and not self.remote.startswith("sc://"):
            raise ConfigError(
                f"{self.remote} is not the address of a Spark Connect server",
                key="remote",
                hint="such an address begins with sc://, like sc://spark.example.com:15002",
            )
        if self.memory and not re.fullmatch(r"[1-9]\d*[kmgt]b?", self.memory, re.IGNORECASE):
            raise ConfigError(
                f"{self.memory} is not an amount of memory", key="memory", hint="write 900m or 4g"
            )
        if self.remote and self.memory:
            raise ConfigError(
                "the memory of a Connect server is set where it is started", key="memory"
            )
