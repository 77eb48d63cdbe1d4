import copy
import pickle
import traceback

import pytest

from reconciler.base.secret import Secret, scrubbed

PLANTED = "pl4nted-secret"


@pytest.mark.parametrize("show", [str, repr, format, "{:>40}".format, "%s".__mod__, "{!r}".format])
def test_no_text_form_of_a_secret_shows_it(show) -> None:
    assert PLANTED not in show(Secret(PLANTED))


@pytest.mark.parametrize("take", [pickle.dumps, copy.copy, copy.deepcopy])
def test_a_secret_can_be_neither_pickled_nor_copied(take) -> None:
    with pytest.raises(TypeError):
        take(Secret(PLANTED))


def test_a_traceback_with_locals_does_not_show_a_secret() -> None:
    def fail(secret: Secret) -> None:
        raise RuntimeError(f"with {secret}")

    with pytest.raises(RuntimeError) as caught:
        fail(Secret(PLANTED))
    error = caught.value
    lines = traceback.TracebackException.from_exception(error, capture_locals=True).format()
    assert PLANTED not in "".join(lines)


def test_equal_texts_are_equal_secrets() -> None:
    assert Secret("a") == Secret("a") != Secret("b")
    assert Secret("a") != "a"
    assert len({Secret("a"), Secret("a")}) == 1
    assert not Secret("")


def test_a_secret_has_no_attribute_that_reveals_it() -> None:
    assert not hasattr(Secret(PLANTED), "__dict__")


@pytest.mark.parametrize(
    ("text", "secrets", "expected"),
    [
        ("bad client pl4nted-secret!", (PLANTED,), "bad client <hidden>!"),
        ("nothing here", (PLANTED, None), "nothing here"),
        ("one\ntwo\x1b[31m\tthree", (), "one two [31m three"),
        ("x" * 400, (), "x" * 300 + "..."),
        ("abc", ("b",), "<hidden>"),
    ],
)
def test_messages_of_peers_are_scrubbed(text, secrets, expected) -> None:
    hidden = [Secret(secret) if secret is not None else None for secret in secrets]
    assert scrubbed(text, *hidden) == expected
