"""Planted faults quote source text: each quotation occurs in its file. No fault is run."""

from collections import defaultdict

import pytest

from tests.mutants.__main__ import FAULTS, ROOT
from tests.mutants.fault import Fault
from tests.simulation.planted import SIMULATED_FAULTS

FAULTS_OF: dict[str, list[Fault]] = defaultdict(list)
for planted in (*FAULTS, *SIMULATED_FAULTS):
    FAULTS_OF[planted.file.split("/")[1]].append(planted)


@pytest.mark.parametrize("package", FAULTS_OF)
def test_a_planted_fault_quotes_text_that_occurs_once_in_its_file_and_names_tests(
    package: str,
) -> None:
    for fault in FAULTS_OF[package]:
        text = (ROOT / fault.file).read_text(encoding="utf-8")
        assert text.count(fault.old) == 1, f"{fault.file}: {fault.what}"
        for test in fault.tests:
            file, _, function = test.partition("::")
            assert function.partition("[")[0] in (ROOT / file).read_text(encoding="utf-8"), test
