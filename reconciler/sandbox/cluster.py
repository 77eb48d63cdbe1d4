"""The state of the sandbox's cluster: one image that alterations change, and the image that each broker shows.

The only mutable state of the sandbox besides faults and connections: the controller's image, the one before it, what
each broker shows, which brokers run. All changes happen on the event loop's thread. Between runs the state is one JSON
file, which is replaced atomically.
"""

import asyncio
import base64
import secrets
from collections.abc import Iterable
from pathlib import Path
from typing import Annotated, Final, Literal

from msgspec import Meta, Struct, field

from reconciler.base.durable_files import replace_file
from reconciler.codecs.reader import decoded
from reconciler.errors import ConfigError
from reconciler.quota.keys import SetValue
from reconciler.render.json_values import dump, read_set_value, written_set_value
from reconciler.sandbox.broker_rules.image import Image, QuotaRecord, names_of
from reconciler.sandbox.settings import SandboxSettings


class SandboxEntry(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The values of one entity in the state file."""

    entity: Annotated[dict[str, str | None], Meta(min_length=1)]
    values: dict[str, SetValue]


class SandboxState(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The state file."""

    cluster_id: str
    entities: list[SandboxEntry]
    format: Literal[1]


class SandboxBroker(Struct):
    """One broker: its listeners' ports, the image (and its version) that it shows, whether it is held or running."""

    node: int
    visible_image: Image
    version: int = 0
    ports: dict[str, int] = field(default_factory=dict[str, int])
    is_held: bool = False
    running: bool = False


def random_cluster_id() -> str:
    """Return 22 characters as ``Uuid.randomUuid`` prints them; never beginning with a dash, like Kafka's."""
    while True:
        cluster_id = base64.urlsafe_b64encode(secrets.token_bytes(16)).decode().rstrip("=")
        if not cluster_id.startswith("-"):
            return cluster_id


class SandboxCluster:
    """The shared state of a sandbox's brokers."""

    def __init__(self, settings: SandboxSettings) -> None:
        """Load the state file, or create one.

        Raises:
            ConfigError: The state file cannot be read or written, or belongs to another cluster id.
        """
        path = settings.state_file
        stored_state = load_state(path) if path is not None else None
        kept_id, image = stored_state if stored_state is not None else ("", Image())
        if settings.cluster_id and kept_id and kept_id != settings.cluster_id:
            raise ConfigError(
                f"the state belongs to cluster {kept_id}, not {settings.cluster_id}",
                location=str(path),
            )
        self.settings = settings
        self.cluster_id = settings.cluster_id or kept_id or random_cluster_id()
        self.image = image
        self.before = image
        self.version = 0
        self.brokers = {
            node: SandboxBroker(node=node, visible_image=image) for node in settings.nodes
        }
        if path is not None and stored_state is None:
            save_state(path, self.cluster_id, image)

    def commit(self, records: Iterable[QuotaRecord]) -> None:
        """Apply records as one batch; brokers show it after their lag.

        Raises:
            ConfigError: The state file cannot be written; nothing has changed then.
        """
        record_list = tuple(records)
        if not record_list:
            return
        changed = self.image.applied(record_list)
        if self.settings.state_file is not None:
            save_state(self.settings.state_file, self.cluster_id, changed)
        self.before, self.image = self.image, changed
        self.version += 1
        for broker in self.brokers.values():
            lag = self.settings.lag.get(broker.node, 0.0)
            if lag > 0:
                asyncio.get_running_loop().call_later(
                    lag, self._show, broker, changed, self.version
                )
            else:
                self._show(broker, changed, self.version)

    def hold(self, node: int) -> None:
        """Keep a broker on its present image, as if it lagged."""
        self.brokers[node].is_held = True

    def release(self, node: int) -> None:
        """Let a broker catch up at once."""
        broker = self.brokers[node]
        broker.is_held = False
        self._show(broker, self.image, self.version)

    def live(self) -> list[SandboxBroker]:
        """Return running brokers by id."""
        return [self.brokers[node] for node in sorted(self.brokers) if self.brokers[node].running]

    def _show(self, broker: SandboxBroker, image: Image, version: int) -> None:
        if not broker.is_held and version > broker.version:
            broker.visible_image, broker.version = image, version


STATE_FORMAT: Final = 1


def load_state(path: Path) -> tuple[str, Image] | None:
    """Return cluster id and image, or ``None`` if there is no file yet.

    Raises:
        ConfigError: The file exists but cannot be read as a state; it is not overwritten then.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        return None
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"the state file cannot be read: {error}", location=str(path)) from error
    state = decoded(text, SandboxState, str(path))
    records = (
        QuotaRecord(names=names_of(row.entity.items()), key=key, value=read_set_value(value))
        for row in state.entities
        for key, value in row.values.items()
    )
    return state.cluster_id, Image().applied(records)


def save_state(path: Path, cluster_id: str, image: Image) -> None:
    """Write the state atomically; durable when this returns.

    Values that JSON has no number for are stored as text ("NaN", "Infinity"): the lines before 4.4 accept them.

    Raises:
        ConfigError: The folder or file cannot be written.
    """
    rows = [
        SandboxEntry(
            entity=dict(names),
            values={key: written_set_value(value) for key, value in values.items()},
        )
        for names, values in sorted(image.values.items(), key=lambda item: repr(item[0]))
    ]
    state = SandboxState(cluster_id=cluster_id, entities=rows, format=STATE_FORMAT)
    content = dump(state).encode("ascii")
    try:
        replace_file(path, content)
    except OSError as error:
        raise ConfigError(
            f"the state file cannot be written: {error}", location=str(path)
        ) from error
