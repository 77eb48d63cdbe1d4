"""Words of other tools that people type, with what kquota has in their place. A table, read after a usage error."""

from collections.abc import Mapping
from typing import Final

COMMANDS: Final[Mapping[str, str]] = {
    "alter": "kafka-client-quotas --alter, or a manifest and kquota apply",
    "backup": "kquota snapshot",
    "check": "kquota validate",
    "delete": "kafka-client-quotas --alter --delete; docs/pull-requests.md says how a document is deleted with its limit",
    "destroy": "kafka-client-quotas --alter --delete; docs/pull-requests.md says how a document is deleted with its limit",
    "diff": "kquota plan",
    "dump": "kquota snapshot",
    "explain": "kquota resolve for the limit of a client, kquota help COMMAND for a command",
    "get": "kquota describe",
    "lint": "kquota validate",
    "list": "kquota describe for limits, kquota history for applies",
    "log": "kquota history",
    "preview": "kquota plan",
    "show": "kquota describe",
    "status": "kquota drift, or kquota plan",
    "sync": "kquota apply",
    "undo": "kquota rollback --last",
    "up": "kquota apply",
    "version": "kquota --version",
}

OPTIONS: Final[Mapping[str, str]] = {
    "--auto-approve": "--yes",
    "--check": "kquota plan --detailed-exitcode",
    "--context": "--cluster NAME",
    "--diff": "kquota plan",
    "--dry-run": "kquota plan, which writes nothing",
    "--entity": "--only ENTITY, such as --only user=alice",
    "--exclude": "ignore rules in kquota.yaml",
    "--file": "the path as an argument without an option",
    "--json": "--format json",
    "--matching": "--only ENTITY, such as --only user=alice",
    "--output": "--format json, or --out FILE",
    "--quiet": "a redirection of the output: 2>/dev/null",
    "--target": "--only ENTITY, such as --only user=alice",
    "--yaml": "kquota export",
    "-f": "the path as an argument without an option",
    "-n": "--cluster NAME",
    "-o": "--format json, or --out FILE",
}
