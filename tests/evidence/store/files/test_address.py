import pytest

from reconciler.errors import LakeError
from reconciler.evidence.store.files import address


@pytest.mark.parametrize(
    ("typed", "scheme", "redacted"),
    [
        ("/srv/lake/", "file", "/srv/lake"),
        ("file:///srv/my%20lake", "file", "/srv/my lake"),
        ("file://localhost/srv/lake", "file", "/srv/lake"),
        ("s3://bucket/some/folder/", "s3", "s3://bucket/some/folder"),
        ("s3a://bucket", "s3", "s3a://bucket"),
        ("s3://bucket/env@prod", "s3", "s3://bucket/env@prod"),
        ("gs://bucket/x", "gs", "gs://bucket/x"),
        ("az://container/x", "az", "az://container/x"),
    ],
)
def test_addresses_are_read_and_shown_without_secrets(
    typed: str, scheme: str, redacted: str
) -> None:
    lake_address = address.parsed(typed)
    assert (lake_address.scheme, lake_address.redacted_text) == (scheme, redacted)
    assert "secret" not in lake_address.redacted_text


@pytest.mark.parametrize(
    ("typed", "message"),
    [
        ("", "the address is empty"),
        ("ftp://host/x", "ftp:// is not known here"),
        ("hdfs://host/x", "hdfs:// is not known here"),
        ("s3:///folder", "the bucket is missing"),
        ("s3://key:secret@bucket/x", "the address must not contain credentials"),
        ("gs://me:secret@bucket/x", "the address must not contain credentials"),
        ("az://bucket/x?sig=secret", "the address must not contain credentials"),
        ("https://me:secret@host/x", "https:// is not known here"),
        ("file://elsewhere/x", "a file address names no host"),
    ],
)
def test_an_invalid_address_is_reported_with_a_hint(typed: str, message: str) -> None:
    with pytest.raises(LakeError) as caught:
        address.parsed(typed)
    assert message in str(caught.value)
    assert caught.value.hint
    assert "secret" not in str(caught.value)


def test_a_relative_folder_becomes_absolute() -> None:
    assert address.parsed("lake").root.startswith("/")
