"""Entries, layouts and responses that several tests of the codec use."""

from hypothesis import strategies as st

from reconciler.wire.messages.entry_layout import EntryLayout, Part, Value

LAYOUT = EntryLayout(
    slots=("user", "client-id", "ip"),
    columns=(
        "producer_byte_rate",
        "consumer_byte_rate",
        "request_percentage",
        "controller_mutation_rate",
        "connection_creation_rate",
    ),
)

OTHER_LAYOUT = EntryLayout(slots=("client-id", "user"), columns=("request_percentage", "x"))
"""Fewer slots, another order, fewer columns: results must not depend on the usual one."""

names = st.one_of(
    st.none(),
    st.sampled_from(["", "alice", "<default>", "CN=a,O=b", "zoë", "a" * 126, "a" * 127, "é" * 200]),
    st.text(max_size=20).filter(lambda text: text.isprintable()),
)
types = st.sampled_from(["user", "client-id", "ip", "user", "client-id", "group"])
keys = st.sampled_from([*LAYOUT.columns, "producer_byte_rate", "future_rate"])
numbers = st.one_of(
    st.sampled_from([1024.0, 1048576.0, 12.5, 0.0, -0.0]), st.floats(allow_nan=True)
)


@st.composite
def parts(draw: st.DrawFn) -> tuple[Part, ...]:
    entity_types = draw(st.lists(types, min_size=1, max_size=3, unique=True))
    return tuple((entity_type, draw(names)) for entity_type in entity_types)


@st.composite
def values(draw: st.DrawFn) -> tuple[Value, ...]:
    value_keys = draw(st.lists(keys, max_size=5, unique=True))
    return tuple((key, draw(numbers)) for key in value_keys)


@st.composite
def answers(draw: st.DrawFn, most: int = 8) -> list[tuple[tuple[Part, ...], tuple[Value, ...]]]:
    """Entries of different entities; value sections and key orders repeat."""
    entities = draw(st.lists(parts(), max_size=most, unique_by=frozenset))
    sections = draw(st.lists(values(), min_size=1, max_size=3))
    order = draw(st.sampled_from([LAYOUT.columns[:3], LAYOUT.columns[1::-1]]))
    steady = st.tuples(*(st.tuples(st.just(key), numbers) for key in order))
    return [(entity, draw(st.one_of(st.sampled_from(sections), steady))) for entity in entities]
