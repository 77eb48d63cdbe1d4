import contextlib
import hashlib
import struct
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reconciler.base.secret import Secret
from reconciler.client.tls import jks

STORES = Path(__file__).parent / "keystores"
STORE = Secret("storepass")


def content(name: str) -> bytes:
    return (STORES / name).read_bytes()


def test_without_a_password_the_integrity_is_not_checked() -> None:
    assert jks.load(content("trust.jks"), None).trusted


@pytest.mark.parametrize("name", ["key.jks", "trust.jks"])
def test_a_wrong_store_password_is_refused(name: str) -> None:
    with pytest.raises(jks.JksError, match="store password is wrong"):
        jks.load(content(name), Secret("other"))


def test_a_wrong_key_password_is_refused() -> None:
    (entry,) = jks.load(content("key.jks"), STORE).keys
    with pytest.raises(jks.JksError, match="key password is wrong"):
        jks.unprotect(entry, STORE)


def test_one_changed_byte_is_detected() -> None:
    store_bytes = bytearray(content("key.jks"))
    store_bytes[200] ^= 1
    with pytest.raises(jks.JksError):
        jks.load(bytes(store_bytes), STORE)


def sealed(body: bytes) -> bytes:
    """A store with a valid digest for any body."""
    store = jks.MAGIC + body
    secret = "storepass".encode("utf-16-be")
    return (
        store + hashlib.sha1(secret + b"Mighty Aphrodite" + store, usedforsecurity=False).digest()
    )


@pytest.mark.parametrize(
    ("body", "words"),
    [
        (struct.pack(">ii", 3, 0), "version 3"),
        (struct.pack(">ii", 2, 1), "truncated"),
        (struct.pack(">ii", 2, 0) + b"x", "left over"),
        (struct.pack(">iii", 2, 1, 9) + b"\x00\x01a" + bytes(8), "unknown tag 9"),
        (
            struct.pack(">iii", 2, 1, 2) + b"\x00\x01a" + bytes(8) + b"\x00\x03PGP" + bytes(4),
            "'PGP'",
        ),
        (struct.pack(">iii", 2, 1, 1) + b"\x00\x01a" + bytes(8) + b"\xff\xff\xff\xff", "truncated"),
        (struct.pack(">iii", 2, 1, 1) + b"\x00\x01a" + bytes(8) + b"\x7f\xff\xff\xff", "truncated"),
    ],
)
def test_invalid_entries_are_refused(body: bytes, words: str) -> None:
    with pytest.raises(jks.JksError, match=words):
        jks.load(sealed(body), STORE)


@given(st.binary(max_size=80))
def test_any_store_body_is_read_or_raises_a_jks_error(body: bytes) -> None:
    with contextlib.suppress(jks.JksError):
        jks.load(sealed(body), STORE)


@given(st.binary(max_size=60))
def test_any_protected_key_is_read_or_raises_a_jks_error(protected: bytes) -> None:
    with pytest.raises(jks.JksError):
        jks.unprotect(jks.KeyEntry(alias="a", protected=protected, chain=()), STORE)


def test_keys_are_not_in_the_repr() -> None:
    (entry,) = jks.load(content("same.jks"), STORE).keys
    assert repr(entry) == "KeyEntry(alias='ec')"
