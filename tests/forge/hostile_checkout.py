"""A checkout that tries to have its files executed: each planted file writes to a witness file when it runs."""

from pathlib import Path

MODULES = (
    "venv",
    "json",
    "os",
    "pip",
    "ensurepip",
    "hatchling",
    "click",
    "yaml",
    "aiohttp",
    "jsonschema",
    "asyncio",
    "encodings",
    "reconciler",
    "sitecustomize",
    "usercustomize",
    "_distutils_hack",
    "setuptools",
)
"""Names that Python, pip, a build or kquota imports, each as a module and as a package."""


def plant(folder: Path, witness: Path) -> None:
    """Write files that programs look for in the current directory to the root of a checkout."""
    for name in MODULES:
        program = f"open({str(witness)!r}, 'a').write({name!r} + '\\n')\nraise SystemExit(0)\n"
        (folder / f"{name}.py").write_text(program)
        (folder / name).mkdir()
        (folder / name / "__init__.py").write_text(program)
        (folder / name / "__main__.py").write_text(program)
    shell = f"echo {{}} >>{witness}"
    for name in (".pdbrc", ".pythonrc.py", "conftest.py", "setup.py"):
        (folder / name).write_text(f"open({str(witness)!r}, 'a').write({name!r})\n")
    for name in (".bashrc", ".bash_profile", ".profile", ".env", ".envrc"):
        (folder / name).write_text(shell.format(name) + "\n")
    for name in ("kquota", "python3", "git", "base64"):
        (folder / name).with_name(f"{name}.sh").write_text(shell.format(name))
    unreachable = "index-url = http://127.0.0.1:9/simple\n"
    for name in ("pip.conf", "pip.ini", "uv.toml"):
        (folder / name).write_text(f"[global]\n{unreachable}")
    (folder / "setup.cfg").write_text(
        "[install]\nprefix = /nowhere\n[easy_install]\n" + unreachable
    )
    (folder / "pyproject.toml").write_text(
        '[build-system]\nrequires = []\nbuild-backend = "sitecustomize"\nbackend-path = ["."]\n'
    )
    (folder / ".netrc").write_text("machine 127.0.0.1 login evil password evil\n")
    (folder / ".python-version").write_text("../../../../evil\n")
    (folder / ".gitattributes").write_text("* filter=evil diff=evil merge=evil textconv=evil\n")
    settings = (
        f"[core]\n\tbare = false\n\tworktree = {folder}\n\tfsmonitor = {shell.format('fsmonitor')}; false\n"
        f"\tsshCommand = {shell.format('sshCommand')} ;\n\thooksPath = {folder}/hooks\n\tpager = {shell.format('pager')}\n"
        '[remote "origin"]\n\turl = ssh://example.org/x\n'
        f'[filter "evil"]\n\tclean = {shell.format("clean")}\n\tsmudge = {shell.format("smudge")}\n'
        f'[diff "evil"]\n\ttextconv = {shell.format("textconv")}\n\tcommand = {shell.format("diff")}\n'
    )
    (folder / ".gitconfig").write_text(settings)
    for name in ("post-checkout", "pre-push", "reference-transaction", "post-index-change"):
        hook = folder / "hooks" / name
        hook.parent.mkdir(exist_ok=True)
        hook.write_text(f"#!/bin/sh\n{shell.format(name)}\n")
        hook.chmod(0o755)
    plant_bare_repository(folder / "infra", settings)


def plant_bare_repository(folder: Path, settings: str) -> None:
    """A folder that git regards as a repository, with settings that run programs."""
    (folder / "objects").mkdir(parents=True)
    (folder / "refs").mkdir()
    (folder / "HEAD").write_text("ref: refs/heads/main\n")
    (folder / "config").write_text(settings)
