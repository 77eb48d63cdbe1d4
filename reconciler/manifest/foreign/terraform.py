"""Quota resources of the Terraform provider Mongey/kafka: ``.tf`` files, or ``terraform show -json``.

Read in kafka/resource_kafka_quota.go, kafka_quotas.go and resource_kafka_quota_composite.go of
Mongey/terraform-provider-kafka: ``kafka_quota`` has one slot; ``kafka_quota_composite`` has two ``entity`` blocks, a
user and a client-id. No name or an empty one is the default. Every other type that begins with ``kafka_quota`` is
listed, because it may hold quotas that this reader does not know. Nothing is evaluated: a resource with variables, ``count``
or ``for_each`` is listed, and ``terraform show -json`` has it expanded.
"""

from collections.abc import Iterator, Mapping
from typing import Final

from reconciler.errors import ManifestErrors, Problem
from reconciler.manifest.foreign import hcl
from reconciler.manifest.foreign.gathering import Files, Gathering, Given
from reconciler.manifest.foreign.json_nodes import looks_like_json
from reconciler.manifest.foreign.trees import Tree, documents, limits, only_cluster
from reconciler.quota.entity import DEFAULT, ENTITY_TYPES, Slot

TYPE: Final = "kafka_quota"
COMPOSITE: Final = "kafka_quota_composite"
_PAIR: Final = ("client-id", "user")
_EXPANDS: Final = ("count", "for_each")
_SHOW: Final = "terraform show -json has it expanded"
_UNALIASED: Final = "kafka"


def read(files: Files, found: Gathering, *, cluster: str | None) -> None:
    """Gather every resource; those of other types are passed over.

    Args:
        files: HCL, or the JSON of a state or plan.
        found: Where the quotas go.
        cluster: Only resources with this ``provider`` (``kafka.prod``); ``None`` = there must be only one.

    Raises:
        ManifestErrors: A text is neither HCL nor such a JSON, or there are several providers and none is chosen.
    """
    written: list[tuple[str, hcl.Resource]] = []
    providers: dict[str, str] = {}
    for path, text in files:
        if looks_like_json(text):
            _read_shown(path, text, found)
            continue
        for one in hcl.resources(text, path):
            if one.type.startswith(TYPE):
                written.append((path, one))
                _ = providers.setdefault(_provider(one), f"{path}:{one.line}")
    if written or cluster is not None:
        only_cluster(providers, cluster, "provider")
    for path, one in written:
        if cluster is None or _provider(one) == cluster:
            with found.entry():
                _read_written(path, one, found)


def _provider(one: hcl.Resource) -> str:
    named = one.attributes.get("provider")
    return _UNALIASED if named is None else _words(named)


def _words(value: hcl.Value) -> str:
    match value:
        case hcl.Literal(text=text):
            return text
        case hcl.Unread(words=words):
            return words.replace(" . ", ".")
        case hcl.Mapping():
            return "{…}"


# ---- HCL ------------------------------------------------------------------------------------


def _read_written(path: str, one: hcl.Resource, found: Gathering) -> None:
    expands = [name for name in _EXPANDS if name in one.attributes]
    if expands:
        line = one.attributes[expands[0]].line
        raise _wrong(path, line, f"{one.type}.{one.name} is made by {expands[0]}; {_SHOW}")
    if any(block.startswith("dynamic") for block in one.blocks):
        raise _wrong(path, one.line, f"{one.type}.{one.name} has a dynamic block; {_SHOW}")
    if one.type == COMPOSITE:
        pairs = [_written_slot(path, one, entity, "type", "name") for entity in one.entities]
        slots = _composite(path, one.line, pairs)
    elif one.type == TYPE:
        slots = _slots(
            path, *_written_slot(path, one, one.attributes, "entity_type", "entity_name")
        )
    else:
        raise _unknown(path, one.line, one.type, one.name)
    config = one.attributes.get("config")
    if config is not None and not isinstance(config, hcl.Mapping):
        raise _wrong(path, config.line, f"config would have to be evaluated; {_SHOW}")
    given: list[Given] = []
    for key, value in config.entries if config is not None else ():
        if isinstance(value, hcl.Literal):
            given.append(Given(key=key, text=value.text, line=value.line))
        elif _words(value) != "null":
            with found.entry():
                _ = _literal(path, value)
    if given or config is None or not config.entries:
        _add(path, one.line, given, slots, found)


def _written_slot(
    path: str, one: hcl.Resource, attributes: Mapping[str, hcl.Value], kind_key: str, name_key: str
) -> tuple[int, str, str]:
    """Line, type and name of an entity; "" is the default."""
    kind, name = attributes.get(kind_key), attributes.get(name_key)
    if kind is None:
        raise _wrong(path, one.line, f"{one.type}.{one.name} has no {kind_key}")
    if isinstance(name, hcl.Unread) and name.words == "null":
        name = None
    return kind.line, _literal(path, kind), "" if name is None else _literal(path, name)


def _composite(path: str, line: int, pairs: list[tuple[int, str, str]]) -> Mapping[str, Slot]:
    if tuple(sorted(kind for _, kind, _ in pairs)) != _PAIR:
        raise _wrong(path, line, f"{COMPOSITE} needs two entities, one user and one client-id")
    return {kind: name or DEFAULT for _, kind, name in pairs}


def _unknown(path: str, line: int, kind: str, name: str) -> ManifestErrors:
    return _wrong(
        path, line, f"{kind}.{name} is a type that is not known here; declare its quotas by hand"
    )


def _literal(path: str, value: hcl.Value) -> str:
    if not isinstance(value, hcl.Literal):
        raise _wrong(path, value.line, f"{_words(value)} would have to be evaluated; {_SHOW}")
    return value.text


def _slots(path: str, line: int, kind: str, name: str) -> Mapping[str, Slot]:
    if kind not in ENTITY_TYPES:
        raise _wrong(path, line, f"{kind!r} is no entity type; there is {', '.join(ENTITY_TYPES)}")
    return {kind: name or DEFAULT}


def _wrong(path: str, line: int, message: str) -> ManifestErrors:
    return ManifestErrors([Problem(path, line, 0, message)])


def _add(
    path: str, line: int, given: list[Given], slots: Mapping[str, Slot], found: Gathering
) -> None:
    named = {kind.replace("-", "_"): slot for kind, slot in slots.items()}
    found.add(path, line, given, **named)


# ---- terraform show -json -------------------------------------------------------------------


def _read_shown(path: str, text: str, found: Gathering) -> None:
    for document in documents(path, text):
        values = document.get("values") or document.get("planned_values")
        if values is None:
            raise document.wrong("not what terraform show -json prints: it has no values")
        root = values.get("root_module")
        for one in _shown(root) if root is not None else ():
            with found.entry():
                attributes = one.need("values")
                slots = _shown_slots(path, one, attributes)
                given = limits(attributes.get("config"), live=True)
                _add(path, one.line, given, slots, found)


def _shown_slots(path: str, one: Tree, attributes: Tree) -> Mapping[str, Slot]:
    type_ = one.named("type") or ""
    if type_ == COMPOSITE:
        pairs = []
        for entity in attributes.need("entity").items():
            kind = entity.need("type")
            pairs.append((kind.line, kind.text(), entity.named("name") or ""))
        return _composite(path, one.line, pairs)
    if type_ != TYPE:
        raise _unknown(path, one.line, type_, one.named("name") or "")
    kind = attributes.need("entity_type")
    return _slots(path, kind.line, kind.text(), attributes.named("entity_name") or "")


def _shown(module: Tree) -> Iterator[Tree]:
    """The managed resources of a module and of those in it."""
    resources, modules = module.get("resources"), module.get("child_modules")
    for one in resources.items() if resources is not None else ():
        if (one.named("type") or "").startswith(TYPE) and one.named("mode") == "managed":
            yield one
    for inner in modules.items() if modules is not None else ():
        yield from _shown(inner)
