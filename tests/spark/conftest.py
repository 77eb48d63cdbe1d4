"""The Spark session that all tests share: one JVM of 1 GB with two threads, started when it is first needed."""

from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession

from reconciler.spark import session
from tests.servers import jars

SETTINGS = session.Settings(master="local[2]", memory="1g", brief=True)


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    """A classic session; tests that take it are marked `integration`."""
    jars.java_identity()
    with session.opened(SETTINGS) as running:
        yield running
