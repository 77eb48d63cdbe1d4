"""Planted faults quote source text: each quotation occurs in its file. No fault is run."""

import pytest

from tests.mutants.__main__ import FAULTS, ROOT
from tests.mutants.fault import Fault
from tests.simulation.git.planted_faults import GIT_PLANTED
from tests.simulation.kube.planted_faults import OPERATOR_FAULTS


@pytest.mark.parametrize(
    "fault", [*FAULTS, *GIT_PLANTED, *OPERATOR_FAULTS], ids=lambda fault: fault.what
)
def test_a_planted_fault_quotes_text_that_occurs_once_in_its_file_and_names_tests(
    fault: Fault,
) -> None:
    path = ROOT / fault.file
    assert path.exists(), fault.file
    assert path.read_text(encoding="utf-8").count(fault.old) == 1, fault.file
    for test in fault.tests:
        file, _, function = test.partition("::")
        assert (ROOT / file).exists(), test
        assert function.partition("[")[0] in (ROOT / file).read_text(encoding="utf-8"), test
