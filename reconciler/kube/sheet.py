"""One document against one pass: its keys, its drift and its conflicts, as the status of a ClientQuota lists them."""

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from reconciler.kube.conditions import bounded, condition_of
from reconciler.kube.reading import KeyReading, Reading
from reconciler.kube.reasons import Reason
from reconciler.kube.records import written
from reconciler.kube.resources import Obj, time_text
from reconciler.kube.standing import Kind, Standing
from reconciler.quota.entity import Entity
from reconciler.quota.keys import COLUMN_OF, COLUMNS, Key
from reconciler.quota.owned import Override, Pair
from reconciler.quota.state import NO_LIMITS, Limits
from reconciler.render.names import escaped
from reconciler.render.units import json_number


def declared(standing: Standing) -> Limits:
    """What a document declares by now; one on its way out declares nothing."""
    if standing.declaration is None or standing.kind is Kind.TERMINATING:
        return NO_LIMITS
    return standing.declaration.limits


def sentence(found: Iterable[tuple[Key, KeyReading]]) -> str:
    """What is to be said of several keys."""
    return "; ".join(f"{key}: {one.message}" if one.message else str(key) for key, one in found)


@dataclass(frozen=True, kw_only=True)
class Sheet:
    """A document and a pass that compared it. Not slotted: what was read is read once.

    Attributes:
        standing: How the document stands.
        subject: Its entity.
        reading: The pass.
        previous: Its status so far.
        now: Seconds since the epoch.
    """

    standing: Standing
    subject: Entity
    reading: Reading
    previous: Obj
    now: float

    @cached_property
    def readings(self) -> Mapping[Key, KeyReading]:
        """The keys that the document declares or still owns, in the order of the columns."""
        made: dict[Key, KeyReading] = {}
        for key, wanted in zip(COLUMNS, declared(self.standing), strict=True):
            if wanted is None and not self._record(key):
                continue
            found = self.reading.of(
                (self.subject, key), self.standing.document, tenanted=self.standing.tenanted
            )
            if self.standing.freezes:
                found = KeyReading(reason=Reason.SYNCED, cause="Frozen", live=found.live)
            made[key] = found
        return made

    def _record(self, key: Key) -> dict[str, Any]:
        return written(self.reading.owned, self.standing.document, self.subject, key)

    def _pair(self, key: Key) -> Pair:
        return self.subject, key

    # ---- keys --------------------------------------------------------------------------------

    def keys(self) -> list[dict[str, Any]]:
        """``status.keys``."""
        return [self._key(key, found) for key, found in self.readings.items()]

    def _key(self, key: Key, found: KeyReading) -> dict[str, Any]:
        before, record = self._before(key), self._record(key)
        made: dict[str, Any] = {"key": key.value}
        wanted = declared(self.standing)[COLUMN_OF[key]]
        if wanted is not None:
            made["desired"] = json_number(wanted)
        if found.live is not None and math.isfinite(found.live):
            made["live"] = json_number(found.live)
        made |= record
        if "applied" in record:
            made["appliedAt"] = self._applied_at(record, found, before)
        made["cause"] = found.cause
        result = found.result or _kept_result(found, before)
        if result:
            made["result"] = result
        if found.message:
            made["message"] = bounded(found.message)
        override = self.reading.owned.overrides.get(self._pair(key))
        if override is not None and self.now < override.until:
            made["overriddenBy"] = _overridden(override)
        return made

    def _before(self, key: Key) -> Obj:
        """What the status said of the key, if it spoke of this very cluster."""
        if self.previous.get("clusterId") != self.reading.owned.cluster_id:
            return {}
        items = self.previous.get("keys", ())
        return next((one for one in items if one.get("key") == key), {})

    def _applied_at(self, record: Obj, found: KeyReading, before: Obj) -> str:
        """Now if it was written just now, else when it was before; what was found applied counts from now on."""
        if found.result != "Applied" and before.get("applied") == record["applied"]:
            return str(before.get("appliedAt") or time_text(self.now))
        return time_text(self.now)

    # ---- drift and conflict ------------------------------------------------------------------

    def drift(self) -> list[dict[str, Any]]:
        """``status.drift``: what somebody else changed and is not back yet, with the first time it was seen."""
        made: list[dict[str, Any]] = []
        for key, found in self.readings.items():
            first = self.reading.owned.drift_since.get(self._pair(key))
            if not found.drifts and first is None:
                continue
            sighting = self.reading.sightings.get(self._pair(key))
            if first is None:
                first = self.now if sighting is None else sighting.since
            one: dict[str, Any] = {"key": key.value, "firstSeen": time_text(first)}
            expected = self.reading.applied(self._pair(key))
            if expected is not None:
                one["expected"] = json_number(expected)
            if found.live is not None and math.isfinite(found.live):
                one["live"] = json_number(found.live)
            made.append(one)
        return made

    def counts_as_drift(self, key: Key) -> bool:
        """Whether drift of a key is spoken of: after N looks in a row, or once it was, also after a restart."""
        if not self.readings[key].drifts:
            return False
        sighting = self.reading.sightings.get(self._pair(key))
        if sighting is not None and sighting.confirmed:
            return True
        known = condition_of(self.previous, "Drifted").get("status") == "True"
        return known and any(one.get("key") == key for one in self.previous.get("drift", ()))

    def drifted(self) -> str:
        """What the Drifted condition says; "" = there is none."""
        return sentence(
            (key, found) for key, found in self.readings.items() if self.counts_as_drift(key)
        )

    def conflict(self) -> str:
        """What the Conflict condition says; "" = there is none."""
        return sentence(
            (key, found) for key, found in self.readings.items() if found.reason is Reason.CONFLICT
        )


def _kept_result(found: KeyReading, before: Obj) -> str:
    """The outcome of an earlier write, as long as it still explains what is seen."""
    result = str(before.get("result", ""))
    settled = found.reason in {Reason.SYNCED, Reason.OVERRIDE_ACTIVE}
    return result if result == "Applied" or not settled else ""


def _overridden(one: Override) -> dict[str, Any]:
    made: dict[str, Any] = {
        "until": time_text(one.until),
        "who": bounded(escaped(one.who), 256),
        "reason": bounded(escaped(one.reason), 512),
    }
    if one.value is not None and math.isfinite(one.value):
        made["value"] = json_number(one.value)
    return made


def kept_keys(standing: Standing, previous: Obj) -> list[dict[str, Any]]:
    """The keys as a status has them, with what the document says by now: nothing was compared."""
    wanted = dict(zip(COLUMNS, declared(standing), strict=True))
    made: list[dict[str, Any]] = []
    for one in previous.get("keys", ()):
        kept = {name: value for name, value in one.items() if name != "desired"}
        value = one.get("desired") if standing.declaration is None else wanted.get(one.get("key"))
        if value is not None:
            kept["desired"] = json_number(value)
        made.append(kept)
    return made
