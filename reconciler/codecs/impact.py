"""The impact of a plan on clients, as a section of a plan document. Writer and reader."""

from reconciler.codecs.reader import DocumentReader
from reconciler.quota.entity import level
from reconciler.quota.entity_forms import entity_json, entity_text
from reconciler.quota.keys import Key
from reconciler.quota.planner.impact import (
    AffectedPrincipal,
    Effect,
    HiddenRule,
    HidingOrphan,
    Impact,
    ShadowedLimit,
    UnmatchedClientId,
)
from reconciler.quota.precedence import EffectiveLimit, Principal, UnrankedLimit, bucket
from reconciler.render.json_values import Json, value_json


def impact_document(impact: Impact) -> dict[str, Json]:
    """Return the section; effects are in the rows of their changes."""
    return {
        "known": impact.principal_count,
        "affected": [_affected_row(affected) for affected in impact.affected],
        "shadows": [_shadow(shadow) for shadow in impact.shadows],
        "newShadows": [_shadow(shadow) for shadow in impact.new_shadows],
        "silentKeys": [str(key) for key in impact.silent],
        "hiding": [_hiding(hiding) for hiding in impact.hiding],
        "unmatchedClientIds": [_unmatched(unmatched) for unmatched in impact.unmatched],
    }


def _affected_row(affected: AffectedPrincipal) -> dict[str, Json]:
    return {
        "user": affected.principal.user,
        "clientId": affected.principal.client_id,
        "ip": affected.principal.ip,
        "key": str(affected.key),
        "before": _effective(affected.before),
        "after": _effective(affected.after),
        "movesBucket": affected.moved,
        "direction": str(affected.direction),
        "factor": affected.factor,
        "sharing": str(affected.sharing),
    }


def _effective(effective: EffectiveLimit) -> dict[str, Json]:
    document: dict[str, Json] = {
        "value": value_json(effective.value),
        "level": effective.level,
        "source": None if effective.source is None else entity_json(effective.source),
    }
    if effective.unranked:
        document["known"] = effective.is_known
        document["unranked"] = [_unranked_row(limit) for limit in effective.unranked]
    return document


def _unranked_row(unranked: UnrankedLimit) -> dict[str, Json]:
    return {
        "entity": [[kind, name] for kind, name in unranked.entity],
        "value": value_json(unranked.value),
    }


def _hiding(hiding: HidingOrphan) -> dict[str, Json]:
    return {
        "entity": entity_json(hiding.entity),
        "text": entity_text(hiding.entity),
        "key": str(hiding.key),
        "total": hiding.total,
        "rules": [_rule(rule) for rule in hiding.rules],
    }


def _unmatched(unmatched: UnmatchedClientId) -> dict[str, Json]:
    return {
        "entity": entity_json(unmatched.entity),
        "text": entity_text(unmatched.entity),
        "total": unmatched.total,
        "example": unmatched.example,
    }


def _rule(rule: HiddenRule) -> dict[str, Json]:
    path, _, line = rule.place.rpartition(":")
    return {
        "entity": entity_json(rule.entity),
        "text": entity_text(rule.entity),
        "value": value_json(rule.value),
        "file": path or None,
        "line": int(line) if path else None,
    }


def _shadow(shadow: ShadowedLimit) -> dict[str, Json]:
    return {
        "entity": entity_json(shadow.entity),
        "text": entity_text(shadow.entity),
        "key": str(shadow.key),
        "by": entity_json(shadow.by),
    }


# ---- reading -----------------------------------------------------------------------------------


def read_impact(reader: DocumentReader, effects: tuple[Effect, ...]) -> Impact:
    """Read the facts of what :func:`impact_document` wrote; the caller compares them with the written ones.

    Args:
        effects: Of the changes, in plan order.
    """
    return Impact(
        effects=effects,
        affected=reader["affected"].rows(_read_affected),
        shadows=reader["shadows"].rows(_read_shadow),
        new_shadows=reader["newShadows"].rows(_read_shadow),
        silent=reader["silentKeys"].rows(lambda key: key.word(Key)),
        principal_count=reader["known"].integer(),
        hiding=reader["hiding"].rows(_read_hiding),
        unmatched=reader["unmatchedClientIds"].rows(_read_unmatched),
    )


def _read_affected(row: DocumentReader) -> AffectedPrincipal:
    user, client_id, ip = (
        row[name].optional(DocumentReader.text) for name in ("user", "clientId", "ip")
    )
    principal, key = Principal(user=user, client_id=client_id, ip=ip), row["key"].word(Key)
    return AffectedPrincipal(
        principal=principal,
        key=key,
        before=_read_effective(row["before"], key, principal),
        after=_read_effective(row["after"], key, principal),
    )


def _read_effective(row: DocumentReader, key: Key, principal: Principal) -> EffectiveLimit:
    source = row["source"].optional(DocumentReader.entity)
    return EffectiveLimit(
        key=key,
        value=row["value"].quota_value(),
        source=source,
        level=0 if source is None else level(source),
        bucket=() if source is None else bucket(source, principal),
        overridden=(),
        unranked=row["unranked"].rows(_read_unranked) if "unranked" in row else (),
    )


def _read_unranked(row: DocumentReader) -> UnrankedLimit:
    return UnrankedLimit(entity=row["entity"].parts(), value=row["value"].set_value())


def _read_shadow(row: DocumentReader) -> ShadowedLimit:
    return ShadowedLimit(
        entity=row["entity"].entity(), key=row["key"].word(Key), by=row["by"].entity()
    )


def _read_hiding(row: DocumentReader) -> HidingOrphan:
    hiding = HidingOrphan(
        entity=row["entity"].entity(),
        key=row["key"].word(Key),
        rules=row["rules"].rows(_read_rule),
        total=row["total"].integer(),
    )
    if not 0 < len(hiding.rules) <= hiding.total:
        row["total"].fail("at least the number of rules that are named")
    return hiding


def _read_unmatched(row: DocumentReader) -> UnmatchedClientId:
    return UnmatchedClientId(
        entity=row["entity"].entity(),
        total=row["total"].integer(),
        example=row["example"].text(),
    )


def _read_rule(row: DocumentReader) -> HiddenRule:
    place = row["file"].optional(lambda file: f"{file.text()}:{row['line'].integer()}")
    return HiddenRule(
        entity=row["entity"].entity(), value=row["value"].set_value(), place=place or ""
    )
