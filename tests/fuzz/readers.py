"""The fuzzed readers, with the valid input from which mutations start."""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from types import ModuleType

from reconciler.codecs.outcome import read_outcome
from reconciler.codecs.plan import read_plan
from reconciler.inventory.format import decode, encode
from reconciler.kube.api.http_exchange import refusal
from reconciler.manifest.loader import load_files
from reconciler.quota.ownership import OwnershipRecords
from reconciler.wire.messages import (
    alter_client_quotas,
    api_versions,
    describe_client_quotas,
    describe_cluster,
    describe_configs,
    describe_user_scram_credentials,
    metadata,
    sasl_authenticate,
    sasl_handshake,
)
from tests.inventory.samples import CHANGES
from tests.wire.samples import LAYOUT

ROOT = Path(__file__).resolve().parents[2]
GOLDEN = ROOT / "tests" / "golden"

MODULES: Mapping[int, ModuleType] = {
    3: metadata,
    17: sasl_handshake,
    18: api_versions,
    32: describe_configs,
    36: sasl_authenticate,
    48: describe_client_quotas,
    49: alter_client_quotas,
    50: describe_user_scram_credentials,
    60: describe_cluster,
}


@dataclass(frozen=True, slots=True)
class FuzzedReader:
    """One reader."""

    name: str  # name in the output
    read: Callable[[bytes], object]  # reads bytes; raises a `KquotaError` to refuse them
    samples: tuple[bytes, ...]  # valid input


def _decode(module: ModuleType, version: int, body: bytes) -> object:
    if module is describe_client_quotas:
        return module.decode_response(version, body, LAYOUT)
    return module.decode_response(version, body)


def _wire() -> list[FuzzedReader]:
    bodies: dict[tuple[int, int], list[bytes]] = {}
    for sample in json.loads((GOLDEN / "wire_versions.json").read_text()):
        if sample["direction"] == "response":
            place = sample["api_key"], sample["api_version"]
            bodies.setdefault(place, []).append(bytes.fromhex(sample["body_hex"]))
    return [
        FuzzedReader(
            f"response of API {key} version {version}",
            partial(_decode, MODULES[key], version),
            tuple(samples),
        )
        for (key, version), samples in sorted(bodies.items())
    ]


def _text(read: Callable[[str], object]) -> Callable[[bytes], object]:
    return lambda content: read(content.decode("utf-8", "surrogateescape"))


def _files(pattern: str) -> tuple[bytes, ...]:
    return tuple(path.read_bytes() for path in sorted(ROOT.glob(pattern)))


OWNED = OwnershipRecords(cluster_id="lkc").with_changes(CHANGES)
RECORDS = (encode({"lkc": OWNED}), b"{}")


def readers() -> list[FuzzedReader]:
    """All fuzzed readers."""
    manifests = _files("examples/**/*.yaml")
    return [
        *_wire(),
        FuzzedReader(
            "manifests", _text(lambda text: load_files([("fuzzed.yaml", text)])), manifests
        ),
        FuzzedReader("records", lambda content: decode(content, location="fuzzed"), RECORDS),
        FuzzedReader(
            "plans",
            _text(lambda text: read_plan(text, location="fuzzed")),
            _files("tests/golden/render/saved_plan.json"),
        ),
        FuzzedReader(
            "outcomes",
            _text(lambda text: read_outcome(text, location="fuzzed")),
            _files("tests/golden/render/outcome.json"),
        ),
        FuzzedReader(
            "refusals of an API server",
            lambda content: refusal("get", 500, content),
            (b'{"kind":"Status","message":"x","reason":"y"}',),
        ),
    ]
