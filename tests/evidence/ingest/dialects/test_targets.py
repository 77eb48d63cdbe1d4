"""A target as text says the same when it is read again, and an instance alone is itself."""

from hypothesis import given
from hypothesis import strategies as st

from reconciler.evidence.ingest.dialects.targets import ScrapeTarget

TEXT = st.text(st.characters(exclude_characters="\t"), max_size=12)


@given(TEXT, TEXT, st.sampled_from(["", "0", "17"]))
def test_a_target_is_read_back(instance: str, job: str, broker: str) -> None:
    target = ScrapeTarget(instance, job, broker)
    assert ScrapeTarget.read(target.text) == target


def test_an_instance_alone_is_its_own_text() -> None:
    assert ScrapeTarget("b1:7071").text == "b1:7071"
    assert ScrapeTarget.read("b1:7071") == ScrapeTarget("b1:7071")


def test_a_label_with_a_tab_cannot_pretend_to_be_another_target() -> None:
    assert ScrapeTarget.read(ScrapeTarget("b1\tbroker 9").text).broker == ""
