"""What Argo CD says about an object, given one of its health scripts in Lua."""

from collections.abc import Mapping

from tests.servers.kube.go_tools import LUAHEALTH, ask


def health(script: str, obj: Mapping[str, object], *, open_libs: bool = False) -> tuple[str, str]:
    """Status and message that the script returns for the global `obj`.

    Argo CD gives a script one second and, unless its `useOpenLibs` is set, nothing but the base,
    package and table libraries: no `string`. (`os.time` and `os.date`, which it allows too, are
    missing here.) A status that Argo CD does not know becomes `Unknown`.

    Raises:
        GoToolFailed: the script fails, does not end in time, or returns no table.
    """
    found = ask(LUAHEALTH, {"script": script, "obj": obj, "openLibs": open_libs})
    return found["status"], found["message"]
