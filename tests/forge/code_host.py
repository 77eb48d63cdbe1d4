"""A repository with its code host on this machine: pull requests in a bare repository, workflows run by act.

act runs jobs as GitHub's runner does, in self-hosted mode, without containers. `--local-repository` gives it this
tree in place of the released actions, and small stand-ins for checkout, setup-python and the artifact actions. What
act cannot show is listed in docs/pull-requests.md: environments, the rights of tokens, and one workflow that starts
another.
"""

import contextlib
import json
import os
import pty
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from click.testing import CliRunner

from reconciler.cli import main
from tests.forge.github_api import GitHubApi, Pull, zipped
from tests.forge.tools import go_program
from tests.servers.processes import HANG_SECONDS

ROOT = Path(__file__).parents[2]
EXAMPLES = ROOT / "examples" / "github"

PINS = {
    "actions/checkout": "11bd71901bbe5b1630ceea73d27597364c9af683",
    "actions/setup-python": "a26af69be951a213d495a4c3e4e4022e16d87065",
    "actions/upload-artifact": "ea165f8d65b6e75b540449e92b4886f43607fa02",
    "actions/download-artifact": "d3f86a106a0bac45b974a628896c90dbdf5c8093",
}
OURS = "kafka-quotas/kafka-quota-reconciler"
OUR_PIN = "0" * 40

STAND_INS = {
    "actions/checkout": """\
        git init -q .
        git remote add origin "${STANDIN_ORIGIN}"
        git fetch -q origin '+refs/heads/*:refs/remotes/origin/*' '+refs/pull/*:refs/remotes/pull/*'
        git checkout -q "${GITHUB_SHA}"
""",
    "actions/setup-python": "true\n",
    "actions/upload-artifact": """\
        mkdir -p "${STANDIN_STORE}/${NAME}"
        cp "${FILE}" "${STANDIN_STORE}/${NAME}/"
        echo "artifact-url=https://github.com/octo/quotas/actions/runs/1/artifacts/${NAME}" >>"${GITHUB_OUTPUT}"
""",
    "actions/download-artifact": """\
        mkdir -p "${FILE}"
        cp "${STANDIN_STORE}/${NAME}"/* "${FILE}/"
""",
}
STAND_IN = """\
name: stand-in
inputs:
  name: {{default: ""}}
  path: {{default: ""}}
outputs:
  artifact-url: {{value: "${{{{ steps.done.outputs.artifact-url }}}}"}}
runs:
  using: composite
  steps:
    - id: done
      shell: bash
      env: {{NAME: "${{{{ inputs.name }}}}", FILE: "${{{{ inputs.path }}}}"}}
      run: |
{script}"""

RELEASE_FILES = (
    ".github/actions",
    ".ci/locks",
    "reconciler",
    "pyproject.toml",
    "README.md",
    "LICENSE",
)
"""The files that an installation from this tree needs."""

SUMMARY = re.compile(r"  ⚙  Summary - (.*?)(?=\n\[quotas-)", re.DOTALL)
"""act prints the summary of a step, and does not store it."""


def release_files(folder: Path, names: tuple[str, ...] = RELEASE_FILES) -> None:
    """Copy files and folders of this tree, without compiled Python files."""
    for name in names:
        if (ROOT / name).is_dir():
            ignored = shutil.ignore_patterns("__pycache__")
            shutil.copytree(ROOT / name, folder / name, ignore=ignored)
        else:
            shutil.copy(ROOT / name, folder / name)


@dataclass(frozen=True)
class Ran:
    """One run of a workflow."""

    ok: bool
    log: str
    summary: str
    artifacts: dict[str, Path]
    outputs: dict[str, str] = field(default_factory=dict)

    @property
    def commands(self) -> list[str]:
        """Lines that the runner interpreted as workflow commands."""
        return [line for line in self.log.splitlines() if re.search(r"(❗|⚠|💬|⚙|❓)\s+::", line)]


class Workbench:
    """A folder with everything; `repository` is a clone on branch main."""

    def __init__(
        self, folder: Path, api: GitHubApi, bootstrap: str, *, installed: bool = True
    ) -> None:
        self.folder = folder
        self.api = api
        self.bootstrap = bootstrap
        self.installed = installed
        self.origin = folder / "origin.git"
        self.repository = folder / "work"
        self.product = folder / "product"
        self.workflows, self.pin = EXAMPLES, OUR_PIN
        self._runs = 0
        self.git("init", "-q", "--bare", "-b", "main", str(self.origin), cwd=folder)
        self.git("clone", "-q", str(self.origin), str(self.repository), cwd=folder)
        (self.repository / ".git" / "info" / "exclude").write_text(".kquota/\n")  # never committed
        self._stand_ins()

    # ---- repository ----------------------------------------------------------------------------

    def git(self, *words: str, cwd: Path | None = None) -> str:
        """The output of git."""
        names = (
            "user.name=t",
            "user.email=t@example.com",
            "commit.gpgsign=false",
            "init.defaultBranch=main",
        )
        settings = [word for name in names for word in ("-c", name)]
        done = subprocess.run(
            ["git", *settings, *words],
            cwd=cwd or self.repository,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout.strip()

    def write(self, **files: str) -> None:
        """Files by path; `__` stands for a slash, `_yaml` for `.yaml`."""
        for name, text in files.items():
            path = self.repository / name.replace("__", "/").replace("_yaml", ".yaml")
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")

    def commit(self, message: str = "change") -> str:
        """Commit everything and push the branch."""
        self.git("add", "-A")
        self.git("commit", "-q", "-m", message)
        self.git("push", "-q", "origin", "HEAD")
        return self.git("rev-parse", "HEAD")

    def branch(self, name: str, start: str = "origin/main") -> None:
        """Create a branch."""
        self.git("fetch", "-q", "origin")
        self.git("checkout", "-q", "-B", name, start)

    def propose(self, number: int, branch: str, *, fork: str = "") -> Pull:
        """Open a pull request from a pushed branch."""
        return self.api.pull(
            number, sha=self.git("rev-parse", f"origin/{branch}"), branch=branch, repo=fork
        )

    def squash(self, number: int) -> str:
        """Merge a pull request as one new commit on main."""
        pull = self.api.pulls[number]
        self.branch("main")
        self.git("merge", "-q", "--squash", pull.sha)
        pull.merged_as = self.commit(f"change (#{number})")
        pull.state = "closed"
        self.git("fetch", "-q", "origin")
        return pull.merged_as

    def applied_by_hand(self) -> None:
        """Apply the declarations of main without a workflow."""
        inherited = CliRunner().isolation(env={"QUOTA_BOOTSTRAP": self.bootstrap})
        with contextlib.chdir(self.repository), inherited as (_, stderr, _):
            code = main.main(["apply", "--yes"])
            assert code == 0, stderr.getvalue()

    def typed(self, command: str) -> tuple[int, str]:
        """Exit code and text of a command that a person runs in a terminal in the clone, with the answer yes."""
        terminal, process_side = pty.openpty()
        scripts = Path(sys.executable).parent
        environment = {name: value for name, value in os.environ.items() if name != "CI"}
        process = subprocess.Popen(
            ["bash", "-c", command],
            cwd=self.repository,
            stdin=process_side,
            stdout=process_side,
            stderr=process_side,
            start_new_session=True,
            env=environment
            | {
                "QUOTA_BOOTSTRAP": self.bootstrap,
                "TERM": "xterm",
                "PATH": f"{scripts}:{os.environ['PATH']}",
            },
        )
        os.close(process_side)
        os.write(terminal, b"yes\n")
        text = b""
        try:
            while piece := os.read(terminal, 65536):
                text += piece
        except OSError:
            pass  # Linux reports the end of a terminal with this error
        finally:
            os.close(terminal)
        return process.wait(HANG_SECONDS), text.decode("utf-8", "replace")

    # ---- events --------------------------------------------------------------------------------

    def plan(self, number: int, **more: object) -> Ran:
        """Run the example's plan for a pull request, and store its artifact like GitHub."""
        pull = self.api.pulls[number]
        self.git("fetch", "-q", "origin")
        base = self.git("rev-parse", "origin/main")
        # GitHub checks out the head merged into the base for a pull request.
        self.git("checkout", "-q", "--detach", base)
        self.git("merge", "-q", "--no-ff", "-m", "merge", pull.sha)
        self.git("push", "-q", "-f", "origin", f"HEAD:refs/pull/{number}/merge")
        event = {
            "action": "synchronize",
            "number": number,
            "pull_request": {
                "number": number,
                "base": {"sha": base, "ref": "main"},
                "head": {
                    "sha": pull.sha,
                    "ref": pull.head_branch,
                    "repo": {"full_name": pull.head_repo},
                },
            },
        }
        ran = self.run("quotas-plan.yml", "pull_request", event, **more)
        texts = {name: path.read_text(encoding="utf-8") for name, path in ran.artifacts.items()}
        self.api.run(
            "quotas-plan.yml",
            pull.sha,
            artifacts={
                name: zipped(plan_json=text) for name, text in texts.items() if "plan" in name
            },
            conclusion="success" if ran.ok else "failure",
            repo=pull.head_repo,
            branch=pull.head_branch,
        )
        return ran

    def push(self, commit: str, **more: object) -> Ran:
        """Run the example's apply for a push to main."""
        self.git("checkout", "-q", "--detach", commit)
        event = {"ref": "refs/heads/main", "after": commit, "before": "0" * 40}
        return self.run("quotas-apply.yml", "push", event, **more)

    def dispatch(self, workflow: str, **inputs: str) -> Ran:
        """Run a workflow by hand on main."""
        self.branch("main")
        self.git("checkout", "-q", "--detach", "origin/main")
        return self.run(workflow, "workflow_dispatch", {"ref": "refs/heads/main", "inputs": inputs})

    def comment_on_fork(self, pull: Pull, artifact: Path) -> Ran:
        """Run the privileged half for a run of a fork, whose artifact is this file."""
        name = artifact.parent.name
        store = self.folder / "incoming" / name
        store.mkdir(parents=True, exist_ok=True)
        if artifact.exists():
            shutil.copy(artifact, store / "plan.json")
        head = {"full_name": pull.head_repo}
        run = {
            "id": 5,
            "event": "pull_request",
            "head_sha": pull.sha,
            "head_branch": pull.head_branch,
            "head_repository": head,
            "html_url": "https://github.com/octo/quotas/actions/runs/5",
        }
        return self.run(
            "quotas-comment.yml",
            "workflow_run",
            {"workflow_run": run},
            store=self.folder / "incoming",
        )

    # ---- act -----------------------------------------------------------------------------------

    def run(
        self,
        workflow: str,
        event_name: str,
        event: dict,
        *,
        store: Path | None = None,
        token: str = "ghs_workflow",  # noqa: S107 - a token of the fake
        env: dict[str, str] | None = None,
        edit: Callable[[str], str] = str,
    ) -> Ran:
        """Run one workflow of `examples/github`, unchanged or with an edit."""
        self._runs += 1
        folder = self.folder / f"run-{self._runs}"
        store = store or folder / "store"
        store.mkdir(parents=True, exist_ok=True)
        (folder / "temp").mkdir(parents=True, exist_ok=True)
        owner, _, name = self.api.repository.partition("/")
        payload = event | {
            "repository": {
                "full_name": self.api.repository,
                "name": name,
                "default_branch": "main",
                "owner": {"login": owner},
            }
        }
        (folder / "event.json").write_text(json.dumps(payload))
        (folder / workflow).write_text(edit(self._workflow(workflow)))
        local = {
            f"{action}@{pin}": self.folder / "stand-ins" / action for action, pin in PINS.items()
        }
        local[f"{OURS}@{self.pin}"] = self.product
        options = {
            "-C": [self.repository],
            "-W": [folder / workflow],
            "-e": [folder / "event.json"],
            "-P": ["ubuntu-24.04=-self-hosted"],
            "--action-cache-path": [folder / "cache"],
            "--local-repository": [f"{name}={place}" for name, place in local.items()],
            "-s": [
                f"GITHUB_TOKEN={token}",
                "QUOTA_PLANNER_PASSWORD=planner-secret",
                "QUOTA_APPLIER_PASSWORD=applier-secret",
            ],
            "--var": [
                "QUOTA_PLANNER=planner",
                "QUOTA_APPLIER=applier",
                f"QUOTA_BOOTSTRAP={self.bootstrap}",
            ],
        }
        variables = {
            "GITHUB_API_URL": self.api.url,
            "GITHUB_REPOSITORY": self.api.repository,
            "STANDIN_ORIGIN": str(self.origin),
            "STANDIN_STORE": str(store),
        }
        options["--env"] = [f"{name}={value}" for name, value in (variables | (env or {})).items()]
        command = [go_program("act"), event_name, "--no-skip-checkout", "--no-cache-server"]
        command += [
            word for name, values in options.items() for value in values for word in (name, value)
        ]
        done = subprocess.run(
            command,
            capture_output=True,
            text=True,
            check=False,
            timeout=HANG_SECONDS,
            env=self._environment(folder),
        )
        return Ran(
            ok=done.returncode == 0,
            log=done.stdout + done.stderr,
            summary="\n".join(re.findall(SUMMARY, done.stdout)),
            artifacts={file.parent.name: file for file in store.glob("*/*.*")},
            outputs=dict(re.findall(r"::set-output:: ([a-z-]+)=(.*)", done.stdout)),
        )

    def _environment(self, folder: Path) -> dict[str, str]:
        inherited = {name: os.environ[name] for name in ("LANG", "JAVA_HOME") if name in os.environ}
        scripts = str(Path(sys.executable).parent)
        path = (
            f"{scripts}{os.pathsep}{os.environ['PATH']}" if self.installed else os.environ["PATH"]
        )
        (folder / "home").mkdir()
        quiet = {
            "GIT_CONFIG_COUNT": "2",
            "GIT_CONFIG_KEY_0": "user.name",
            "GIT_CONFIG_VALUE_0": "t",
            "GIT_CONFIG_KEY_1": "user.email",
            "GIT_CONFIG_VALUE_1": "t@example.com",
        }
        home = {"HOME": str(folder / "home"), "XDG_CACHE_HOME": str(folder / "cache-home")}
        return inherited | quiet | home | {"PATH": path, "TMPDIR": str(folder / "temp")}

    def _workflow(self, name: str) -> str:
        """The example, which finds kquota on the PATH instead of installing it."""
        text = (self.workflows / name).read_text(encoding="utf-8")
        if self.installed:
            text = re.sub(r"uses: kafka-quotas/\S+/setup@[^\n]*", "run: kquota --version", text)
            beginning = r"(uses: kafka-quotas/[^\n]*\n(?: +env:[^\n]*\n(?: {10}[^\n]*\n)*)? +with:"
            text = re.sub(beginning + r" *)\{", r"\1{version: installed, ", text)
            text = re.sub(beginning + r"\n)( +)", r"\1\2version: installed\n\2", text)
        return text

    def _stand_ins(self) -> None:
        for action, script in STAND_INS.items():
            folder = self.folder / "stand-ins" / action
            folder.mkdir(parents=True)
            indented = "".join(f"        {line.strip()}\n" for line in script.splitlines())
            (folder / "action.yml").write_text(STAND_IN.format(script=indented))
        # act copies the repository of an action for each step that uses it.
        release_files(self.product, (".github/actions",) if self.installed else RELEASE_FILES)
