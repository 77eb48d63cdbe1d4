"""Sends alterations in chunks, one after the other, with exactly one result per entity.

If a byte of a chunk may have been sent and no usable response was received, the result of its entities is
*unknown*: the broker may still apply them. Only two cases are retried: a response of NOT_CONTROLLER, after which
nothing was done, and a chunk of which no byte was written. Validate-only changes nothing, so it is
always retried.

A chunk has at most ``MAX_OPERATIONS`` operations and 1 MB. A broker applies the valid entities of a request as one
atomic batch of at most 10,000 records and 8 MiB (QuorumController.MAX_RECORDS_PER_USER_OP, 3.5+); much smaller
requests keep each response quick.
"""

from collections import deque
from collections.abc import Iterator, Mapping, MutableMapping, Sequence
from typing import Final, Generic

from reconciler.base.backoff import Deadline
from reconciler.base.protocols import Progress
from reconciler.client.client_config import ALTER_DEADLINE, ALTER_SECONDS
from reconciler.client.network.cluster import ClusterConnections
from reconciler.client.network.requests import GOOD, ClientRequest, RequestFailed, ResponseStatus
from reconciler.client.wire_translation import (
    Subject,
    alteration_request,
    parts_in_answer,
    results_of,
)
from reconciler.errors import BrokerError, ClientError, ProtocolError, RequestTimeout
from reconciler.quota.outcome import (
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
        """Store alterations that :func:`~reconciler.client.alteration_checks.check_alterations` has checked."""
        self._cluster = cluster
        self._subjects = list(alterations)
        self._alterations = list(alterations.values())
        self._validate_only = validate_only
        self._results = results
        self._progress = progress
        self._encoded: dict[int, list[bytes]] = {}
        self._done_count = 0

    async def run(self, seconds: float | None) -> None:
        """Send every chunk.

        Args:
            seconds: Total timeout; None gives each request its own 90.

        Raises:
            ClientError: Nothing was sent.
        """
        total_deadline = None if seconds is None else self._cluster.deadline(seconds)
        sizes = [len(entry) for entry in self._entries(_PROBABLE_VERSION)]
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
                    return
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
                return
            smaller = halves(start, end) if _is_too_large(answer) else ()
            if smaller:
                waiting.extendleft(reversed(smaller))
                continue
            self._store_answer(start, end, answer)

    async def _send(self, start: int, end: int, deadline: Deadline) -> dict[Subject, Result]:
        """Send one chunk; during the request its entities have an unknown result."""
        subjects = self._subjects[start:end]
        entity_by_parts = dict(
            zip(map(parts_in_answer, self._alterations[start:end]), subjects, strict=True)
        )
        before = {subject: self._results.get(subject) for subject in subjects}
        under_way: Result = Unknown(reason="sent, cancelled before the response")

        def encode(version: int) -> bytes:
            entries = self._entries(version)[start:end]
            body = alter_client_quotas.join_entries(
                version, entries, validate_only=self._validate_only
            )
            self._results.update(dict.fromkeys(before, under_way))
            return body

        def decode(version: int, body: bytes) -> dict[Subject, Result]:
            results, reason = results_of(
                alter_client_quotas.decode_response(version, body),
                entity_by_parts,
                self._cluster.login.scrubbed,
            )
            if reason:
                raise ProtocolError(reason, api=ALTER_CLIENT_QUOTAS.name)
            return results

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
            for subject, old in before.items():
                if old is None:
                    _ = self._results.pop(subject, None)
                else:
                    self._results[subject] = old
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

    def _entries(self, version: int) -> list[bytes]:
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
