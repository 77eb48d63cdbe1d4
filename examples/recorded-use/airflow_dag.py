"""A DAG for Airflow 3: each night recorded use into the lake, copies for pull requests, then a report.

Needs kquota with the extra `usage` on the workers, `kquota.yaml` in PROJECT, and the credentials of the lake in their
environment. Runs may overlap, be repeated and come late: a day is replaced whole, and never by less.
"""

import datetime as dt

from airflow import DAG
from airflow.providers.standard.operators.bash import BashOperator

PROJECT = "/opt/kquota"
LAKE = "s3://metrics/kquota"

with DAG(
    dag_id="kquota_recorded_use",
    schedule="15 2 * * *",
    start_date=dt.datetime(2026, 1, 1, tzinfo=dt.UTC),
    catchup=False,
    default_args={"retries": 2, "retry_delay": dt.timedelta(minutes=10)},
) as dag:
    snapshot = BashOperator(
        task_id="snapshot",
        cwd=PROJECT,
        bash_command="kquota snapshot --cluster prod --taken-at --out /tmp/limits-{{ ds_nodash }}.json",
    )
    ingest = BashOperator(
        task_id="ingest",
        cwd=PROJECT,
        bash_command=f"kquota usage ingest --cluster prod --lake {LAKE} --previews"
        " --snapshot /tmp/limits-{{ ds_nodash }}.json",
    )
    report = BashOperator(
        task_id="report",
        cwd=PROJECT,
        bash_command=f"kquota usage report --cluster prod --lake {LAKE} --from 7d --out /tmp/report.html",
    )
    snapshot >> ingest >> report
