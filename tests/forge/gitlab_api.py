"""The used parts of GitLab's REST API (v4) over HTTP, with strict checks written by hand.

GitLab publishes no description with response schemas for these, so paths, methods, fields and limits come from its
documentation: notes, issues, merge requests, users, pagination by Link and rate limits.
"""

import itertools
import threading
from collections.abc import Callable
from dataclasses import dataclass
from http.server import ThreadingHTTPServer
from typing import Any, Self
from urllib.parse import quote, unquote, urlencode

from tests.forge.github_api import ApiRequest, Refusal, handler
from tests.servers.processes import HANG_SECONDS

LONGEST = 1_000_000
PAGE_PARAMETERS = {"per_page", "page"}
QUERIES = {
    "notes": PAGE_PARAMETERS | {"sort", "order_by"},
    "issues": PAGE_PARAMETERS | {"state", "order_by", "sort", "scope", "author_id", "labels"},
}
WORDS = {
    "sort": {"asc", "desc"},
    "order_by": {"created_at", "updated_at"},
    "state": {"opened", "closed", "all"},
    "scope": {"all", "created_by_me", "assigned_to_me"},
}


@dataclass
class GitLabNote:
    """A posted note."""

    id: int
    number: int
    author: str
    body: str
    system: bool = False


@dataclass
class GitLabIssue:
    """A posted issue."""

    iid: int
    author: str
    title: str
    description: str
    state: str = "opened"


class GitLabApi:
    """A server between `__enter__` and `__exit__`, for one project."""

    def __init__(self, *, project: str = "team/quotas") -> None:
        self.project = project
        self.accounts = {
            "glpat-bot": ("project_1_bot", "api"),
            "glpat-reader": ("project_2_bot", "read_api"),
        }
        self.merge_requests: dict[int, str] = {}
        self.notes: list[GitLabNote] = []
        self.issue_notes: list[GitLabNote] = []
        self.issues: list[GitLabIssue] = []
        self.requests: list[ApiRequest] = []
        self.complaints: list[str] = []
        self.faults: list[Callable[[ApiRequest], Refusal | None]] = []
        self._ids = itertools.count(501)
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
        return f"http://127.0.0.1:{self._server.server_address[1]}/api/v4"

    def note(self, number: int, author: str, body: str, *, system: bool = False) -> GitLabNote:
        """A note by a person."""
        new_note = GitLabNote(next(self._ids), number, author, body, system)
        self.notes.append(new_note)
        return new_note

    def answer(self, request: ApiRequest) -> tuple[int, dict[str, str], Any]:
        with self._lock:
            self.requests.append(request)
            try:
                for fault in self.faults:
                    refusal = fault(request)
                    if refusal is not None:
                        raise refusal
                return self._routed(request)
            except Refusal as no:
                return no.status, no.headers, {"message": no.message}

    def _routed(self, request: ApiRequest) -> tuple[int, dict[str, str], Any]:
        account = self.accounts.get(request.headers.get("private-token", ""))
        if account is None or "authorization" in request.headers:
            raise Refusal(401, "401 Unauthorized")
        name, scope = account
        facts = {
            "/api/v4/user": {"id": 1, "username": name},
            f"/api/v4/projects/{quote(self.project, safe='')}": {"id": 1, "default_branch": "main"},
        }
        if request.method != "GET" and scope != "api":
            raise Refusal(403, "insufficient_scope")
        if request.path in facts:
            return 200, {}, facts[request.path]
        steps = request.path.removeprefix("/api/v4/").split("/")
        if steps[0] != "projects" or unquote(steps[1]) != self.project:
            raise Refusal(404, "404 Project Not Found")
        match [request.method, *steps[2:]]:
            case ["GET", "merge_requests", number]:
                return 200, {}, {"iid": int(number), "sha": self._merge_request(number)}
            case [_, "merge_requests", number, "notes", *rest]:
                self._merge_request(number)
                return self._notes(request, name, int(number), rest)
            case [_, "issues", *rest]:
                return self._issues(request, name, rest)
            case _:
                raise self._complaint(f"no {request.method} {request.path}")

    def _notes(
        self, request: ApiRequest, name: str, number: int, remaining_texts: list[str]
    ) -> tuple[int, dict[str, str], Any]:
        match [request.method, *remaining_texts]:
            case ["GET"]:
                return self._page(
                    request, "notes", [_note(note) for note in self.notes if note.number == number]
                )
            case ["POST"]:
                return 201, {}, _note(self.note(number, name, self._text(request, "body")))
            case ["PUT", key]:
                note = self._own(key, name)
                note.body = self._text(request, "body")
                return 200, {}, _note(note)
            case ["DELETE", key]:
                self.notes.remove(self._own(key, name))
                return 204, {}, None
            case _:
                raise self._complaint(f"no {request.method} {request.path}")

    def _issues(
        self, request: ApiRequest, name: str, remaining_texts: list[str]
    ) -> tuple[int, dict[str, str], Any]:
        match [request.method, *remaining_texts]:
            case ["GET"]:
                state = request.query.get("state", "all")
                return self._page(
                    request,
                    "issues",
                    [_issue(card) for card in self.issues if state in {card.state, "all"}],
                )
            case ["POST"]:
                self._fields(request, {"title", "description"})
                issue = GitLabIssue(
                    next(self._ids), name, request.body["title"], self._text(request, "description")
                )
                self.issues.append(issue)
                return 201, {}, _issue(issue)
            case ["PUT", number]:
                self._fields(request, {"title", "description", "state_event"})
                (card,) = [card for card in self.issues if str(card.iid) == number]
                card.title = request.body.get("title", card.title)
                card.description = request.body.get("description", card.description)
                if request.body.get("state_event") == "close":
                    card.state = "closed"
                return 200, {}, _issue(card)
            case ["POST", number, "notes"]:
                self.issue_notes.append(
                    GitLabNote(next(self._ids), int(number), name, self._text(request, "body"))
                )
                return 201, {}, _note(self.issue_notes[-1])
            case _:
                raise self._complaint(f"no {request.method} {request.path}")

    def _merge_request(self, number: str) -> str:
        if int(number) not in self.merge_requests:
            raise Refusal(404, "404 Not found")
        return self.merge_requests[int(number)]

    def _own(self, key: str, name: str) -> GitLabNote:
        note = next((note for note in self.notes if str(note.id) == key), None)
        if note is None:
            raise Refusal(404, "404 Note Not Found")
        if note.author != name:
            raise self._complaint(f"a note of {note.author} was touched")
        return note

    def _text(self, request: ApiRequest, name: str) -> str:
        if name == "body":
            self._fields(request, {"body"})
        text = request.body.get(name)
        if not isinstance(text, str) or not text:
            raise Refusal(400, f"{name} is missing")
        if len(text) > LONGEST:
            raise Refusal(422, f"{name} is too long (maximum is {LONGEST} characters)")
        return text

    def _fields(self, request: ApiRequest, texts: set[str]) -> None:
        if not isinstance(request.body, dict) or not request.body.keys() <= texts:
            raise self._complaint(f"{request.method} {request.path} with {request.body!r}")

    def _page(self, request: ApiRequest, kind: str, items: list) -> tuple[int, dict[str, str], Any]:
        for name, value in request.query.items():
            if name not in QUERIES[kind] or value not in WORDS.get(name, {value}):
                raise self._complaint(f"{kind} take no {name}={value}")
        size, number = int(request.query.get("per_page", "20")), int(request.query.get("page", "1"))
        if size > 100:
            raise self._complaint("a page has at most 100 items")
        headers = {}
        if number * size < len(items):
            after = urlencode(request.query | {"page": str(number + 1)})
            root = self.url.removesuffix("/api/v4")
            headers["Link"] = f'<{root}{request.path}?{after}>; rel="next"'
        return 200, headers, items[(number - 1) * size : number * size]

    def _complaint(self, text: str) -> Refusal:
        self.complaints.append(text)
        return Refusal(400, text)


def _note(note: GitLabNote) -> dict:
    return {
        "id": note.id,
        "body": note.body,
        "author": {"username": note.author},
        "system": note.system,
    }


def _issue(issue: GitLabIssue) -> dict:
    return {
        "iid": issue.iid,
        "title": issue.title,
        "description": issue.description,
        "state": issue.state,
        "author": {"username": issue.author},
        "web_url": f"https://gitlab.example/{issue.iid}",
    }
