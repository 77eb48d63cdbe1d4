"""Sends alterations in chunks, one after the other, with exactly one result per entity.

If a byte of a chunk may have been sent and no usable response was received, the result of its entities is
*unknown*: the broker may still apply them. Only two cases are retried: a response of NOT_CONTROLLER, after which
nothing was done, and a chunk of which no byte was written. Validate-only changes nothing, so it is
always retried.

A chunk has at most ``MAX_OPERATIONS`` operations and 1 MB. A broker applies the valid entities of a request as one
atomic batch of at most 10,000 records and 8 MiB (QuorumController.MAX_RECORDS_PER_USER_OP, 3.5+); much smaller
requests keep each response quick.
"""

import math
from collections import deque
from collections.abc import Iterator, Mapping, MutableMapping, Sequence
from typing import Final, Generic

from reconciler.base.backoff import Deadline
from reconciler.base.protocols import Progress
from reconciler.client.client_config import ALTER_DEADLINE, ALTER_SECONDS
from reconciler.client.network.cluster import ClusterConnections
from reconciler.client.network.requests import GOOD, ClientRequest, RequestFailed, ResponseStatus
from reconciler.client.wire_translation import APPLIED, Subject, alteration_request, results_of
from reconciler.errors import BrokerError, ClientError, EncodeError, QuotaValueError, RequestTimeout
from reconciler.quota.entity import ABSENT, Entity, EntityParts, is_legal, parts, parts_text
from reconciler.quota.state import (
    MAX_OPERATIONS,
    Alteration,
    OpenAlteration,
    Rejected,
    Result,
    Unknown,
)
from reconciler.wire.apis import ALTER_CLIENT_QUOTAS
from reconciler.wire.error_codes import (
    CLUSTER_AUTHORIZATION_FAILED,
    NOT_CONTROLLER,
    POLICY_VIOLATION,
    REQUEST_TIMED_OUT,
    UNKNOWN_SERVER_ERROR,
    error_code,
)
from reconciler.wire.messages import alter_client_quotas
from reconciler.wire.primitives import MAX_STRING_BYTES, encode_string

_SHOWN: Final = 80


def check_alterations(
    alterations: Sequence[Alteration], *, validate_only: bool = False
) -> dict[Entity, Alteration]:
    """Return the alterations by entity, each unambiguous and valid, because a broker reacts unexpectedly to others.

    The same entity twice in one request commits the first and reports an error; the same key twice reports the wrong
    error; NaN is stored and stops every connection (ClientQuotaControlManager 3.5 to 4.4).

    Args:
        validate_only: Values are not checked here: the broker checks them, and nothing is changed.

    Raises:
        QuotaValueError: An entity or a key is repeated, an entity is empty, mixes ip with another type or has a name
            that Kafka cannot encode, there is no operation, or a value is not finite and above 0.
    """
    by_entity = {alteration.entity: alteration for alteration in alterations}
    suspects = alterations
    if len(by_entity) == len(alterations):
        suspects = [item for item in alterations if not _is_plain(item, any_value=validate_only)]
    for subject in (alteration.entity for alteration in suspects):
        if not is_legal(subject):
            raise QuotaValueError(
                "an entity needs a user, a client-id or an ip"
                if all(slot is ABSENT for slot in subject)
                else f"{_shorten(parts(subject))}: ip cannot be combined with user or client-id"
            )
        for kind, name in parts(subject):
            if name == "":
                raise QuotaValueError(f"the {kind} name is empty; brokers refuse that")
    open_alterations = [OpenAlteration(parts(item.entity), item.operations) for item in suspects]
    _ = check_open_alterations(open_alterations, validate_only=validate_only)
    return by_entity


def _is_plain(alteration: Alteration, *, any_value: bool) -> bool:
    """Whether an alteration is certainly valid, by checks that cost little; nearly all are."""
    subject, operations = alteration.entity, alteration.operations
    names = "".join([name for name in subject if name])
    value_by_key = dict(operations)
    return (
        is_legal(subject)
        and "" not in subject
        and names.isascii()
        and len(names) <= MAX_STRING_BYTES
        and 0 < len(operations) == len(value_by_key)
        and (any_value or all(value is None or 0 < value < math.inf for _, value in operations))
    )


def check_open_alterations(
    alterations: Sequence[OpenAlteration], *, validate_only: bool = False
) -> dict[EntityParts, OpenAlteration]:
    """Return alterations of entities of any types by entity; the broker checks which types exist, and empty names.

    Raises:
        QuotaValueError: An entity, a type of an entity or a key is repeated, an entity is empty, Kafka cannot encode a
            type or a name, there is no operation, or a value is not finite and above 0.
    """
    seen_entities: set[frozenset[tuple[str, str | None]]] = set()
    for alteration in alterations:
        entity_parts = alteration.entity
        types = {kind for kind, _ in entity_parts}
        if not types or len(types) < len(entity_parts):
            raise QuotaValueError(
                f"an entity needs each type once, not {_shorten(entity_parts) or 'no type'}"
            )
        for kind, name in entity_parts:
            _check_text(f"the entity type {kind[:_SHOWN]!a}", kind)
            _check_text(f"the {kind[:_SHOWN]} name", name or "")
        if frozenset(entity_parts) in seen_entities:
            raise QuotaValueError(f"{_shorten(entity_parts)} is given twice in one call")
        seen_entities.add(frozenset(entity_parts))
        _check_operations(alteration, checks_values=not validate_only)
    return {alteration.entity: alteration for alteration in alterations}


def _check_text(meaning: str, text: str) -> None:
    """Check the length: Kafka's protocol has no string of more than 32,767 bytes, in any version."""
    try:
        _ = encode_string(text, flexible=False)
    except EncodeError as error:
        raise QuotaValueError(f"{meaning}: {error.message}") from None


def _check_operations(alteration: OpenAlteration, *, checks_values: bool) -> None:
    if not alteration.operations:
        raise QuotaValueError(f"{_shorten(alteration.entity)} has no operation")
    keys: set[str] = set()
    for key, value in alteration.operations:
        if key in keys:
            raise QuotaValueError(f"{_shorten(alteration.entity)}: {key} is given twice")
        keys.add(key)
        if checks_values and value is not None and not 0 < value < math.inf:
            raise QuotaValueError(
                f"{_shorten(alteration.entity)}: {key} must be a finite number above 0, not {value}"
            )


def _shorten(entity_parts: EntityParts) -> str:
    return parts_text(tuple((kind[:_SHOWN], name and name[:_SHOWN]) for kind, name in entity_parts))


_PROBABLE_VERSION = 1
_AMBIGUOUS_CODES = frozenset({REQUEST_TIMED_OUT, UNKNOWN_SERVER_ERROR})
"""Codes after which a change may still have been made: the broker timed out, or failed without a reason."""

MAX_BYTES: Final = 1_000_000
"""Maximum encoded bytes of one request."""


class AlterationSender(Generic[Subject]):
    """One call of ``alter``. Results are stored in ``results`` during the call, so that a cancelled caller has them."""

    def __init__(
        self,
        cluster: ClusterConnections,
        alterations: Mapping[Subject, Alteration | OpenAlteration],
        *,
        validate_only: bool,
        results: MutableMapping[Subject, Result],
        progress: Progress | None,
    ) -> None:
        """Store alterations that :func:`check_alterations` has checked."""
        self._cluster = cluster
        self._subjects = list(alterations)
        self._alterations = list(alterations.values())
        self._validate_only = validate_only
        self._results = results
        self._progress = progress
        self._encoded: dict[int, list[alter_client_quotas.Entry]] = {}
        self._done_count = 0

    async def run(self, seconds: float | None) -> MutableMapping[Subject, Result]:
        """Send every chunk and return the results.

        Args:
            seconds: Total timeout; None gives each request its own 90.

        Raises:
            ClientError: Nothing was sent.
        """
        total_deadline = None if seconds is None else self._cluster.deadline(seconds)
        sizes = [sum(map(len, entry)) for entry in self._entries(_PROBABLE_VERSION)]
        waiting = deque(split_into_chunks(self._alterations, sizes))
        while waiting:
            start, end = waiting.popleft()
            deadline = total_deadline or self._cluster.deadline(None, least=ALTER_DEADLINE)
            try:
                answer = await self._send(start, end, deadline)
            except RequestFailed as broken:
                self._store_unknown(
                    start, end, f"sent, but no usable response: {broken.error.message}"
                )
                if isinstance(broken.error, RequestTimeout):
                    self._store_unsent(waiting, f"not sent after that: {broken.error.message}")
                continue
            except ClientError as error:
                if not self._results:
                    raise
                if isinstance(error, BrokerError):
                    rejected = Rejected(
                        code=error.code, name=error_code(error.code).name, message=error.message
                    )
                    self._store_result(start, end, rejected)
                else:
                    self._store_unknown(start, end, f"not sent: {error.message}")
                self._store_unsent(waiting, f"not sent: {error.message}")
                continue
            smaller = halves(start, end) if _is_too_large(answer) else ()
            if smaller:
                waiting.extendleft(reversed(smaller))
                continue
            self._store_answer(start, end, answer)
        return self._results

    async def _send(self, start: int, end: int, deadline: Deadline) -> dict[Subject, Result]:
        """Send one chunk; during the request its entities have an unknown result."""
        subjects = self._subjects[start:end]
        under_way: Result = Unknown(reason="sent, cancelled before the response")

        def encode(version: int) -> bytes:
            entries = self._entries(version)[start:end]
            body = alter_client_quotas.join_entries(
                version, entries, validate_only=self._validate_only
            )
            self._results.update(dict.fromkeys(subjects, under_way))
            return body

        def decode(version: int, body: bytes) -> dict[Subject, Result]:
            if alter_client_quotas.is_plain_success(
                version, body, self._entries(version)[start:end]
            ):
                return dict.fromkeys(subjects, APPLIED)
            parts = [alteration_request(item)[0] for item in self._alterations[start:end]]
            return results_of(
                alter_client_quotas.decode_response(version, body),
                dict(zip(parts, subjects, strict=True)),
                self._cluster.login.scrubbed,
            )

        ask = ClientRequest(
            api=ALTER_CLIENT_QUOTAS,
            encode=encode,
            decode=decode,
            verdict=self._verdict,
            right="AlterConfigs",
            repeatable=self._validate_only,
            least_seconds=ALTER_SECONDS,
        )
        try:
            return await self._cluster.call(ask, deadline=deadline)
        except ClientError:
            for subject in subjects:
                _ = self._results.pop(subject, None)
            raise

    def _verdict(self, answer: dict[Subject, Result]) -> ResponseStatus:
        """Return the error of the whole request, if every entry has the same one."""
        codes = {result.code if isinstance(result, Rejected) else 0 for result in answer.values()}
        if len(codes) != 1:
            return GOOD
        code = codes.pop()
        first = next(iter(answer.values()))
        words = first.message if isinstance(first, Rejected) else None
        whole_request_codes = {NOT_CONTROLLER}
        if self._done_count == 0:
            whole_request_codes.add(CLUSTER_AUTHORIZATION_FAILED)
        if self._validate_only:
            whole_request_codes |= {REQUEST_TIMED_OUT, UNKNOWN_SERVER_ERROR}
        return ResponseStatus(code=code, message=words) if code in whole_request_codes else GOOD

    def _store_answer(self, start: int, end: int, answer: dict[Subject, Result]) -> None:
        for subject in self._subjects[start:end]:
            result = answer.get(subject)
            if result is None:
                result = Unknown(reason="the broker's response does not contain this entity")
            elif isinstance(result, Rejected) and result.code in _AMBIGUOUS_CODES:
                result = Unknown(reason=f"the broker answered {result.name}: {result.message}")
            self._results[subject] = result
        self._report_progress(end - start)

    def _store_unknown(self, start: int, end: int, reason: str) -> None:
        self._store_result(start, end, Unknown(reason=reason))

    def _store_result(self, start: int, end: int, result: Result) -> None:
        self._results.update(dict.fromkeys(self._subjects[start:end], result))
        self._report_progress(end - start)

    def _store_unsent(self, waiting: deque[tuple[int, int]], reason: str) -> None:
        while waiting:
            self._store_unknown(*waiting.popleft(), reason)

    def _report_progress(self, count: int) -> None:
        self._done_count += count
        if self._progress is not None:
            phase = "validate" if self._validate_only else "alter"
            self._progress(phase, self._done_count, len(self._alterations))

    def _entries(self, version: int) -> list[alter_client_quotas.Entry]:
        entries = self._encoded.get(version)
        if entries is None:
            requests = map(alteration_request, self._alterations)
            entries = self._encoded[version] = alter_client_quotas.encode_entries(version, requests)
        return entries


def _is_too_large(answer: Mapping[Subject, Result]) -> bool:
    """Whether the whole chunk was refused for its size."""
    return bool(answer) and all(
        isinstance(result, Rejected) and result.code == POLICY_VIOLATION
        for result in answer.values()
    )


def split_into_chunks(
    alterations: Sequence[Alteration | OpenAlteration], sizes: Sequence[int]
) -> Iterator[tuple[int, int]]:
    """Yield ``(start, end)`` of each chunk, in order; an entity is never split.

    Args:
        sizes: Encoded bytes of each.
    """
    start = operations = size = 0
    for at, alteration in enumerate(alterations):
        operation_count = len(alteration.operations)
        full = operations + operation_count > MAX_OPERATIONS or size + sizes[at] > MAX_BYTES
        if full and at > start:
            yield start, at
            start, operations, size = at, 0, 0
        operations += operation_count
        size += sizes[at]
    if start < len(alterations):
        yield start, len(alterations)


def halves(start: int, end: int) -> tuple[tuple[int, int], ...]:
    """Split a chunk in two; return () for a single entity."""
    if end - start < 2:
        return ()
    middle = (start + end) // 2
    return (start, middle), (middle, end)
