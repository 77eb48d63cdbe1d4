"""Names as keyed hashes."""

from collections.abc import Sequence
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reconciler.errors import QuotaValueError
from reconciler.quota.entity import DEFAULT, entity
from reconciler.quota.entity_forms import canonical_text, read_canonical
from reconciler.usage.reports.pseudonyms import Pseudonyms
from reconciler.usage.reports.usage import UsageReport
from reconciler.usage.tags import bucket_of
from tests.render.use_reports import SIMULATION, whole_report

KEY = b"0123456789abcdef"
NAMES = Pseudonyms(KEY)


def test_equal_names_of_one_kind_have_equal_pseudonyms_and_different_ones_do_not() -> None:
    assert NAMES.name("user", "alice") == NAMES.name("user", "alice")
    assert (
        len({NAMES.name(kind, name) for kind in ("user", "client-id") for name in ("alice", "bob")})
        == 4
    )
    assert NAMES.name("user", "alice") != Pseudonyms(KEY[::-1]).name("user", "alice")


def test_the_pseudonyms_of_an_equal_user_and_client_id_are_unrelated() -> None:
    user, client_id = NAMES.name("user", "alice"), NAMES.name("client-id", "alice")
    assert user.removeprefix("user-") != client_id.removeprefix("client-id-")


def test_an_absent_name_has_no_pseudonym() -> None:
    assert NAMES.name("user", "") == ""
    assert NAMES.bucket(bucket_of("alice")).client_id == ""
    assert NAMES.source("") == ""


def test_defaults_and_addresses_have_no_pseudonyms() -> None:
    subject = read_canonical(NAMES.source(canonical_text(entity(user="alice", client_id=DEFAULT))))
    assert subject[1] is DEFAULT
    assert subject[0] == NAMES.name("user", "alice")
    address = read_canonical(NAMES.source(canonical_text(entity(ip="10.0.0.1"))))[2]
    assert isinstance(address, str)
    assert address.startswith("2001:db8:")
    assert address == NAMES.bucket(bucket_of(ip="10.0.0.1")).ip


def test_a_short_key_is_refused() -> None:
    with pytest.raises(QuotaValueError, match="at least 16 bytes"):
        Pseudonyms(b"short")


@given(st.text(min_size=6, max_size=12, alphabet="QWXZÄ"))
def test_a_report_with_pseudonyms_contains_no_name(secret: str) -> None:
    bucket = bucket_of(secret, secret)
    report = whole_report()
    row = replace(
        SIMULATION.rows[0],
        bucket=bucket,
        cluster_id=secret,
        source_entity=canonical_text(entity(user=secret)),
    )
    report = replace(
        report,
        evidence=(
            replace(report.evidence[0], cluster_id=secret, source=secret, partial=(secret,)),
        ),
        simulation=replace(
            SIMULATION,
            rows=(row,),
            left_out=0,
            verdicts={row.verdict: 1},
            breaches=(replace(SIMULATION.breaches[0], row=row),),
            notes=(secret,),
            evidence=(replace(report.evidence[0], partial=(secret,)),),
        ),
        usage=(replace(report.usage[0], bucket=bucket, cluster_id=secret),),
        capacity=(replace(report.capacity[0], cluster_id=secret),),
        noisy=(replace(report.noisy[0], bucket=bucket, cluster_id=secret),),
        curves=(replace(report.curves[0], bucket=bucket, cluster_id=secret),),
        recommendations=(replace(report.recommendations[0], bucket=bucket, cluster_id=secret),),
        notes=(secret,),
    )
    assert secret not in str(NAMES.report(report))
    assert NAMES.report(report).curves[0].points == report.curves[0].points


def _in_order(report: UsageReport) -> UsageReport:
    """Rows in the order of the report: by figures, then by names."""
    return replace(
        report,
        usage=tuple(sorted(report.usage, key=lambda row: (-row.max_rate_units, row.bucket))),
        noisy=tuple(sorted(report.noisy, key=lambda row: (-row.excess_units, row.bucket))),
        recommendations=tuple(sorted(report.recommendations, key=lambda row: row.bucket)),
        evidence=tuple(sorted(report.evidence, key=lambda note: note.cluster_id)),
    )


def _report(names: Sequence[str]) -> UsageReport:
    """Six clients of these names, and clusters likewise."""
    report = whole_report()
    buckets = [bucket_of(name) for name in names]
    rows = [replace(SIMULATION.rows[0], bucket=bucket) for bucket in buckets]
    return _in_order(
        replace(
            report,
            evidence=tuple(replace(report.evidence[0], cluster_id=name) for name in names),
            origins=(),
            simulation=replace(
                SIMULATION,
                rows=tuple(sorted(rows, key=lambda row: row.bucket)),
                breaches=(),
                left_out=0,
                verdicts={rows[0].verdict: 6},
            ),
            usage=tuple(
                replace(
                    report.usage[0], bucket=bucket, max_rate_units=900 - n // 3, limit_units=1_000
                )
                for n, bucket in enumerate(buckets)
            ),
            capacity=(),
            noisy=tuple(replace(report.noisy[0], bucket=bucket) for bucket in buckets),
            recommendations=tuple(
                replace(report.recommendations[0], bucket=bucket) for bucket in buckets
            ),
            curves=tuple(replace(report.curves[0], bucket=bucket) for bucket in sorted(buckets)),
        )
    )


def test_rows_with_equal_figures_are_ordered_by_pseudonyms_and_not_by_names() -> None:
    report = NAMES.report(_report("abcdef"))
    for rows in (
        report.usage[:3],
        report.usage[3:],
        report.noisy,
        report.recommendations,
        report.curves,
    ):
        users = [row.bucket.user for row in rows]
        assert users == sorted(users)
    assert [row.max_rate_units for row in report.usage] == [900] * 3 + [899] * 3
    clusters = [note.cluster_id for note in report.evidence]
    assert clusters == sorted(clusters)
    assert report.simulation is not None
    users = [row.bucket.user for row in report.simulation.rows]
    assert users == sorted(users)
    real = [NAMES.name("user", name) for name in "abcdef"]
    assert users != real
