import pytest

from reconciler.client.tls.key_stores import blocks, certificates_of, private_keys

BODY = "QUJD" * 40
BLOCK = f"-----BEGIN CERTIFICATE-----\n{BODY[:64]}\n{BODY[64:128]}\n{BODY[128:]}\n-----END CERTIFICATE-----\n"


@pytest.mark.parametrize(
    "text",
    [
        BLOCK,
        BLOCK.replace("\n", "\r\n"),
        f"-----BEGIN CERTIFICATE----- {BODY} -----END CERTIFICATE-----",
        f"subject=CN = x\n{BLOCK}\ntrailing text",
        f"  -----BEGIN CERTIFICATE-----  \n\t{BODY}\n   -----END CERTIFICATE-----",
    ],
)
def test_blocks_are_normalised_for_every_layout(text: str) -> None:
    assert certificates_of(text) == BLOCK


def test_headers_of_old_encrypted_keys_remain_on_their_lines() -> None:
    old = (
        "-----BEGIN RSA PRIVATE KEY-----\nProc-Type: 4,ENCRYPTED\nDEK-Info: AES-128-CBC,00\n\n"
        "QUJD\n-----END RSA PRIVATE KEY-----\n"
    )
    (key,) = private_keys(old)
    assert key.is_encrypted
    assert key.text == old


def test_bodies_are_not_in_the_repr() -> None:
    (key,) = private_keys(BLOCK.replace("CERTIFICATE", "PRIVATE KEY"))
    assert BODY[:10] not in repr(key)


def test_blocks_without_an_end_are_parsed_in_linear_time() -> None:
    begin = "-----BEGIN CERTIFICATE-----"
    assert blocks(begin * 100_000 + "-----END KEY-----") == ()
    assert len(blocks(begin * 2 + "AAAA-----END CERTIFICATE-----" * 2)) == 1
