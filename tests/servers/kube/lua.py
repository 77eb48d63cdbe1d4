"""The health that Argo CD computes for an object from a health script in Lua."""

from collections.abc import Mapping

from tests.servers.kube.go_tools import LUAHEALTH, ask


def health(script: str, obj: Mapping[str, object], *, open_libs: bool = False) -> tuple[str, str]:
    """Return status and message of the script for the global `obj`.

    Argo CD limits a script to one second and, unless `useOpenLibs` is set, to the base, package and table libraries.
    (`os.time` and `os.date`, which it also allows, are missing here.) A status that is invalid in Argo CD becomes
    `Unknown`.

    Raises:
        GoToolFailed: The script fails, does not end in time, or returns no table.
    """
    answer = ask(LUAHEALTH, {"script": script, "obj": obj, "openLibs": open_libs})
    return answer["status"], answer["message"]
