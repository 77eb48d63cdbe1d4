"""Generates one file with all settings for Argo CD's ConfigMap from the Lua scripts: `--write` or `--check`."""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

import yaml

SCRIPTS = Path(__file__).parents[2] / "charts" / "kafka-quota-reconciler" / "files" / "argocd"
PATCH = SCRIPTS / "argocd-cm-patch.yaml"
KINDS = ("ClientQuota", "QuotaCluster")
ACTIONS = ("suspend", "resume", "reconcile")
HEAD = """\
# Made by `python -m tests.charts.argocd_patch --write` from the scripts beside it. For Argo CD's own namespace:
#   kubectl -n argocd patch configmap argocd-cm --type merge --patch-file argocd-cm-patch.yaml
"""


class Literal(str):
    """A text that is written as a YAML block."""

    __slots__ = ()


class Dumper(yaml.SafeDumper):
    """Writes `Literal` as a block."""


Dumper.add_representer(
    Literal,
    lambda dumper, text: dumper.represent_scalar("tag:yaml.org,2002:str", str(text), style="|"),
)


def script(name: str) -> str:
    """The text of a script."""
    return (SCRIPTS / name).read_text(encoding="utf-8")


def actions() -> str:
    """The value of an actions key, which is YAML inside YAML."""
    document = {
        "discovery.lua": Literal(script("actions/discovery.lua")),
        "definitions": [
            {"name": name, "action.lua": Literal(script(f"actions/{name}.lua"))} for name in ACTIONS
        ],
    }
    return yaml.dump(document, Dumper=Dumper, sort_keys=False)


def patch() -> str:
    """The text of the file."""
    keys: dict[str, str] = {}
    for kind in KINDS:
        keys[f"resource.customizations.health.kafka-quotas.io_{kind}"] = Literal(
            script("health.lua")
        )
        keys[f"resource.customizations.actions.kafka-quotas.io_{kind}"] = Literal(actions())
    return HEAD + yaml.dump({"data": keys}, Dumper=Dumper, sort_keys=False)


def main(arguments: Sequence[str] | None = None) -> int:
    """Write or compare the file; return 1 if it differs."""
    parser = argparse.ArgumentParser(description=__doc__)
    what = parser.add_mutually_exclusive_group(required=True)
    what.add_argument("--write", action="store_true")
    what.add_argument("--check", action="store_true")
    if parser.parse_args(arguments).write:
        PATCH.write_text(patch(), encoding="utf-8")
    if not PATCH.exists() or PATCH.read_text(encoding="utf-8") != patch():
        sys.stderr.write(f"{PATCH.name} is not what the scripts say\n")
        return 1
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
