"""The commands of the queue for those who use it: `submit`, `cancel` and `token`, and `status` of a server.

`submit` checks a bisection as before its first run, and puts it on the queue. A `Queue` is that of a store
(`StoredQueue`), or that of a server (`RemoteQueue`). A submission names paths of the machine where it was typed. A
worker must have them under the same names.
"""

import getpass
import json
import os
import sys
import time
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from http.client import HTTPException
from pathlib import Path
from typing import Any, Protocol
from urllib.error import HTTPError, URLError
from urllib.parse import urlsplit

import click
from pydantic import BaseModel, TypeAdapter, ValidationError
from sqlalchemy.orm import Session, sessionmaker

from ..runner.errors import UsageError, UserError
from ..runner.workspace.home import user_home
from ..store.queue import (
    QueueJournal,
    Submission,
    SubmissionError,
    TokenJournal,
    describe_invalid_submission,
)
from ..store.vocabulary import one_line, plural, shorten
from .ask.prepare import prepare
from .ask.typed_question import question_of
from .bisect_command import check_final_steps
from .cli import ERROR, ParsedWords, parse_words, run_command
from .drive.session import open_sessions
from .listing import (
    MAX_ENDED_SHOWN,
    QueueEntry,
    check_entry,
    find_entry,
    print_entries,
    print_entry,
    queue_entries,
    session_reader,
    state_text,
    store_url,
)
from .options import (
    TOKEN_VARIABLE,
    BisectOptions,
    CancelOptions,
    StatusOptions,
    SubmitOptions,
    TokenOptions,
)

_REFUSED_OPTIONS = {
    "interactive": "--interactive, which asks a person at a terminal",
    "dry_run": "--dry-run, which runs nothing",
    "resume": "--resume, which continues a bisection in this process",
}
_REFUSED_REMOTE_OPTIONS = {
    **_REFUSED_OPTIONS,
    "name": "--name, which the queue gives",
    "store": "--store, which is the queue's",
}


def submit(options: SubmitOptions) -> int:
    """Put a bisection on the queue, and print its number. Return the exit code."""

    def body() -> int:
        submission = make_submission(options)
        queue = open_queue(options)
        for each in queue.entries(max_ended=1):
            if not each.is_over and (each.words, each.folder) == (list(submission.words), submission.folder):
                _note(f"submission {each.id} of {one_line(each.user)} asks the same, and is not over")
        number = queue.submit(submission)
        if options.as_json:
            print(json.dumps({"id": number, "bisection": submission.bisection}))
        else:
            print(f"{number}: submitted as {submission.bisection}; bisect-precision status {number} --follow")
        return 0

    return run_command(body)


def make_submission(options: SubmitOptions) -> Submission:
    """Check a bisection, print its notices, and return its submission. Raises `UserError`."""
    try:
        parsed = parse_words(options.words, with_defaults=True)
    except click.UsageError as error:
        raise UsageError(error.format_message()) from error
    _refuse_unqueueable_options(parsed, _REFUSED_OPTIONS)
    # The backend and the build store are not checked, because each worker takes them from its own environment.
    check_final_steps(parsed.options)
    plan = prepare(question_of(parsed.options), user_home())
    for notice in plan.notices:
        _note(notice)
    request = plan.request
    # A cluster's scheduler assigns boards by itself.
    needs_board = request.stack.platforms[request.platform].board and parsed.options.backend == "loky"
    try:
        return Submission(
            bisection=plan.name,
            user=_user_name(),
            words=request.typed,
            folder=str(Path.cwd()),
            priority=options.priority,
            board=request.platform if needs_board else None,
            device=request.device if needs_board and "device" in parsed.typed else None,
        )
    except ValidationError as error:
        raise UsageError(describe_invalid_submission(error)) from error


def _user_name() -> str:
    """Return the name of the invoking user. Raises `UserError` where nobody knows it, as in some containers."""
    try:
        return getpass.getuser()
    except (KeyError, OSError) as error:
        raise UserError(
            f"expected your name in $USER, found none, and no account with the number {os.getuid()}; set it"
        ) from error


def check_remote_submission(submission: Submission) -> None:
    """Raise `UsageError` where a submission received over HTTP has options that no worker can run."""
    try:
        _refuse_unqueueable_options(parse_words(submission.words), _REFUSED_REMOTE_OPTIONS)
    except click.UsageError as error:
        raise UsageError(error.format_message()) from error


def _refuse_unqueueable_options(parsed: ParsedWords, refused: Mapping[str, str]) -> None:
    """Raise `UsageError` where options are among `refused`, name somebody's home, or ask no question."""
    for name, what in refused.items():
        if name in parsed.typed:
            raise UsageError(f"submit: expected options that a worker can use, found {what}; leave it out")
    for option, path in named_paths(parsed.options):
        if str(path).startswith("~"):
            raise UsageError(
                f"{option} {path}: expected a path that is the same for every worker, found one that begins with "
                "somebody's home; write it out"
            )
    if parsed.options.lacks_question:
        raise UsageError("submit: expected the options of a bisection, found none: name at least --bad")


def _note(text: str) -> None:
    print(f"note: {text}", file=sys.stderr)


def describe_unusable_path(folder: str, words: Sequence[str]) -> str | None:
    """Return an error message about the first path of a submission that this machine cannot read to its end.

    Return None where all can be read, or where the options cannot be parsed.
    """
    if not os.access(folder, os.R_OK | os.X_OK):
        return f"expected the submission's folder {folder}, found none that can be read"
    for option, path in _paths_in_words(tuple(words)):
        full_path = Path(folder) / path
        if not os.access(full_path, os.R_OK):
            return f"expected {option} {full_path}, found none that can be read"
        if not (full_path.is_file() or full_path.is_dir()):
            return f"expected {option} {full_path}, found a pipe or a device, which may never end"
    return None


@lru_cache(maxsize=1000)
def _paths_in_words(words: tuple[str, ...]) -> tuple[tuple[str, Path], ...]:
    """Return the `named_paths` of a submission's words. They are parsed once, because a worker asks each second."""
    try:
        return tuple(named_paths(parse_words(words).options))
    except click.UsageError:
        return ()  # The run itself will report the error.


def named_paths(options: BisectOptions) -> Iterator[tuple[str, Path]]:
    """Yield each path that options name on this machine, rather than in a commit, with its option."""
    if options.stack is not None and options.stack.endswith(".toml"):
        yield "--stack", Path(options.stack)
    for text in options.repository:
        yield "--repository", Path(text.partition("=")[2])
    for text in options.overlay:
        path, at, _ = text.partition("@")
        if not at:
            yield "--overlay", Path(path)
    for path in options.adapt:
        yield "--adapt", path
    for name, path in (
        ("--replay", options.replay),
        ("--golden-data", options.golden_data),
        ("--runtime-dir", options.runtime_dir),
    ):
        if path is not None:
            yield name, path


_POLL_INTERVAL = 1.0
"""A submission that is followed is read once in this many seconds."""


def status(options: StatusOptions) -> int:
    """Print the queue of a server, or one submission with the end of its log; follow one. Return the exit code."""

    def body() -> int:
        queue = open_queue(options)
        if options.follow:
            if options.number is None or options.as_json:
                raise UsageError("--follow: expected the ID of a submission beside it, and no --json")
            return follow(queue, options.number)
        if options.number is None:
            print_entries(queue.entries(max_ended=MAX_ENDED_SHOWN), as_json=options.as_json)
        else:
            print_entry(_read_entry(queue, options.number), as_json=options.as_json)
        return 0

    return run_command(body)


def cancel(options: CancelOptions) -> int:
    """Cancel a submission. Return the exit code."""

    def body() -> int:
        queue = open_queue(options)
        entry = _read_entry(queue, options.number)
        if entry.is_over:
            raise UserError(f"{entry.id}: expected a submission that is not over, found {state_text(entry)}")
        queue.cancel(entry.id)
        print(f"{entry.id}: {state_text(_read_entry(queue, entry.id))}")
        return 0

    return run_command(body)


def _read_entry(queue: "Queue", number: int) -> QueueEntry:
    return check_entry(queue.entry(number), number)


def follow(queue: "Queue", number: int) -> int:
    """Print what happens to a submission until it is over. Return the exit code of its bisection."""
    entry = _read_entry(queue, number)
    shown_state, shown_tail = "", list[str]()
    while True:
        if (state := state_text(entry)) != shown_state:
            print(f"{entry.id}: {state}", flush=True)
        tail = entry.tail.splitlines()
        for line in new_lines(shown_tail, tail):
            print(f"    {one_line(line)}", flush=True)
        shown_state, shown_tail = state, tail
        if entry.is_over:
            return ERROR if entry.exit_code is None else entry.exit_code
        time.sleep(_POLL_INTERVAL)
        entry = _read_entry(queue, number)


def new_lines(before: Sequence[str], now: Sequence[str]) -> Sequence[str]:
    """Return the lines of `now` that follow the last line of `before`. Both are tails of one growing log.

    >>> new_lines(["a", "b", "c"], ["b", "c", "d"])
    ['d']
    """
    for shared in range(min(len(before), len(now)), 0, -1):
        if list(before[-shared:]) == list(now[:shared]):
            return list(now[shared:])
    return list(now)


_MAX_USER_LENGTH = 64
"""The name of a user has at most this many characters. The store's column holds as many."""


def token(options: TokenOptions) -> int:
    """Print a new token of a user, or revoke all tokens of the user. Return the exit code."""

    def body() -> int:
        if not options.user.isprintable() or not 0 < len(options.user) <= _MAX_USER_LENGTH:
            raise UsageError(
                f"expected the name of a user, of at most {_MAX_USER_LENGTH} characters, found another text"
            )
        tokens = TokenJournal(open_sessions(store_url(options.store)))
        if options.revoke:
            print(f"{plural(tokens.revoke(options.user), 'token')} of {options.user} revoked")
        else:
            print(tokens.new(options.user))
        return 0

    return run_command(body)


class Queue(Protocol):
    """A queue of submissions, wherever it is kept."""

    def submit(self, submission: Submission) -> int:
        """Put a submission on the queue. Return its number."""
        ...

    def entries(self, *, max_ended: int) -> list[QueueEntry]:
        """Return all running and waiting submissions, and the newest `max_ended` that are over."""
        ...

    def entry(self, number: int) -> QueueEntry | None:
        """Return the submission of this number, if there is one."""
        ...

    def cancel(self, number: int) -> None:
        """Cancel the submission of this number, if there is one that is not over."""
        ...


class _QueueLocation(Protocol):
    """Options that say where the queue is."""

    @property
    def service(self) -> str | None: ...

    @property
    def store(self) -> str | None: ...


def open_queue(options: _QueueLocation) -> Queue:
    """Return the queue of the named server or store, else of the user's own store. Raises `UserError`."""
    if options.service is not None:
        return RemoteQueue(options.service)
    return StoredQueue(open_sessions(store_url(options.store)))


class StoredQueue:
    """The queue of a store that can be reached from here."""

    def __init__(self, sessions: sessionmaker[Session]) -> None:
        self._sessions = sessions
        self._journal = QueueJournal(sessions)

    def submit(self, submission: Submission) -> int:
        """Put a submission on the queue. Return its number. Raises `UserError`."""
        try:
            return self._journal.submit(submission)
        except SubmissionError as error:
            raise UserError(str(error)) from error

    def entries(self, *, max_ended: int) -> list[QueueEntry]:
        """Return all running and waiting submissions, and the newest `max_ended` that are over."""
        with self._sessions() as session:
            return queue_entries(session_reader(session), max_ended=max_ended)

    def entry(self, number: int) -> QueueEntry | None:
        """Return the submission of this number, if there is one."""
        with self._sessions() as session:
            return find_entry(session_reader(session), number)

    def cancel(self, number: int) -> None:
        """Cancel the submission of this number, if there is one that is not over."""
        self._journal.cancel(number)


_TIMEOUT_SECONDS = 60.0
"""The server has this many seconds to answer. A busy server refuses within 5, so that one is down that stays silent."""
_MAX_REFUSAL_LETTERS = 400
"""A refusal is shown up to this many characters. A server of another kind may answer with a whole page."""


class RemoteQueue:
    """The queue of a server, whose answers are not trusted.

    Each method raises `UserError` where the server does not answer, or refuses.
    """

    def __init__(self, url: str) -> None:
        if not _is_server_url(url):
            raise UsageError(f"--service {url}: expected the URL of a server, such as http://127.0.0.1:8000")
        self._url = url.rstrip("/")
        # The token must go to no server but the named one.
        self._opener = urllib.request.build_opener(_NoRedirect)

    def submit(self, submission: Submission) -> int:
        """Put a submission on the queue. Return its number."""
        answer = self._request("queue", submission.model_dump_json().encode())
        return self._parse(TypeAdapter(_SubmitAnswer), answer).id

    def entries(self, *, max_ended: int) -> list[QueueEntry]:
        """Return all running and waiting submissions, and the newest `max_ended` that are over."""
        entries = self._parse(TypeAdapter(list[QueueEntry]), self._request("queue.json"))
        ended = [each.id for each in entries if each.is_over][-max_ended:]
        return [each for each in entries if not each.is_over or each.id in ended]

    def entry(self, number: int) -> QueueEntry | None:
        """Return the submission of this number, if there is one."""
        try:
            return self._parse(TypeAdapter(QueueEntry), self._request(f"queue/{number}.json"))
        except _NotFoundError:
            return None

    def cancel(self, number: int) -> None:
        """Cancel the submission of this number, if there is one that is not over."""
        self._request(f"queue/{number}/cancel", b"")

    def _request(self, address: str, body: bytes | None = None) -> bytes:
        """Return the server's answer. A `body` is written with the user's token."""
        headers = {"Content-Type": "application/json"}
        if body is not None:
            token = os.environ.get(TOKEN_VARIABLE, "")
            if not (token.isascii() and token.isprintable() and token):
                found = "another text" if token else "none"
                raise UsageError(
                    f"--service {self._url}: expected a token in ${TOKEN_VARIABLE}, found {found}; who runs the server "
                    "makes one: bisect-precision token USER"
                )
            headers["Authorization"] = f"Bearer {token}"
        request = urllib.request.Request(f"{self._url}/{address}", data=body, headers=headers)
        try:
            return self._open(request)
        except (URLError, OSError, HTTPException, UnicodeError) as error:
            raise UserError(f"{self._url}: expected a server that answers: {error}") from error

    def _open(self, request: urllib.request.Request) -> bytes:
        """Return the server's answer. Raises `UserError` where it refuses, and errors of the connection."""
        try:
            with self._opener.open(request, timeout=_TIMEOUT_SECONDS) as answer:
                return answer.read()
        except HTTPError as error:
            with error:
                if error.code == _NotFoundError.status and request.data is None:
                    raise _NotFoundError from error
                raise UserError(f"{self._url}: expected an answer, found {_refusal(error)}") from error

    def _parse(self, adapter: TypeAdapter[Any], text: bytes) -> Any:
        try:
            return adapter.validate_json(text)
        except ValidationError as error:
            raise UserError(
                f"{self._url}: expected a queue as this version of the tool has it, found another; update the older of "
                "the two: pip install --upgrade precision-bisect"
            ) from error


def _is_server_url(url: str) -> bool:
    """Return whether a text is the URL of a server of HTTP."""
    try:
        parts = urlsplit(url)
    except ValueError:
        return False
    return parts.scheme in ("http", "https") and bool(parts.netloc)


class _SubmitAnswer(BaseModel):
    id: int


class _NotFoundError(Exception):
    """The server has nothing at an address."""

    status = 404


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    def redirect_request(self, *args: Any, **settings: Any) -> None:
        """Return None, so that a redirect is an error."""


def _refusal(error: HTTPError) -> str:
    """Return why the server refused, in its own words where it has any."""
    text = error.read(1 << 16).decode("utf-8", "replace")
    try:
        text = str(json.loads(text)["error"])
    except (ValueError, KeyError, TypeError, RecursionError):
        text = text or error.reason
    return f"{error.code}: {shorten(text, _MAX_REFUSAL_LETTERS)}"
