"""Examples for engines of others: SQL of the page, a notebook and an Airflow DAG run on tables that kquota wrote."""

import json
import os
import re
import runpy
import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace

import duckdb
import pytest

from reconciler.cli import main
from reconciler.evidence.store.files import table_store
from reconciler.evidence.store.lake import Lake
from reconciler.evidence.store.stored_days import UnitContent
from reconciler.usage.tables import USAGE_SAMPLE
from tests.evidence.store import rows
from tests.fakes.clock import FakeClock

TREE = Path(__file__).parents[2]
EXAMPLES = TREE / "examples" / "recorded-use"
CLUSTER = "4L6g3nShT-eMCtK--X86sw"
SQL = re.findall(r"```sql\n(.*?)```", (TREE / "docs" / "tables.md").read_text(), re.DOTALL)


@pytest.fixture
def lake(tmp_path, monkeypatch):
    """Two days of two users, in the folder `lake`."""
    monkeypatch.chdir(tmp_path)
    written = Lake(table_store.opened("lake", create=True), clock=FakeClock())
    for number in range(2):
        samples = rows.usage(number, users=["alice", "bob"], cluster_id=CLUSTER)
        written.replace(rows.unit(USAGE_SAMPLE, number, CLUSTER), UnitContent(rows=samples))
    return written


@pytest.mark.usefixtures("lake")
def test_the_sql_of_the_page_runs_on_duckdb():
    (query,) = (text for text in SQL if "read_parquet" in text)
    found_rows = sorted((row[0], row[3]) for row in duckdb.sql(query).fetchall())
    # 10, 20 and 30 bytes per second, each for 30 s, on two days
    assert found_rows == [("alice", 1_800)] * 2 + [("bob", 1_800)] * 2


@pytest.mark.integration
@pytest.mark.usefixtures("lake")
def test_the_sql_of_the_page_runs_on_spark(tmp_path):
    """A JVM that another test started has that test's working directory, so the path is made absolute."""
    from reconciler.evidence.spark import session  # noqa: PLC0415
    from reconciler.evidence.spark.session_settings import (  # noqa: PLC0415
        SessionSettings,
    )

    (text,) = (text for text in SQL if "temporary view" in text)
    view, query = (part for part in text.split(";") if part.strip())
    with session.opened(SessionSettings(master="local[1]")) as spark:
        spark.sql(view.replace("'lake/", f"'{tmp_path}/lake/"))
        assert [tuple(row) for row in spark.sql(query).collect()] == [("1", 30)]


@pytest.mark.usefixtures("lake")
def test_the_notebook_runs(tmp_path):
    """Without Jupyter: its code cells one after the other."""
    notebook = json.loads((EXAMPLES / "usage.ipynb").read_text(encoding="utf-8"))
    cells = [cell["source"] for cell in notebook["cells"] if cell["cell_type"] == "code"]
    script = tmp_path / "usage.py"
    script.write_text("\n".join("".join(lines) for lines in cells), encoding="utf-8")
    names = runpy.run_path(str(script))
    assert names["by_hour"]["bytes"].to_list() == [1_800] * 4
    rows_by_user = sorted(names["throttled"].select("user", "peak_units", "throttled_ms").rows())
    assert rows_by_user == [("alice", 30, 0), ("bob", 30, 0)]


class Operator(SimpleNamespace):
    """A task of Airflow, which is not installed: its arguments, and the tasks after it."""

    def __rshift__(self, after):
        after.before = self
        return after


def test_the_airflow_dag_is_three_commands_in_order(monkeypatch):
    class Dag(SimpleNamespace):
        def __enter__(self):
            return self

        def __exit__(self, *_):
            return None

    for name, values in (
        ("airflow", {"DAG": Dag}),
        ("airflow.providers", {}),
        ("airflow.providers.standard", {}),
        ("airflow.providers.standard.operators", {}),
        ("airflow.providers.standard.operators.bash", {"BashOperator": Operator}),
    ):
        module = ModuleType(name)
        vars(module).update(values)
        monkeypatch.setitem(sys.modules, name, module)
    names = runpy.run_path(str(EXAMPLES / "airflow_dag.py"))
    assert names["report"].before.before is names["snapshot"]
    for task in (names["snapshot"], names["ingest"], names["report"]):
        words = re.sub(r"\{\{.*?\}\}", "day", task.bash_command).split()
        monkeypatch.setenv("KQUOTA_LAKE", os.devnull)
        assert words[0] == "kquota"
        assert main.main([*words[1:], "--help"]) == 0, words
