from reconciler.wire.error_codes import ERROR_CODES, NOT_CONTROLLER, REQUEST_TIMED_OUT, error_code


def test_every_code_from_minus_one_on_is_known() -> None:
    assert list(ERROR_CODES) == list(range(-1, 137))
    assert all(number == code.number for number, code in ERROR_CODES.items())


def test_names_are_unique_and_sentences_follow_the_style_of_the_project() -> None:
    assert len({code.name for code in ERROR_CODES.values()}) == len(ERROR_CODES)
    assert all(code.sentence and code.sentence[-1] != "." for code in ERROR_CODES.values())


def test_an_unknown_code_keeps_its_number() -> None:
    code = error_code(1234)
    assert (code.number, code.name, code.retriable) == (1234, "UNKNOWN(1234)", False)
    assert str(code) == "UNKNOWN(1234) (1234)"


def test_transient_codes_are_retriable() -> None:
    assert error_code(REQUEST_TIMED_OUT).retriable
    assert error_code(NOT_CONTROLLER).retriable
    assert not error_code(31).retriable
    assert str(error_code(41)) == "NOT_CONTROLLER (41)"
