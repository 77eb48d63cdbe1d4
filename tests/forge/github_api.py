"""The used parts of GitHub's REST API over HTTP, with strict checks of requests and permissions.

With a `Description` every request and response is checked against GitHub's published OpenAPI document; without one
(tests that need no network) only against the rules written here. Violations are kept in `complaints`, which must be
empty. Posted content is kept for assertions: `api.comments`, `api.issues`, `api.requests`.
"""

import io
import itertools
import json
import re
import threading
import zipfile
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self
from urllib.parse import parse_qsl, urlencode, urlsplit

from tests.forge.openapi import Description
from tests.servers.processes import HANG_SECONDS

LONGEST = 65_536
WHEN = "2026-11-21T12:00:00Z"
REFUSALS = {403: "Resource not accessible by integration", 404: "Not Found"}
BOT = "github-actions[bot]"
PULL_OF_ISSUE = dict.fromkeys(("url", "html_url", "diff_url", "patch_url"))
"""For this API a pull request is an issue, too."""


@dataclass(frozen=True)
class Refusal(Exception):
    """An error response."""

    status: int
    message: str
    headers: dict[str, str] = field(default_factory=dict)
    errors: tuple[dict, ...] = ()


@dataclass(frozen=True)
class ApiRequest:
    """A received request."""

    method: str
    path: str
    query: dict[str, str]
    body: Any
    headers: dict[str, str]


@dataclass(frozen=True)
class Account:
    """The owner of a token, and its permissions."""

    login: str
    rights: frozenset[str] = frozenset(
        {"contents: read", "pull-requests: write", "issues: write", "actions: read"}
    )
    is_app: bool = False


@dataclass
class Pull:
    number: int
    head_repo: str | None
    head_branch: str
    sha: str
    state: str = "open"
    merged_as: str = ""
    author: str = "someone"
    title: str = "a pull request"
    body: str = ""
    base: str = "main"


@dataclass
class Comment:
    """A posted comment."""

    id: int
    number: int
    author: str
    body: str


@dataclass
class IssueCard:
    """A posted issue."""

    number: int
    author: str
    title: str
    body: str
    state: str = "open"


@dataclass
class Run:
    """A run of a workflow and its artifacts: name -> zip."""

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


Fault = Callable[[ApiRequest], "Refusal | None"]
Answer = tuple[int, dict[str, str], Any]
"""Status, headers and body."""


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
        self.requests: list[ApiRequest] = []
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
        self._thread.join(HANG_SECONDS)

    @property
    def url(self) -> str:
        """The base address."""
        return f"http://127.0.0.1:{self._server.server_address[1]}"

    # ---- what tests do

    def pull(self, number: int, *, sha: str, branch: str = "change", repo: str | None = "") -> Pull:
        """A pull request; from the repository itself by default."""
        new_pull = Pull(number, self.repository if repo == "" else repo, branch, sha)
        self.pulls[number] = new_pull
        return new_pull

    def comment(self, number: int, author: str, body: str) -> Comment:
        """A comment by a person."""
        new_comment = Comment(next(self._ids), number, author, body)
        self.comments.append(new_comment)
        return new_comment

    def issue(self, author: str, title: str, body: str) -> IssueCard:
        """An issue by a person."""
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
        """Respond to the next matching requests with these responses, one each."""
        waiting = list(refusals)

        def fault(request: ApiRequest) -> Refusal | None:
            fits = (not method or request.method == method) and path in request.path
            return waiting.pop(0) if waiting and fits else None

        self.faults.append(fault)

    def bodies(self, number: int) -> list[str]:
        """The comments of a pull request."""
        return [comment.body for comment in self.comments if comment.number == number]

    def sent(self, method: str) -> list[str]:
        """Paths of all requests of a method."""
        return [request.path for request in self.requests if request.method == method]

    # ---- answering -----------------------------------------------------------------------------

    def answer(self, request: ApiRequest) -> Answer:
        """Status, headers and body; bytes are sent unchanged."""
        with self._lock:
            self.requests.append(request)
            headers = {"X-RateLimit-Limit": "5000", "X-RateLimit-Remaining": "4999"}
            try:
                if request.path.startswith("/_blob/"):
                    return self._blob(request)
                status, more, body = self._answered(request)
            except Refusal as no:
                document: dict[str, Any] = {
                    "message": no.message,
                    "documentation_url": "https://docs.github.com/rest",
                }
                if no.errors:
                    document["errors"] = list(no.errors)
                return no.status, headers | no.headers, document
            return status, headers | more, body

    def _answered(self, request: ApiRequest) -> Answer:
        for fault in self.faults:
            refusal = fault(request)
            if refusal is not None:
                raise refusal
        account = self._account(request)
        self._check_headers(request)
        operation = None
        if self.description is not None:
            operation = self.description.operation(request.method, request.path)
            if operation is None:
                raise self._complaint(f"GitHub has no {request.method} {request.path}")
            for text in self.description.request_faults(operation, request.query, request.body):
                raise self._complaint(text)
        status, headers, answer_body = self._routed(request, account)
        if operation is not None and self.description is not None and answer_body is not None:
            answer_body = self._dressed(operation, status, answer_body)
            self.complaints += self.description.answer_faults(operation, status, answer_body)
        return status, headers, answer_body

    def _account(self, request: ApiRequest) -> Account:
        kind, _, token = request.headers.get("authorization", "").partition(" ")
        if not token or kind not in {"Bearer", "token"}:
            raise Refusal(401, "Requires authentication")
        if token not in self.accounts:
            raise Refusal(401, "Bad credentials")
        return self.accounts[token]

    def _check_headers(self, request: ApiRequest) -> None:
        if not request.headers.get("user-agent"):
            raise Refusal(
                403,
                "Request forbidden by administrative rules. Please make sure your request has a User-Agent header",
            )
        if request.headers.get("x-github-api-version") != "2022-11-28":
            raise self._complaint("the version of the API is not asked for")
        if request.headers.get("accept") != "application/vnd.github+json":
            raise self._complaint("the media type is not asked for")

    def _complaint(self, text: str) -> Refusal:
        self.complaints.append(text)
        return Refusal(400, f"the test server complains: {text}")

    def _routed(self, request: ApiRequest, account: Account) -> Answer:
        inside = request.path.removeprefix(f"/repos/{self.repository}")
        _need(inside != request.path or inside == "/user", 404)
        for method, pattern, rights, work in ROUTES:
            match = re.fullmatch(pattern, inside)
            if match and method == request.method:
                _need(not rights or account.rights & set(rights), 403)
                return work(self, request, account, *match.groups())
        raise Refusal(404, REFUSALS[404])

    def _user(self, _: ApiRequest, account: Account) -> Answer:
        _need(not account.is_app, 403)
        return 200, {}, {"login": account.login}

    def _repository(self, *_: object) -> Answer:
        return 200, {}, {"default_branch": "main", "language": None}

    def _list_comments(self, request: ApiRequest, _: Account, number: str) -> Answer:
        _need(int(number) in {*self.pulls, *(card.number for card in self.issues)}, 404)
        matching = [each for each in self.comments if str(each.number) == number]
        return self._page(request, map(self._comment, matching))

    def _post_comment(self, request: ApiRequest, account: Account, number: str) -> Answer:
        _ = self._list_comments(request, account, number)
        posted = self.comment(int(number), account.login, self._text_of(request))
        return 201, {}, self._comment(posted)

    def _patch_comment(self, request: ApiRequest, account: Account, number: str) -> Answer:
        comment = self._own_comment(number, account)
        comment.body = self._text_of(request)
        return 200, {}, self._comment(comment)

    def _delete_comment(self, _: ApiRequest, account: Account, number: str) -> Answer:
        self.comments.remove(self._own_comment(number, account))
        return 204, {}, None

    def _own_comment(self, number: str, account: Account) -> Comment:
        comment: Comment = _one(self.comments, id=int(number))
        if comment.author != account.login:
            self.complaints.append(f"a comment of {comment.author} was touched")
        return comment

    def _list_issues(self, request: ApiRequest, _: Account) -> Answer:
        state = request.query.get("state", "open")
        pulls = [
            IssueCard(pull.number, "someone", pull.title, "", pull.state)
            for pull in self.pulls.values()
        ]
        matching = [card for card in (*self.issues, *pulls) if state in {card.state, "all"}]
        return self._page(request, map(self._issue, matching))

    def _post_issue(self, request: ApiRequest, account: Account) -> Answer:
        card = self.issue(account.login, request.body["title"], self._text_of(request))
        return 201, {}, self._issue(card)

    def _patch_issue(self, request: ApiRequest, _: Account, number: str) -> Answer:
        card = _one(self.issues, number=int(number))
        if "body" in request.body:
            self._text_of(request)
        for name, value in request.body.items():
            setattr(card, name, value)
        return 200, {}, self._issue(card)

    def _list_pulls(self, request: ApiRequest, _: Account) -> Answer:
        return self._page(request, map(self.pull_json, self._listed_pulls(request)))

    def _get_pull(self, _: ApiRequest, __: Account, number: str) -> Answer:
        return 200, {}, self.pull_json(_one(self.pulls.values(), number=int(number)))

    def _pulls_of(self, request: ApiRequest, _: Account, sha: str) -> Answer:
        pulls = [each for each in self.pulls.values() if sha in {each.merged_as, each.sha}]
        return self._page(request, map(self.pull_json, pulls))

    def _list_runs(self, request: ApiRequest, _: Account, workflow: str) -> Answer:
        sha = request.query.get("head_sha")
        runs = [run for run in self.runs if run.workflow == workflow and sha in {run.sha, None}]
        return self._page(request, map(self._run, runs), field_name="workflow_runs")

    def _list_artifacts(self, request: ApiRequest, _: Account, number: str) -> Answer:
        run = _one(self.runs, id=int(number))
        artifacts = [
            {"id": run.id * 100 + at, "name": name, "expired": run.expired}
            for at, name in enumerate(run.artifacts)
            if name == request.query.get("name", name)
        ]
        return self._page(request, artifacts, field_name="artifacts")

    def _zip(self, _: ApiRequest, __: Account, number: str) -> Answer:
        return 302, {"Location": f"{self.url}/_blob/{number}?sig=secret"}, None

    def _blob(self, request: ApiRequest) -> Answer:
        """The store of artifacts, which is another server and must not receive a token."""
        if "authorization" in request.headers:
            self.complaints.append("the token went to the store of artifacts")
        number = int(request.path.rpartition("/")[2])
        (run,) = [listed_run for listed_run in self.runs if listed_run.id == number // 100]
        return 200, {"Content-Type": "application/zip"}, list(run.artifacts.values())[number % 100]

    def _text_of(self, request: ApiRequest) -> str:
        """The body of a comment or an issue, within GitHub's limit."""
        text = request.body.get("body") or ""
        if 0 < len(text) <= LONGEST:
            return str(text)
        why = {
            "resource": "Issue",
            "code": "custom",
            "field": "body",
            "message": f"body is too long (maximum is {LONGEST} characters)",
        }
        raise Refusal(422, "Validation Failed", errors=(why,))

    def _listed_pulls(self, request: ApiRequest) -> Iterable[Pull]:
        state, head = request.query.get("state", "open"), request.query.get("head", "")
        is_descending = request.query.get("direction", "desc") == "desc"
        for number in sorted(self.pulls, reverse=is_descending):
            pull = self.pulls[number]
            owner = (pull.head_repo or "").partition("/")[0]
            if (
                state in {pull.state, "all"}
                and request.query.get("base", pull.base) == pull.base
                and (not head or head.casefold() == f"{owner}:{pull.head_branch}".casefold())
            ):
                yield pull

    def _page(
        self, request: ApiRequest, matching: Iterable[Any], *, field_name: str = ""
    ) -> Answer:
        items = list(matching)
        size = min(int(request.query.get("per_page", "30")), self.largest_page)
        number = int(request.query.get("page", "1"))
        page = items[(number - 1) * size : number * size]
        headers = {}
        if number * size < len(items):
            after = urlencode(request.query | {"page": str(number + 1)})
            headers["Link"] = f'<{self.url}{request.path}?{after}>; rel="next"'
        return 200, headers, {"total_count": len(items), field_name: page} if field_name else page

    # ---- shapes --------------------------------------------------------------------------------

    def _comment(self, comment: Comment) -> dict:
        url = (
            f"https://github.com/{self.repository}/pull/{comment.number}#issuecomment-{comment.id}"
        )
        return {
            "id": comment.id,
            "body": comment.body,
            "user": {"login": comment.author},
            "html_url": url,
        }

    def _issue(self, card: IssueCard) -> dict:
        return {
            "number": card.number,
            "title": card.title,
            "body": card.body,
            "user": {"login": card.author},
            "state": card.state,
            "html_url": f"https://github.com/{self.repository}/issues/{card.number}",
        } | ({"pull_request": PULL_OF_ISSUE} if card.number in self.pulls else {})

    def pull_json(self, pull: Pull) -> dict:
        repo = None if pull.head_repo is None else {"full_name": pull.head_repo}
        return {
            "number": pull.number,
            "state": pull.state,
            "title": pull.title,
            "body": pull.body,
            "user": {"login": pull.author},
            "html_url": f"https://github.com/{self.repository}/pull/{pull.number}",
            "head": {"ref": pull.head_branch, "sha": pull.sha, "repo": repo},
            "merged_at": WHEN if pull.merged_as else None,
            "merge_commit_sha": pull.merged_as or None,
        }

    def _run(self, run: Run) -> dict:
        return {
            "id": run.id,
            "head_sha": run.sha,
            "event": run.event,
            "conclusion": run.conclusion,
            "head_repository": None if run.repo is None else {"full_name": run.repo},
            "head_branch": run.branch,
            "pull_requests": [self._pull_of_run(number) for number in run.pulls],
            "path": f".github/workflows/{run.workflow}",
        }

    def _pull_of_run(self, number: int) -> dict:
        side = {
            "ref": "change",
            "sha": "a" * 40,
            "repo": {"id": 1, "url": self.url, "name": "quotas"},
        }
        return {"id": number, "number": number, "url": self.url, "head": side, "base": side}

    def _dressed(self, operation: Any, status: int, body: Any) -> Any:
        """GitHub's own example of the response with the facts of the test."""
        assert self.description is not None
        if status not in {200, 201}:
            return body
        example = self.description.example(operation, status)
        if isinstance(body, list):
            return [_over(example[0], item) for item in body]
        for name in ("workflow_runs", "artifacts"):
            if name in body:
                return {
                    "total_count": body["total_count"],
                    name: [_over(example[name][0], item) for item in body[name]],
                }
        return _over(example, body)


def _over(example: Any, facts: Any) -> Any:
    if isinstance(example, dict) and isinstance(facts, dict):
        merged = example | {name: _over(example.get(name), fact) for name, fact in facts.items()}
        if "requested_teams" in merged:
            merged["requested_teams"] = []  # GitHub's example does not fit its own schema here
        if "default_branch" in facts:
            del merged["source"], merged["parent"], merged["template_repository"]  # nor here
        if "pull_request" in merged and "pull_request" not in facts:
            del merged["pull_request"]
        return merged
    return facts


def _need(fact: object, status: int) -> None:
    if not fact:
        raise Refusal(status, REFUSALS[status])


def _one(items: Iterable[Any], **facts: int) -> Any:
    matching = [item for item in items if all(getattr(item, n) == v for n, v in facts.items())]
    _need(matching, 404)
    return matching[0]


WRITE_COMMENTS, WRITE_ISSUES = ("issues: write", "pull-requests: write"), ("issues: write",)
READ_RUNS = ("actions: read",)
ROUTES = (
    ("GET", "/user", (), GitHubApi._user),
    ("GET", "", (), GitHubApi._repository),
    ("GET", r"/issues/(\d+)/comments", (), GitHubApi._list_comments),
    ("POST", r"/issues/(\d+)/comments", WRITE_COMMENTS, GitHubApi._post_comment),
    ("PATCH", r"/issues/comments/(\d+)", WRITE_COMMENTS, GitHubApi._patch_comment),
    ("DELETE", r"/issues/comments/(\d+)", WRITE_COMMENTS, GitHubApi._delete_comment),
    ("GET", "/issues", (), GitHubApi._list_issues),
    ("POST", "/issues", WRITE_ISSUES, GitHubApi._post_issue),
    ("PATCH", r"/issues/(\d+)", WRITE_ISSUES, GitHubApi._patch_issue),
    ("GET", "/pulls", (), GitHubApi._list_pulls),
    ("GET", r"/pulls/(\d+)", (), GitHubApi._get_pull),
    ("GET", r"/commits/(\w+)/pulls", (), GitHubApi._pulls_of),
    ("GET", "/actions/workflows/([^/]+)/runs", READ_RUNS, GitHubApi._list_runs),
    ("GET", r"/actions/runs/(\d+)/artifacts", READ_RUNS, GitHubApi._list_artifacts),
    ("GET", r"/actions/artifacts/(\d+)/zip", READ_RUNS, GitHubApi._zip),
)
"""Method, path in the repository, rights of which one is needed, answer."""


def zipped(**files: str) -> bytes:
    """A zip of texts; `plan_json` is plan.json."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, text in files.items():
            archive.writestr(name.replace("_json", ".json"), text)
    return buffer.getvalue()


def handler(api: Any) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def _serve(self) -> None:
            split = urlsplit(self.path)
            size = int(self.headers.get("Content-Length", 0))
            raw = self.rfile.read(size)
            request = ApiRequest(
                self.command,
                split.path,
                dict(parse_qsl(split.query, keep_blank_values=True)),
                json.loads(raw) if raw else None,
                {name.lower(): value for name, value in self.headers.items()},
            )
            try:
                status, headers, body = api.answer(request)
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
