"""The parts of GitHub's REST API that are in use, over HTTP: strict about requests, honest about who may do what.

With a `Description` every request and every answer is held to GitHub's published OpenAPI document; without one (tests
that need no network) only to the rules written here. What does not fit is kept in `complaints`, which tests must find
empty. What was posted is kept for assertions: `api.comments`, `api.issues`, `api.requests`.
"""

import io
import itertools
import json
import threading
import zipfile
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self
from urllib.parse import parse_qsl, urlencode, urlsplit

from tests.forge.openapi import Description

LONGEST = 65_536
WHEN = "2026-11-21T12:00:00Z"
WRITES = {"POST", "PATCH", "PUT", "DELETE"}
BOT = "github-actions[bot]"


@dataclass(frozen=True)
class Account:
    """Who a token belongs to, and what it may do."""

    login: str
    rights: frozenset[str] = frozenset(
        {"contents: read", "pull-requests: write", "issues: write", "actions: read"}
    )
    is_app: bool = False


@dataclass
class Pull:
    """A pull request."""

    number: int
    head_repo: str | None
    head_branch: str
    sha: str
    state: str = "open"
    merged_as: str = ""


@dataclass
class Comment:
    """A comment, as it was posted."""

    id: int
    number: int
    author: str
    body: str


@dataclass
class IssueCard:
    """An issue, as it was posted."""

    number: int
    author: str
    title: str
    body: str
    state: str = "open"


@dataclass
class Run:
    """A run of a workflow and what it left: name -> zip."""

    id: int
    workflow: str
    sha: str
    event: str = "pull_request"
    conclusion: str = "success"
    artifacts: dict[str, bytes] = field(default_factory=dict)
    expired: bool = False
    repo: str | None = "octo/quotas"
    branch: str = "change"
    pulls: tuple[int, ...] = ()


@dataclass(frozen=True)
class Refusal(Exception):
    """An answer that is none of the good ones."""

    status: int
    message: str
    headers: dict[str, str] = field(default_factory=dict)
    errors: tuple[dict, ...] = ()


@dataclass(frozen=True)
class Seen:
    """A request that came."""

    method: str
    path: str
    query: dict[str, str]
    body: Any
    headers: dict[str, str]


Fault = Callable[[Seen], "Refusal | None"]


class GitHubApi:
    """A server between `__enter__` and `__exit__`, for one repository."""

    def __init__(
        self, description: Description | None = None, *, repository: str = "octo/quotas"
    ) -> None:
        self.repository = repository
        self.description = description
        self.accounts: dict[str, Account] = {"ghs_workflow": Account(BOT, is_app=True)}
        self.pulls: dict[int, Pull] = {}
        self.comments: list[Comment] = []
        self.issues: list[IssueCard] = []
        self.runs: list[Run] = []
        self.requests: list[Seen] = []
        self.complaints: list[str] = []
        self.faults: list[Fault] = []
        self.largest_page = 100
        self._ids = itertools.count(1001)
        self._lock = threading.Lock()
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), handler(self))
        self._server.daemon_threads = True
        self._thread = threading.Thread(
            target=self._server.serve_forever, args=(0.01,), daemon=True
        )

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join(10)

    @property
    def url(self) -> str:
        """The base address."""
        return f"http://127.0.0.1:{self._server.server_address[1]}"

    # ---- what tests do -------------------------------------------------------------------------

    def pull(self, number: int, *, sha: str, branch: str = "change", repo: str | None = "") -> Pull:
        """A pull request; from our own repository unless said otherwise."""
        made = Pull(number, self.repository if repo == "" else repo, branch, sha)
        self.pulls[number] = made
        return made

    def comment(self, number: int, author: str, body: str) -> Comment:
        """A comment by somebody."""
        new_comment = Comment(next(self._ids), number, author, body)
        self.comments.append(new_comment)
        return new_comment

    def issue(self, author: str, title: str, body: str) -> IssueCard:
        """An issue by somebody."""
        card = IssueCard(next(self._ids), author, title, body)
        self.issues.append(card)
        return card

    def run(
        self, workflow: str, sha: str, *, artifacts: dict[str, bytes] | None = None, **more: Any
    ) -> Run:
        """A run of a workflow."""
        new_run = Run(next(self._ids), workflow, sha, artifacts=artifacts or {}, **more)
        self.runs.append(new_run)
        return new_run

    def fail_once(self, *refusals: Refusal, method: str = "", path: str = "") -> None:
        """Answer the next requests that fit with these, one each."""
        waiting = list(refusals)

        def fault(seen: Seen) -> Refusal | None:
            fits = (not method or seen.method == method) and path in seen.path
            return waiting.pop(0) if waiting and fits else None

        self.faults.append(fault)

    def bodies(self, number: int) -> list[str]:
        """The comments of a pull request."""
        return [one.body for one in self.comments if one.number == number]

    def sent(self, method: str) -> list[str]:
        """Paths of all requests of a method."""
        return [request.path for request in self.requests if request.method == method]

    # ---- answering -----------------------------------------------------------------------------

    def answer(self, seen: Seen) -> tuple[int, dict[str, str], Any]:
        """Status, headers and body; bytes stand for themselves."""
        with self._lock:
            self.requests.append(seen)
            headers = {"X-RateLimit-Limit": "5000", "X-RateLimit-Remaining": "4999"}
            try:
                if seen.path.startswith("/_blob/"):
                    return self._blob(seen)
                status, more, body = self._answered(seen)
            except Refusal as no:
                said: dict[str, Any] = {
                    "message": no.message,
                    "documentation_url": "https://docs.github.com/rest",
                }
                if no.errors:
                    said["errors"] = list(no.errors)
                return no.status, headers | no.headers, said
            return status, headers | more, body

    def _answered(self, seen: Seen) -> tuple[int, dict[str, str], Any]:
        for fault in self.faults:
            refusal = fault(seen)
            if refusal is not None:
                raise refusal
        account = self._account(seen)
        self._check_headers(seen)
        operation = None
        if self.description is not None:
            operation = self.description.operation(seen.method, seen.path)
            if operation is None:
                raise self._complaint(f"GitHub has no {seen.method} {seen.path}")
            for text in self.description.request_faults(operation, seen.query, seen.body):
                raise self._complaint(text)
        status, headers, made = self._routed(seen, account)
        if operation is not None and self.description is not None and made is not None:
            made = self._dressed(operation, status, made)
            self.complaints += self.description.answer_faults(operation, status, made)
        return status, headers, made

    def _account(self, seen: Seen) -> Account:
        kind, _, token = seen.headers.get("authorization", "").partition(" ")
        if not token or kind not in {"Bearer", "token"}:
            raise Refusal(401, "Requires authentication")
        if token not in self.accounts:
            raise Refusal(401, "Bad credentials")
        return self.accounts[token]

    def _check_headers(self, seen: Seen) -> None:
        if not seen.headers.get("user-agent"):
            raise Refusal(
                403,
                "Request forbidden by administrative rules. Please make sure your request has a User-Agent header",
            )
        if seen.headers.get("x-github-api-version") != "2022-11-28":
            raise self._complaint("the version of the API is not asked for")
        if seen.headers.get("accept") != "application/vnd.github+json":
            raise self._complaint("the media type is not asked for")

    def _complaint(self, text: str) -> Refusal:
        self.complaints.append(text)
        return Refusal(400, f"the test server complains: {text}")

    def _routed(self, seen: Seen, account: Account) -> tuple[int, dict[str, str], Any]:
        if seen.path == "/user":
            if account.is_app:
                raise Refusal(403, "Resource not accessible by integration")
            return 200, {}, {"login": account.login}
        prefix = f"/repos/{self.repository}/"
        if not seen.path.startswith(prefix):
            raise Refusal(404, "Not Found")
        steps = seen.path.removeprefix(prefix).split("/")
        match [seen.method, *steps]:
            case ["GET", "issues", number, "comments"]:
                self._thread_of(number)
                return self._page(
                    seen, [self._comment(one) for one in self.comments if str(one.number) == number]
                )
            case ["POST", "issues", number, "comments"]:
                self._may(account, "issues: write", "pull-requests: write")
                self._thread_of(number)
                new_comment = self.comment(
                    int(number), account.login, self._text(seen, "body", "IssueComment")
                )
                return 201, {}, self._comment(new_comment)
            case ["PATCH", "issues", "comments", number]:
                one = self._own_comment(number, account)
                one.body = self._text(seen, "body", "IssueComment")
                return 200, {}, self._comment(one)
            case ["DELETE", "issues", "comments", number]:
                self.comments.remove(self._own_comment(number, account))
                return 204, {}, None
            case _:
                return self._issues_and_more(seen, account, steps)

    def _issues_and_more(
        self, seen: Seen, account: Account, steps: list[str]
    ) -> tuple[int, dict[str, str], Any]:
        match [seen.method, *steps]:
            case ["GET", "issues"]:
                state = seen.query.get("state", "open")
                cards = [self._issue(one) for one in self.issues if state in {one.state, "all"}]
                # For this API a pull request is an issue, too.
                cards += [
                    {
                        "number": one.number,
                        "title": "a pull request",
                        "body": "",
                        "user": {"login": "someone"},
                        "pull_request": {
                            "url": None,
                            "html_url": None,
                            "diff_url": None,
                            "patch_url": None,
                        },
                    }
                    for one in self.pulls.values()
                    if one.state == state
                ]
                return self._page(seen, cards)
            case ["POST", "issues"]:
                self._may(account, "issues: write")
                card = self.issue(
                    account.login, seen.body["title"], self._text(seen, "body", "Issue")
                )
                return 201, {}, self._issue(card)
            case ["PATCH", "issues", number]:
                self._may(account, "issues: write")
                one = next((one for one in self.issues if str(one.number) == number), None)
                if one is None:
                    raise Refusal(404, "Not Found")
                if "body" in seen.body:
                    one.body = self._text(seen, "body", "Issue")
                one.title, one.state = (
                    seen.body.get("title", one.title),
                    seen.body.get("state", one.state),
                )
                return 200, {}, self._issue(one)
            case _:
                return self._pulls(seen, account, steps)

    def _pulls(
        self, seen: Seen, account: Account, steps: list[str]
    ) -> tuple[int, dict[str, str], Any]:
        match [seen.method, *steps]:
            case ["GET", "pulls"]:
                return self._page(seen, [self._pull(one) for one in self._listed_pulls(seen)])
            case ["GET", "pulls", number]:
                found = self.pulls.get(int(number))
                if found is None:
                    raise Refusal(404, "Not Found")
                return 200, {}, self._pull(found)
            case ["GET", "commits", sha, "pulls"]:
                return self._page(
                    seen,
                    [
                        self._pull(one)
                        for one in self.pulls.values()
                        if sha in {one.merged_as, one.sha}
                    ],
                )
            case _:
                return self._actions(seen, account, steps)

    def _actions(
        self, seen: Seen, account: Account, steps: list[str]
    ) -> tuple[int, dict[str, str], Any]:
        match [seen.method, *steps]:
            case ["GET", "actions", "workflows", workflow, "runs"]:
                self._may(account, "actions: read")
                runs = [
                    one
                    for one in self.runs
                    if one.workflow == workflow and one.sha == seen.query.get("head_sha", one.sha)
                ]
                return self._page(
                    seen, [self._run(one) for one in runs], field_name="workflow_runs"
                )
            case ["GET", "actions", "runs", number, "artifacts"]:
                self._may(account, "actions: read")
                (run,) = [one for one in self.runs if str(one.id) == number]
                names = [name for name in run.artifacts if name == seen.query.get("name", name)]
                found = [
                    {"id": run.id * 100 + at, "name": name, "expired": run.expired}
                    for at, name in enumerate(run.artifacts)
                    if name in names
                ]
                return self._page(seen, found, field_name="artifacts")
            case ["GET", "actions", "artifacts", number, "zip"]:
                self._may(account, "actions: read")
                return 302, {"Location": f"{self.url}/_blob/{number}?sig=secret"}, None
            case _:
                raise Refusal(404, "Not Found")

    def _blob(self, seen: Seen) -> tuple[int, dict[str, str], Any]:
        """The store of artifacts, which is another server and must not see a token."""
        if "authorization" in seen.headers:
            self.complaints.append("the token went to the store of artifacts")
        number = int(seen.path.rpartition("/")[2])
        (run,) = [one for one in self.runs if one.id == number // 100]
        return 200, {"Content-Type": "application/zip"}, list(run.artifacts.values())[number % 100]

    def _may(self, account: Account, *one_of: str) -> None:
        if not account.rights & set(one_of):
            raise Refusal(403, "Resource not accessible by integration")

    def _thread_of(self, number: str) -> None:
        if int(number) not in self.pulls and number not in {str(one.number) for one in self.issues}:
            raise Refusal(404, "Not Found")

    def _own_comment(self, number: str, account: Account) -> Comment:
        self._may(account, "issues: write", "pull-requests: write")
        one = next((one for one in self.comments if str(one.id) == number), None)
        if one is None:
            raise Refusal(404, "Not Found")
        if one.author != account.login:
            self.complaints.append(f"a comment of {one.author} was touched")
        return one

    def _text(self, seen: Seen, name: str, resource: str) -> str:
        text = seen.body.get(name)
        if not isinstance(text, str) or not text.strip():
            raise Refusal(
                422,
                "Validation Failed",
                errors=({"resource": resource, "code": "missing_field", "field": name},),
            )
        if len(text) > LONGEST:
            why = {
                "resource": resource,
                "code": "custom",
                "field": name,
                "message": f"{name} is too long (maximum is {LONGEST} characters)",
            }
            raise Refusal(422, "Validation Failed", errors=(why,))
        return text

    def _listed_pulls(self, seen: Seen) -> Iterable[Pull]:
        state, head = seen.query.get("state", "open"), seen.query.get("head", "")
        for one in self.pulls.values():
            owner = (one.head_repo or "").partition("/")[0]
            if state in {one.state, "all"} and (
                not head or head.casefold() == f"{owner}:{one.head_branch}".casefold()
            ):
                yield one

    def _page(
        self, seen: Seen, items: list, *, field_name: str = ""
    ) -> tuple[int, dict[str, str], Any]:
        size = min(int(seen.query.get("per_page", "30")), self.largest_page)
        number = int(seen.query.get("page", "1"))
        shown = items[(number - 1) * size : number * size]
        headers = {}
        if number * size < len(items):
            after = urlencode(seen.query | {"page": str(number + 1)})
            headers["Link"] = (
                f'<{self.url}{seen.path}?page=1>; rel="first", <{self.url}{seen.path}?{after}>; rel="next"'
            )
        return 200, headers, {"total_count": len(items), field_name: shown} if field_name else shown

    # ---- shapes --------------------------------------------------------------------------------

    def _comment(self, one: Comment) -> dict:
        url = f"https://github.com/{self.repository}/pull/{one.number}#issuecomment-{one.id}"
        return {"id": one.id, "body": one.body, "user": {"login": one.author}, "html_url": url}

    def _issue(self, card: IssueCard) -> dict:
        return {
            "number": card.number,
            "title": card.title,
            "body": card.body,
            "user": {"login": card.author},
            "state": card.state,
            "html_url": f"https://github.com/{self.repository}/issues/{card.number}",
        }

    def _pull(self, one: Pull) -> dict:
        repo = None if one.head_repo is None else {"full_name": one.head_repo}
        return {
            "number": one.number,
            "state": one.state,
            "head": {"ref": one.head_branch, "sha": one.sha, "repo": repo},
            "merged_at": WHEN if one.merged_as else None,
            "merge_commit_sha": one.merged_as or None,
        }

    def _run(self, one: Run) -> dict:
        return {
            "id": one.id,
            "head_sha": one.sha,
            "event": one.event,
            "conclusion": one.conclusion,
            "head_repository": None if one.repo is None else {"full_name": one.repo},
            "head_branch": one.branch,
            "pull_requests": [self._pull_of_run(number) for number in one.pulls],
            "path": f".github/workflows/{one.workflow}",
        }

    def _pull_of_run(self, number: int) -> dict:
        side = {
            "ref": "change",
            "sha": "a" * 40,
            "repo": {"id": 1, "url": self.url, "name": "quotas"},
        }
        return {"id": number, "number": number, "url": self.url, "head": side, "base": side}

    def _dressed(self, operation: Any, status: int, made: Any) -> Any:
        """Our facts in GitHub's own example of the answer."""
        assert self.description is not None
        if status not in {200, 201}:
            return made
        example = self.description.example(operation, status)
        if isinstance(made, list):
            return [_over(example[0], one) for one in made]
        for name in ("workflow_runs", "artifacts"):
            if name in made:
                return {
                    "total_count": made["total_count"],
                    name: [_over(example[name][0], one) for one in made[name]],
                }
        return _over(example, made)


def _over(example: Any, facts: Any) -> Any:
    if isinstance(example, dict) and isinstance(facts, dict):
        made = example | {name: _over(example.get(name), fact) for name, fact in facts.items()}
        if "requested_teams" in made:
            made["requested_teams"] = []  # GitHub's example does not fit its own schema here
        if "pull_request" in made and "pull_request" not in facts:
            del made["pull_request"]
        return made
    return facts


def zipped(**files: str) -> bytes:
    """A zip of texts; `plan_json` is plan.json."""
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, text in files.items():
            archive.writestr(name.replace("_json", ".json"), text)
    return made.getvalue()


def handler(api: Any) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def _serve(self) -> None:
            split = urlsplit(self.path)
            size = int(self.headers.get("Content-Length", 0))
            raw = self.rfile.read(size)
            seen = Seen(
                self.command,
                split.path,
                dict(parse_qsl(split.query, keep_blank_values=True)),
                json.loads(raw) if raw else None,
                {name.lower(): value for name, value in self.headers.items()},
            )
            try:
                status, headers, body = api.answer(seen)
            except Exception as error:  # noqa: BLE001 - a fault of the fake must not look like one of the product
                api.complaints.append(repr(error))
                status, headers, body = 500, {}, {"message": repr(error)}
            content = (
                body
                if isinstance(body, bytes)
                else b""
                if body is None
                else json.dumps(body).encode()
            )
            self.send_response(status)
            for name, value in (
                {"Content-Type": "application/json; charset=utf-8"} | headers
            ).items():
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        do_GET = do_POST = do_PATCH = do_PUT = do_DELETE = _serve  # noqa: N815 - the names that http.server calls

        def log_message(self, *words: object) -> None:
            pass

    return Handler
