"""The executed plan of a data frame: forbidden operators, number of exchanges and sorts, columns that it reads.

For classic sessions: a Connect client has no access to executed plans.
"""

import contextlib
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from urllib.parse import unquote

from pyspark.sql import DataFrame, SparkSession

PYTHON = ("BatchEvalPython", "ArrowEvalPython", "PythonUDF", "MapInPandas", "PythonMapInArrow")
PRODUCTS = ("CartesianProduct", "BroadcastNestedLoopJoin")
_NODE = re.compile(r"^[\s:+\-]*(?:\*\(\d+\)\s*)?(?P<name>[A-Za-z]+)")


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """A plan as text, one node per line, equal before and after execution.

    Attributes:
        text: Spark's own text.
        nodes: The names of its operators, from the top.
    """

    text: str
    nodes: tuple[str, ...]

    def count(self, name: str) -> int:
        """How often an operator of exactly this name occurs; `Exchange` does not include broadcasts."""
        return self.nodes.count(name)

    def assert_native(self) -> None:
        """No Python for each row, and no cartesian join."""
        wrong = [name for name in (*PYTHON, *PRODUCTS) if name in self.text]
        assert not wrong, f"{wrong} in\n{self.text}"

    def columns_read(self) -> set[str]:
        """The columns that scans of files read."""
        scans = re.findall(r"FileScan parquet \[([^\]]*)\]", self.text)
        return {name.rpartition("#")[0] for each in scans for name in each.split(",") if name}


def of(frame: DataFrame) -> Plan:
    """The physical plan with adaptive parts: the initial one."""
    text = frame._jdf.queryExecution().executedPlan().toString()
    # After an execution, an adaptive plan is printed twice: take the final one.
    text = text.split("+- == Initial Plan ==")[0]
    nodes = [match["name"] for line in text.splitlines() if (match := _NODE.match(line))]
    return Plan(text=text, nodes=tuple(nodes))


def files_read(frame: DataFrame) -> set[str]:
    """The addresses of the files that a frame would read, in the notation of `Store.uri`."""
    return {
        "file://" + unquote(address.removeprefix("file:").lstrip("/").join(("/", "")))
        for address in frame.inputFiles()
    }


@contextlib.contextmanager
def rows_read(spark: SparkSession) -> Iterator[Callable[[], int]]:
    """Count the rows that tasks read from files since the block began, by the tasks' own metrics.

    Only stages of the block count: a session drops its oldest stages after a thousand.
    """
    context = spark.sparkContext
    scala, jvm, gateway = context._jsc.sc(), context._jvm, context._gateway
    assert jvm is not None
    assert gateway is not None
    none = gateway.new_array(jvm.double, 0)

    def stages() -> dict[int, int]:
        scala.listenerBus().waitUntilEmpty()
        stage_list = scala.statusStore().stageList(None, False, False, none, None)
        each = (stage_list.apply(n) for n in range(stage_list.size()))
        return {int(stage.stageId()): int(stage.inputRecords()) for stage in each}

    last = max(stages(), default=-1)
    yield lambda: sum(read for stage, read in stages().items() if stage > last)
