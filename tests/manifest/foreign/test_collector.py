"""Collection, trees and the table of tools, which all readers share."""

import pytest

from reconciler.errors import QuotaValueError
from reconciler.manifest.foreign.collector import ImportedLimit


def imported_limit(text: str, *, live: bool = False) -> ImportedLimit:
    return ImportedLimit(key="producer_byte_rate", text=text, line=1, live=live)


@pytest.mark.parametrize(
    "text",
    ["", "017", "1_000", "0x10", "12:30", "1.", ".5", "+1", "NaN", "1e99999", "٣", "1" * 401],
)
def test_a_number_with_an_ambiguous_spelling_is_refused(text):
    with pytest.raises(QuotaValueError):
        imported_limit(text).value()
