from reconciler.wire.error_codes import ERROR_CODES


def test_every_code_from_minus_one_on_is_known() -> None:
    assert list(ERROR_CODES) == list(range(-1, 137))
    assert all(number == code.number for number, code in ERROR_CODES.items())


def test_names_are_unique_and_sentences_follow_the_style_of_the_project() -> None:
    assert len({code.name for code in ERROR_CODES.values()}) == len(ERROR_CODES)
    assert all(code.sentence and code.sentence[-1] != "." for code in ERROR_CODES.values())
