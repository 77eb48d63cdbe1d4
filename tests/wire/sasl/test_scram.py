import base64

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reconciler.errors import AuthenticationError, EncodeError
from reconciler.wire.sasl import DeferredStep
from reconciler.wire.sasl.scram import (
    SHA_256,
    SHA_512,
    ScramClient,
    ScramServer,
    ServerCredential,
    escape,
    make_credential,
    unescape,
)
from tests.hypothesis_profiles import count_examples

NONCE, PENCIL = "rOprNGfwEbeRWgbNEkqO", "pencil"
FIRST = "r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096"
PROOF = (
    "c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,"
    "p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ="
)
FINAL = "v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4="


def client(
    mechanism: str = SHA_256, *, user: str = "user", password: str | None = None
) -> ScramClient:
    return ScramClient(mechanism, user=user, password=password or PENCIL, nonce=NONCE)


def work(stepper: ScramClient, challenge: bytes) -> bytes:
    step = stepper.receive(challenge)
    assert isinstance(step, DeferredStep)
    return step.run()


def test_the_exchange_of_rfc_7677_is_reproduced() -> None:
    stepper = client()
    assert stepper.start() == b"n,,n=user,r=rOprNGfwEbeRWgbNEkqO"
    assert work(stepper, FIRST.encode()) == PROOF.encode()
    assert stepper.receive(FINAL.encode()) is None
    assert repr(stepper) == "ScramClient('SCRAM-SHA-256', ...)"


def test_the_server_side_of_rfc_7677_is_reproduced() -> None:
    salt = base64.b64decode("W22ZaJ0SNY7soEsUEjb6gQ==")
    credential = make_credential(SHA_256, password="pencil", salt=salt, iterations=4096)  # noqa: S106
    server = ScramServer(
        SHA_256, lookup={"user": credential}.get, nonce="%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0"
    )
    assert server.receive(client().start()) == FIRST.encode()
    assert server.receive(PROOF.encode()) == FINAL.encode()
    assert (server.user, server.is_complete) == ("user", True)
    assert repr(server) == "ScramServer('SCRAM-SHA-256', ...)"
    assert "salt" not in repr(credential)
    with pytest.raises(AuthenticationError):
        server.receive(PROOF.encode())


@settings(max_examples=count_examples(10))
@given(st.sampled_from([SHA_256, SHA_512]), st.text(min_size=1), st.text(min_size=1))
def test_any_user_and_password_are_encoded_unchanged(
    mechanism: str, user: str, password: str
) -> None:
    credential = make_credential(mechanism, password=password, salt=b"s", iterations=4096)
    server = ScramServer(mechanism, lookup={user: credential}.get, nonce="server")
    stepper = client(mechanism, user=user, password=password)
    challenge = server.receive(stepper.start())
    assert stepper.receive(server.receive(work(stepper, challenge))) is None
    assert (server.user, server.is_complete) == (user, True)


def test_names_with_commas_and_equals_signs_are_escaped_as_in_the_rfc() -> None:
    assert escape("a=b,c") == "a=3Db=2Cc"
    assert unescape("=3D2C") == "=2C"
    with pytest.raises(AuthenticationError, match="escaped"):
        unescape("a=b")


@pytest.mark.parametrize(
    ("user", "password", "nonce"),
    [("", "p", "n"), ("u", "", "n"), ("u", "p", "a,b"), ("u", "p", "")],
)
def test_names_and_passwords_that_scram_cannot_encode_are_refused(
    user: str, password: str, nonce: str
) -> None:
    with pytest.raises(EncodeError):
        ScramClient(SHA_256, user=user, password=password, nonce=nonce)


def test_an_unknown_mechanism_is_refused() -> None:
    with pytest.raises(EncodeError, match="SCRAM-SHA-1"):
        client("SCRAM-SHA-1")


@pytest.mark.parametrize(
    ("challenge", "words"),
    [
        (b"", "cannot be read"),
        (b"r=x", "cannot be read"),
        (b"m=ext," + FIRST.encode(), "cannot be read"),
        (b"r=other,s=AAAA,i=4096", "does not extend the client's"),
        (f"r={NONCE},s=AAAA,i=4096".encode(), "does not extend the client's"),
        (f"r={NONCE}x,s=AAAA,i=4095".encode(), "4095 SCRAM-SHA-256 iterations"),
        (f"r={NONCE}x,s=AAAA,i=1000001".encode(), "1000001 SCRAM-SHA-256 iterations"),
        (f"r={NONCE}x,s=AA*A,i=4096".encode(), "not Base64"),
        (f"r={NONCE}x,s=AAA,i=4096".encode(), "not Base64"),
        (f"r={NONCE}x,s=é,i=4096".encode(), "not Base64"),
        (f"r={NONCE}x,s=AAAA,i=99999999999".encode(), "cannot be read"),
        (b"e=unknown-user", "refused SCRAM-SHA-256: 'unknown-user'"),
        (b"\xff", "not UTF-8"),
    ],
)
def test_a_malformed_first_message_is_refused(challenge: bytes, words: str) -> None:
    with pytest.raises(AuthenticationError, match=words):
        client().receive(challenge)


@pytest.mark.parametrize(
    ("final", "words"),
    [
        ("v=AAAA", "signature is wrong"),
        ("v=" + FINAL[3:], "Base64|signature is wrong"),
        ("w=AAAA", "signature is wrong"),
        ("", "signature is wrong"),
        ("v=*", "not Base64"),
        ("e=invalid-proof", "refused"),
    ],
)
def test_a_server_without_a_valid_signature_is_refused(final: str, words: str) -> None:
    stepper = client()
    work(stepper, FIRST.encode())
    with pytest.raises(AuthenticationError, match=words):
        stepper.receive(final.encode())


def test_messages_in_the_wrong_order_are_refused() -> None:
    stepper = client()
    stepper.receive(FIRST.encode())
    with pytest.raises(AuthenticationError, match="out of turn"):
        stepper.receive(FINAL.encode())
    stepper = client()
    work(stepper, FIRST.encode())
    stepper.receive(FINAL.encode())
    with pytest.raises(AuthenticationError, match="out of turn"):
        stepper.receive(FINAL.encode())


CREDENTIAL = make_credential(SHA_256, password="pencil", salt=b"salt", iterations=4096)  # noqa: S106


def server_for(users: dict[str, ServerCredential]) -> ScramServer:
    return ScramServer(SHA_256, lookup=users.get, nonce="server")


@pytest.mark.parametrize(
    ("first", "words"),
    [
        ("", "cannot be read"),
        ("y,,n=user,r=x", "cannot be read"),
        ("p=tls-unique,,n=user,r=x", "cannot be read"),
        ("n,,n=user", "cannot be read"),
        ("n,,n=user,r=", "cannot be read"),
        ("n,,n=us=er,r=x", "escaped"),
        ("n,a=root,n=user,r=x", "another authorization id"),
        ("n,,n=nobody,r=x", "due to invalid credentials with SASL mechanism SCRAM-SHA-256"),
    ],
)
def test_a_server_refuses_malformed_first_messages(first: str, words: str) -> None:
    with pytest.raises(AuthenticationError, match=words):
        server_for({"user": CREDENTIAL}).receive(first.encode())


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda final: final.replace(b"c=biws", b"c=eSws"), "not the one expected"),
        (lambda final: final.replace(b"server", b"severs"), "not the one expected"),
        (lambda final: final.split(b",p=")[0], "not the one expected"),
        (lambda final: final.split(b",p=")[0] + b",p=AAAA", "invalid credentials"),
        (lambda final: final.split(b",p=")[0] + b",p=" + base64.b64encode(bytes(32)), "invalid"),
        (lambda final: final.split(b",p=")[0] + b",p=" + base64.b64encode(bytes(99)), "invalid"),
        (lambda final: final[:-3], "Base64"),
    ],
)
def test_a_server_refuses_a_wrong_proof(change: object, words: str) -> None:
    server, stepper = server_for({"user": CREDENTIAL}), client()
    final = work(stepper, server.receive(stepper.start()))
    with pytest.raises(AuthenticationError, match=words):
        server.receive(change(final))
    assert not server.is_complete


def test_a_user_removed_during_the_exchange_is_refused() -> None:
    users = {"user": CREDENTIAL}
    server, stepper = server_for(users), client()
    final = work(stepper, server.receive(stepper.start()))
    users.clear()
    with pytest.raises(AuthenticationError, match="invalid credentials"):
        server.receive(final)
