"""Each text form of an entity: a written text reads back equal, and an invalid text is refused with a message."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reconciler.errors import QuotaValueError
from reconciler.quota import entity as entity_forms
from reconciler.quota.entity import ABSENT, DEFAULT, Entity, entity, parts
from tests.base.test_escaping import NASTY

KAFKA_NAMES = st.one_of(  # every string that has UTF-8 bytes
    st.sampled_from([name for name in NASTY if "\ud800" not in name]),
    st.text(st.characters(codec="utf-8"), max_size=8),
    st.text(r'a,="\\<>' + "\n\t \x00\u00e9\U0001f600", max_size=8),
)
SLOTS = st.one_of(KAFKA_NAMES, st.just(DEFAULT))


ENTITIES = st.one_of(
    st.builds(lambda u: entity(user=u), SLOTS),
    st.builds(lambda c: entity(client_id=c), SLOTS),
    st.builds(lambda u, c: entity(user=u, client_id=c), SLOTS, SLOTS),
    st.builds(lambda i: entity(ip=i), SLOTS),
)


@given(ENTITIES)
def test_an_entity_is_read_back_from_its_text(subject):
    assert entity_forms.read_entity(entity_forms.entity_text(subject)) == subject


@given(ENTITIES, ENTITIES)
def test_two_entities_never_have_the_same_text(first, second):
    assert (entity_forms.entity_text(first) == entity_forms.entity_text(second)) == (
        first == second
    )


@pytest.mark.parametrize(
    "text",
    [
        "",
        "user",
        "user=",
        "user=a,",
        "user=a,b",
        "users=a",
        'user="a',
        "user=a,user=b",
        "user=a,ip=b",
        "=",
        ",",
        r"user=a\nb",
        "user=a\nb",
        "user=<defualt>",
        "user= a",
        "user=a ,client-id=b",
        'user="a"b',
        r'user="\x"',
        r'user="\U0001f600"',
        r'user="\ud800"',
        'user="a\nb"',
    ],
)
def test_an_invalid_entity_text_is_refused(text):
    with pytest.raises(QuotaValueError):
        entity_forms.read_entity(text)


@given(st.text("\\abfnrtuUx0dD8/, <\n\u00e9", max_size=9))
def test_a_quoted_name_is_what_json_says_or_refused(text):
    try:
        name = json.loads(f'"{text}"')
        _ = name.encode("utf-8")
    except ValueError:
        with pytest.raises(QuotaValueError):
            entity_forms.read_parts(f'user="{text}"')
    else:
        assert entity_forms.read_parts(f'user="{text}"') == (("user", name),)


def test_foreign_entities_are_escaped():
    assert entity_forms.parts_text((("client-id-prefix", "a\nb"), ("x", None))) == (
        'client-id-prefix="a\\u000ab",x=<default>'
    )


# ---- JSON, as a value and as text ------------------------------------------------------------

# A lone surrogate has no UTF-8 bytes, but JSON in ASCII can contain it.
PARTS = st.lists(
    st.tuples(st.text(), st.one_of(st.none(), st.sampled_from(NASTY), st.text())), max_size=3
)


@given(ENTITIES)
def test_an_entity_reads_back_from_its_json(subject):
    value = json.loads(json.dumps(entity_forms.entity_json(subject)))
    assert entity_forms.read_json_parts(value) == parts(subject)


@given(ENTITIES)
def test_an_entity_reads_back_from_its_canonical_text(subject):
    text = entity_forms.canonical_text(subject)
    assert text.isascii()
    assert text.isprintable()
    assert entity_forms.read_canonical(text) == subject


@given(ENTITIES, ENTITIES)
def test_canonical_texts_are_equal_exactly_if_entities_are(first, second):
    texts = {entity_forms.canonical_text(first), entity_forms.canonical_text(second)}
    assert len(texts) == (1 if first == second else 2)


@given(PARTS)
def test_parts_of_any_types_read_back_from_their_canonical_text(entity_parts):
    text = entity_forms.canonical_parts_text(entity_parts)
    assert entity_forms.read_canonical_parts(text) == tuple(entity_parts)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "no entity in JSON"),
        ("[", "no entity in JSON"),
        ("{}", "is not an array"),
        ('"user"', "is not an array"),
        ("null", "is not an array"),
        ("[1]", "is not a pair"),
        ('["ua"]', "is not a pair"),
        ('[["user"]]', "is not a pair"),
        ('[["user","a","b"]]', "is not a pair"),
        ('[["user",1]]', "is not a pair"),
        ('[["user",false]]', "is not a pair"),
        ('[[null,"a"]]', "is not a pair"),
        ("[]", "needs a user"),
        ('[["user","a"],["user","b"]]', "given twice"),
        ('[["users","a"]]', "unknown"),
        ('[["user","a"],["ip","b"]]', "ip cannot be combined"),
        ("[" * 2000 + "]" * 2000, "nested"),
    ],
)
def test_an_invalid_canonical_text_is_refused(text, reason):
    with pytest.raises(QuotaValueError, match=reason):
        entity_forms.read_canonical(text)


# ---- slots -----------------------------------------------------------------------------------


@given(ENTITIES)
def test_an_entity_reads_back_from_its_slots(subject):
    slots = json.loads(json.dumps(entity_forms.entity_slots(subject)))
    assert entity_forms.read_slots(slots) == subject


@pytest.mark.parametrize(
    ("slots", "reason"),
    [
        ([], "3 slots"),
        (["a", False], "3 slots"),
        (["a", False, False, False], "3 slots"),
        (["a", 0, False], "0 is not a name"),
        (["a", True, False], "True is not a name"),
        ([["a"], False, False], "is not a name"),
        ([False, False, False], "needs a user"),
        (["a", False, "b"], "ip cannot be combined"),
        (["a" * 40_000, False, False], "32767 bytes"),
    ],
)
def test_invalid_slots_are_refused(slots, reason):
    with pytest.raises(QuotaValueError, match=reason):
        entity_forms.read_slots(slots)


# ---- what is hashed: every byte of it is for all time -----------------------------------------


def test_the_bytes_of_stored_entity_keys_are_stable():
    subject = Entity(("al\u00efce", DEFAULT, ABSENT))
    assert entity_forms.record_key(subject) == b'["al\\u00efce", null, false]'
    assert entity_forms.name_key(subject) == b'[["user", "al\\u00efce"], ["client-id", null]]'


# ---- Kafka's Sanitizer -----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("alice", "alice"),
        ("<default>", "%3Cdefault%3E"),
        ("O=A client,CN=localhost", "O%3DA%20client%2CCN%3Dlocalhost"),
        ("a*b+c~d", "a%2Ab%2Bc%7Ed"),
        ("line\nbreak\x1b[31m", "line%0Abreak%1B%5B31m"),
        ("\u00fc/:", "%C3%BC%2F%3A"),
        ("a.b-c_d", "a.b-c_d"),
        ("\ud800", "%3F"),
    ],
)
def test_names_are_written_as_by_kafkas_sanitizer(name, text):
    assert entity_forms.sanitized(name) == text


@given(st.text())
def test_a_sanitized_name_cannot_forge_syntax(name):
    assert all(c.isascii() and (c.isalnum() or c in "%.-_") for c in entity_forms.sanitized(name))
