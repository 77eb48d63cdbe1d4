"""Messages for each kind of mistake: problem, position and text, one row each."""

import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reconciler.manifest import explanation
from reconciler.manifest.loader import load_files
from reconciler.manifest.project.cluster import from_spec
from reconciler.manifest.syntax.nodes import from_json
from tests.manifest.samples import HEAD, cluster, refusals
from tests.manifest.syntax.test_yaml_parser import reading
from tests.manifest.test_document import junk

USER = HEAD + "  entity:\n    user: {name: alice}\n  limits:\n"

WRONG = refusals(
    {"+": USER, "*": HEAD},
    r"""
unknown field | +    producerByteRat: 5\n | 10:5 unknown field; did you mean producerByteRate?
unknown field without a near one | +    zzz: 5\n    producerByteRate: 5\n | 10:5 known: producerByteRate
unknown field of the document | +    producerByteRate: 5\nspecs: {}\n | 11:1 did you mean spec?
missing field | *  entity: {user: {name: a}}\n | 6:3 spec.limits is missing
no limit | *  entity:\n    user: {name: alice}\n  limits: {}\n | 9:11 needs at least 1 field
null slot | *  entity:\n    user:\n  limits: {producerByteRate: 5}\n | 8:10 null is not the default
fields beside the entity | *  entity:\n  limits: {producerByteRate: 5}\n | 7:10 the value is missing; write it on the same line, or below
null name | *  entity:\n    user: {name: ~}\n  limits: {producerByteRate: 5}\n | 8:18 quotes
empty plain name | *  entity:\n    user: {name: }\n  limits: {producerByteRate: 5}\n | 8:18 not the default
empty name | *  entity:\n    user: {name: ''}\n  limits: {producerByteRate: 5}\n | 8:18 may not be empty
number as name | *  entity:\n    user: {name: 123}\n  limits: {producerByteRate: 5}\n | 8:18 put it in quotes
flag as name | *  entity:\n    clientId: {name: on}\n  limits: {producerByteRate: 5}\n | 8:22 put it in quotes
default false | *  entity:\n    user: {default: false}\n  limits: {producerByteRate: 5}\n | 8:21 only true is allowed
default yes | *  entity:\n    user: {default: yes}\n  limits: {producerByteRate: 5}\n | 8:21 true or false
flat slot | *  entity:\n    user: alice\n  limits: {producerByteRate: 5}\n | 8:11 must be a mapping such as {name: checkout} or {default: true}, not alice
flat entity | *  entity: alice\n  limits: {producerByteRate: 5}\n | 7:11 must be a mapping such as {user: {name: checkout}}
flat limits | *  entity: {user: {name: a}}\n  limits: 5Mi\n | 8:11 must be a mapping such as {producerByteRate: 10Mi}
name and default | *  entity:\n    user: {name: a, default: true}\n  limits: {producerByteRate: 5}\n | 8:11 only one of
ip beside a user | *  entity: {ip: {name: 1.2.3.4}, user: {name: a}}\n  limits: {connectionCreationRate: 5}\n | 7:11 ip cannot be combined with user
ip that is no literal | *  entity: {ip: {name: host}}\n  limits: {connectionCreationRate: 5}\n | 7:16 not an IP address
ip spelled otherwise | *  entity: {ip: {name: '::0'}}\n  limits: {connectionCreationRate: 5}\n | 7:16 write ::
ip with byte rates | *  entity: {ip: {default: true}}\n  limits: {producerByteRate: 5}\n | 6:3 not producerByteRate
user with connection rate | +    connectionCreationRate: 5\n | 6:3 is for an ip
zero | +    producerByteRate: 0\n | 10:23 greater than 0; omit it
zero percent | +    requestPercentage: 0\n | 10:24 not greater than 0
negative | +    producerByteRate: -5\n | 10:23 greater than 0
not a number | +    requestPercentage: .nan\n | 10:24 decimal number
infinite | +    requestPercentage: .inf\n | 10:24 decimal number
exponent | +    producerByteRate: 1e7\n | 10:23 YAML parsers read differently
exponent of another tool | +    producerByteRate: 1.048576e+07\n | 10:23 must be 10485760 or 10Mi, not
fraction with exponent | +    requestPercentage: 5.5e-1\n | 10:24 must be 0.55, not
underscores | +    producerByteRate: 1_000_000\n | 10:23 whole number such as 20000000
octal | +    producerByteRate: 0o17\n | 10:23 whole number such as 20000000
a point | +    producerByteRate: 5.0\n | 10:23 must be a whole number
fraction | +    producerByteRate: 0.1Ki\n | 10:23 is 102.4, which is not a whole number
wrong unit | +    producerByteRate: 10MB\n | 10:23 is not a quantity; write 10M (powers of 1000) or 10Mi (powers of 1024)
no float64 | +    producerByteRate: 9007199254740993\n | 10:23 nearest is 9007199254740992
above the maximum | +    producerByteRate: 9223372036854775808\n | 10:23 above the largest value allowed, 9223372036854775807
a text far above the maximum | +    producerByteRate: '999999999999999999999'\n | 10:23 at or above the broker's maximum; to set the maximum, write 9223372036854775807
quantity for a decimal | +    requestPercentage: 50m\n | 10:24 decimal number without exponent
enum | +    producerByteRate: 5\n  deletionPolicy: retain\n | 11:19 not one of Retain, Delete; did you mean Retain?
no flag | +    producerByteRate: 5\n  suspend: 'true'\n | 11:12 true or false
a list | +    producerByteRate: [5]\n | 10:23 not a list
""",
)
WRONG["line feed at the end"] = (
    USER + '    producerByteRate: "10Mi\\n"\n',
    "10:23",
    "not a quantity",
)
WRONG |= {
    name: (text + "    producerByteRate: 5\n", place, words)
    for name, text, place, words in (
        (
            "label as number",
            USER.replace("name: a\n", "name: a\n  labels: {a: 1}\n", 1),
            "5:15",
            "in quotes",
        ),
        (
            "label key",
            USER.replace("name: a\n", "name: a\n  labels: {on: x}\n", 1),
            "5:12",
            "in quotes",
        ),
        (
            "bad resource name",
            USER.replace("name: a\n", "name: A_b\n", 1),
            "4:9",
            "not a valid resource name",
        ),
        (
            "bad namespace",
            USER.replace("name: a\n", "name: a\n  namespace: a.b\n", 1),
            "5:14",
            "not a valid namespace name",
        ),
        ("long name", USER.replace("alice", "x" * 513), "8:18", "longer than 512"),
        ("long name in bytes", USER.replace("alice", "é" * 257), "8:11", "514 bytes"),
    )
}


@pytest.mark.parametrize(("text", "place", "words"), WRONG.values(), ids=WRONG)
def test_an_error_is_reported_with_its_place_and_the_next_step(
    text: str, place: str, words: str
) -> None:
    problems = load_files([("f.yaml", text)]).problems
    assert [f"{problem.line}:{problem.column}" for problem in problems] == [place], problems
    assert words in problems[0].message


def test_every_error_of_a_file_is_listed_in_order_of_place() -> None:
    text = "---\n".join(row[0] for row in WRONG.values())
    problems = load_files([("f.yaml", text)]).problems
    offset, expected = 0, []
    for body, place, _ in WRONG.values():
        line, _, column = place.partition(":")
        expected.append((offset + int(line), int(column)))
        offset += body.count("\n") + 1
    assert [
        (problem.line, problem.column)
        for problem in problems
        if "is also declared" not in problem.message
    ] == expected


def test_a_long_invalid_value_is_quoted_in_part() -> None:
    text = USER + f"    producerByteRate: 5\n  deletionPolicy: {'x' * 5000}\n"
    (problem,) = load_files([("f.yaml", text)]).problems
    assert len(problem.message) < 300


def test_jsonschema_is_not_loaded_for_valid_manifests() -> None:
    code = (
        "import sys; from reconciler.manifest import load_files\n"
        f"assert not load_files([('f', {USER + '    producerByteRate: 5'!r})]).problems\n"
        "sys.exit('jsonschema' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


# ---- clusters, which only the schema and its rules judge --------------------------------------

CLUSTER_FIELDS = (
    "bootstrapServers",
    "properties",
    "propertiesFile",
    "secretRef",
    "expectedClusterId",
    "policy",
    "confirmSync",
    "driftDetection",
    "interval",
    "suspend",
    "operatorClass",
    "scope",
    "ignore",
    "guards",
    "budgets",
    "tenants",
    "telemetry",
    "brokerCapacity",
    "odd",
)
pieces = st.one_of(
    junk,
    st.sampled_from(("Sync", "Observe", "Warn", "90s", "1h30m", "2026-01-01T00:00:00Z")),
    st.builds(
        dict, user=st.builds(dict, exact=junk) | st.builds(dict, prefix=st.just("a")), reason=junk
    ),
    st.lists(
        st.builds(dict, forms=st.lists(st.sampled_from(("user", "ip", "odd")), max_size=2)),
        max_size=2,
    ),
    st.lists(
        st.builds(dict, user=st.builds(dict, exact=st.just("a")), reason=st.just("r"), until=junk),
        max_size=1,
    ),
    st.builds(dict, maxRemovals=junk, maxRemovedPercent=junk, window=junk),
    st.builds(
        dict,
        bounds=st.lists(
            st.builds(
                dict, limits=st.builds(dict, producerByteRate=st.builds(dict, min=junk, max=junk))
            ),
            max_size=1,
        ),
    ),
    st.lists(
        st.builds(
            dict,
            namespaces=st.lists(st.sampled_from(("a", "b", "A")), max_size=2),
            entities=st.just([]),
        ),
        max_size=2,
    ),
)


@given(st.dictionaries(st.sampled_from(CLUSTER_FIELDS), pieces, max_size=5))
def test_a_cluster_spec_of_any_content_is_refused_or_read(changes: dict[str, object]) -> None:
    document = cluster(**changes)
    if not explanation.problems("QuotaCluster", from_json(document), "f"):
        assert from_spec("a", document["spec"]).name == "a"


def test_an_anchor_of_a_pattern_matches_only_the_end_of_the_text_as_on_the_api_server() -> None:
    assert explanation._compile("^a$").search("a")
    assert not explanation._compile("^a$").search("a\n")
    assert explanation._compile("a").search("ba\n")


def test_ambiguous_keys_are_listed_except_in_ignored_fields() -> None:
    (root,), _ = reading(
        "metadata: {labels: {on: a, 'on ': b, x: c}, managedFields: {1: a}}\nstatus: {yes: a}\n"
    )
    assert list(explanation._ambiguous_keys(root)) == [("metadata", "labels", "on")]
