"""A hundred random sequences of command lines on a real broker end in the state that the model predicts."""

import pytest

from tests.sequences.commands import check
from tests.sequences.drivers import CommandLineDriver

pytestmark = pytest.mark.integration


def test_a_sequence_of_command_lines_ends_in_the_predicted_state(
    empty_kafka, tmp_path, monkeypatch
):
    cluster = empty_kafka("4.3.1")
    driver = CommandLineDriver.factory(tmp_path, monkeypatch, cluster.port(), cluster.cluster_id)
    check(driver, range(100))
