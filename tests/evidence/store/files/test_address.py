import pytest

from reconciler.errors import LakeError
from reconciler.evidence.store.files import address


@pytest.mark.parametrize(
    ("typed", "scheme", "redacted"),
    [
        ("/srv/lake/", "file", "/srv/lake"),
        ("file:///srv/my%20lake", "file", "/srv/my lake"),
        ("file://localhost/srv/lake", "file", "/srv/lake"),
        ("memory://", "memory", "memory://"),
        ("s3://bucket/some/folder/", "s3", "s3://bucket/some/folder"),
        ("s3a://bucket", "s3", "s3a://bucket"),
        ("s3://bucket/env@prod", "s3", "s3://bucket/env@prod"),
        ("gs://bucket/x", "gs", "gs://bucket/x"),
        ("az://container/x", "az", "az://container/x"),
        ("https://host/evidence", "https", "https://host/evidence"),
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
        ("s3:///folder", "the bucket or host is missing"),
        ("s3://key:secret@bucket/x", "the address must not contain credentials"),
        ("https://me:secret@host/x", "the address must not contain credentials"),
        ("https://host/x?sig=secret", "the address must not contain credentials"),
        ("file://elsewhere/x", "a file address names no host"),
    ],
)
def test_an_invalid_address_is_reported_with_a_hint(typed: str, message: str) -> None:
    with pytest.raises(LakeError) as caught:
        address.parsed(typed)
    assert message in str(caught.value)
    assert caught.value.hint
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize(
    ("typed", "uri"),
    [
        ("/srv/my lake", "file:///srv/my lake/a/b.parquet"),
        ("s3://bucket/x", "s3a://bucket/x/a/b.parquet"),
        ("gs://bucket", "gs://bucket/a/b.parquet"),
        ("az://container/x", "abfss://container@acc.dfs.core.windows.net/x/a/b.parquet"),
    ],
)
def test_spark_receives_the_names_of_its_own_file_systems(typed: str, uri: str) -> None:
    environ = {"AZURE_STORAGE_ACCOUNT_NAME": "acc"}
    assert address.parsed(typed).spark("a/b.parquet", environ) == uri


@pytest.mark.parametrize("typed", ["memory://", "https://host/x", "az://container"])
def test_an_address_that_spark_cannot_read_is_an_error(typed: str) -> None:
    with pytest.raises(LakeError):
        address.parsed(typed).spark("a", {})


def test_a_relative_folder_becomes_absolute() -> None:
    assert address.parsed("lake").root.startswith("/")
