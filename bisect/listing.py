"""`history` and `status`: lists of what the store holds, in a line or two for each bisection and submission.

`open_reader` opens a store to read it with plain SQL, and `list_bisections`, `queue_entries` and `find_entry` read.
`unfinished_state` says why a bisection has not ended, and `state_text` what became of a submission. `print_history` and
`print_queue` are the commands. They answer at once, because no module that they need imports SQLAlchemy or numpy.
"""

import json
import os
import platform
import shlex
import sqlite3
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import TypeAdapter

from ..runner.cli_options import break_line, print_text
from ..runner.errors import UserError
from ..runner.stack import COMMAND_STACK, case_text
from ..runner.workspace.home import user_home
from ..store.durable_files import plain_value, refuse_damaged_store, schema_versions
from ..store.vocabulary import (
    SQLITE_PREFIX,
    UNFINISHED,
    BisectionOutcome,
    DriveEnd,
    ProbeState,
    Seeks,
    StoreError,
    SubmissionState,
    one_line,
    phrase_for_outcome,
    plural,
    shorten,
)
from .cli import run_command
from .options import StatusOptions

if TYPE_CHECKING:
    from sqlalchemy.orm import Session


def store_url(store: str | None) -> str:
    """Return the URL of the store that `--store` names, else of the user's own."""
    return store or f"{SQLITE_PREFIX}{user_home().store}"


_Rows = list[tuple[Any, ...]]


@dataclass(frozen=True, kw_only=True)
class StoreReader:
    """Runs queries in the SQL that SQLite and PostgreSQL share."""

    is_sqlite: bool
    rows: Callable[[str, Mapping[str, object]], _Rows]
    """Returns the rows of a query with its named parameters."""
    is_driven: Callable[[int], bool | None]
    """Returns whether a process drives a bisection; None where the store does not know, as SQLite."""

    def json_value(self, column: str, *keys: str | int) -> str:
        """Return the SQL for a value inside a column of JSON. It gives NULL where there is none.

        PostgreSQL gives each value as its text. SQLite gives numbers and booleans as numbers.
        """
        if self.is_sqlite:
            path = "".join(f"[{key}]" if isinstance(key, int) else f".{key}" for key in keys)
            return f"json_extract({column}, '${path}')"
        return f"({column} #>> '{{{','.join(map(str, keys))}}}')"


@contextmanager
def open_reader(url: str) -> Generator[StoreReader | None]:
    """Open a store to read it, and yield None where there is none yet. A store of an earlier version is migrated.

    Raises `StoreError`.
    """
    if (connection := _connect(url)) is not None:
        with closing(connection):
            yield _sqlite_reader(connection)
        return
    # SQLAlchemy takes longer to import than a list to read. PostgreSQL, migrations and most errors need it.
    from ..store.database import migrate_and_read, store_exists

    if not store_exists(url):
        yield None
        return
    with migrate_and_read(url)() as session:
        yield session_reader(session)


def _connect(url: str) -> sqlite3.Connection | None:
    """Return a connection to a file whose schema is the newest one. Return None where more has to be done or said."""
    file = Path(url.removeprefix(SQLITE_PREFIX))
    # Without a writable folder, SQLite can make no index of its log.
    if (
        not url.startswith(SQLITE_PREFIX)
        or "?" in url
        or not file.is_file()
        or not os.access(file.parent, os.W_OK)
    ):
        return None
    refuse_damaged_store(file)
    connection = sqlite3.connect(f"{file.absolute().as_uri()}?mode=ro", uri=True)
    try:
        found = connection.execute("SELECT version_num FROM alembic_version").fetchone()
    except sqlite3.Error:
        found = None
    if found == (schema_versions()[-1],):
        return connection
    connection.close()
    return None


def _sqlite_reader(connection: sqlite3.Connection) -> StoreReader:
    def rows(query: str, parameters: Mapping[str, object]) -> _Rows:
        try:
            return connection.execute(query, parameters).fetchall()
        except sqlite3.Error as error:
            raise StoreError(f"expected a store that can be read and written, found: {error}") from error

    return StoreReader(is_sqlite=True, rows=rows, is_driven=lambda _bisection: None)


def session_reader(session: "Session") -> StoreReader:
    """Return a reader of an open session."""
    # Whoever has a session has imported SQLAlchemy.
    from sqlalchemy import text

    from ..store.database import is_driven

    return StoreReader(
        is_sqlite=session.get_bind().dialect.name == "sqlite",
        rows=lambda query, parameters: [tuple(row) for row in session.execute(text(query), parameters)],
        is_driven=lambda bisection: is_driven(session, bisection),
    )


def _time(stored: str | datetime) -> datetime:
    """Return a stored time. SQLite has the text of a time in UTC."""
    if isinstance(stored, str):
        return datetime.fromisoformat(stored).replace(tzinfo=UTC)
    return stored.astimezone(UTC)


def _time_or_none(stored: str | datetime | None) -> datetime | None:
    return None if stored is None else _time(stored)


_CLOCK_TOLERANCE = 1.0
"""The system may report the start of a process this many seconds too late, because it counts from a boot time in whole
seconds."""


@dataclass(frozen=True)
class UnfinishedState:
    """Why a bisection has not ended, in one line, and whether it may still run.

    `why` is None where nothing noted the reason.
    """

    why: str | None
    may_run: bool = False

    @property
    def text(self) -> str:
        """Return the text that takes the place of an outcome."""
        if self.why is None:
            return "not finished"
        return self.why if self.may_run else f"not finished: {self.why}"


_LAST_DRIVE = """
    SELECT host, process, begun, "until", "end", message FROM drives
    WHERE bisection_id = :bisection ORDER BY id DESC LIMIT 1
"""


def unfinished_state(reader: StoreReader, bisection: int) -> UnfinishedState:
    """Return why a bisection without an outcome has not ended."""
    found = reader.rows(_LAST_DRIVE, {"bisection": bisection})
    if not found:
        return UnfinishedState(None, may_run=True)  # begun by an earlier version
    host, process, begun, last_alive, end, message = found[0]
    match end:
        case DriveEnd.INTERRUPTED:
            return UnfinishedState(f"interrupted {_format_minute(_time(last_alive))}")
        case DriveEnd.FAILED:
            return UnfinishedState(one_line(message or ""))
        case DriveEnd.CONCLUDED:
            return UnfinishedState(None)
        case _:
            is_alive = reader.is_driven(bisection)
            if is_alive is None:
                is_alive = _is_process_alive(host, process, _time(begun))
            return _open_drive_state(host, process, _time(begun), is_alive=is_alive)


def _open_drive_state(host: str, process: int, begun: datetime, *, is_alive: bool | None) -> UnfinishedState:
    since = f"since {_format_minute(begun)}"
    if is_alive is None:
        return UnfinishedState(f"running on {host} {since}, or killed there", may_run=True)
    if is_alive:
        return UnfinishedState(f"running on {host} {since}, process {process}", may_run=True)
    return UnfinishedState(f"killed on {host}, where it ran {since}")


def _format_minute(time: datetime) -> str:
    return f"{time:%Y-%m-%d %H:%M} UTC"


def _is_process_alive(host: str, process: int, begun: datetime) -> bool | None:
    """Return whether the process of a start still runs, or None for a process of another machine.

    A later process may have the same number, so the time of its creation must fit too.
    """
    if host != platform.node():
        return None
    import psutil  # most commands start sooner without it

    try:
        return psutil.Process(process).create_time() < begun.timestamp() + _CLOCK_TOLERANCE
    except psutil.Error:
        return False


@dataclass(frozen=True, kw_only=True)
class BisectionSummary:
    """One bisection in a list, with its first culprit."""

    name: str
    created: datetime
    outcome: str
    ended: str
    """The phrase that says how the bisection ended, or why it has not."""
    stack: str
    case: str
    platform: str
    repository: str
    good: str
    bad: str
    seeks: Seeks
    culprit_repository: str | None
    culprit: str | None
    subject: str | None
    confidence: float | None
    author: str | None

    @property
    def range_text(self) -> str:
        """Return both ends, the older one first."""
        ends = (self.good[:12], self.bad[:12])
        return "..".join(ends if self.seeks is Seeks.REGRESSION else ends[::-1])


def list_bisections(reader: StoreReader, *, limit: int | None = None) -> list[BisectionSummary]:
    """Return the bisections of a store, newest first. A few columns of each are read, never whole requests."""
    culprit = ("culprits", 0)
    repository, sha = (reader.json_value("b.conclusion", *culprit, key) for key in ("repository", "commit"))
    columns = (
        "b.id, b.name, b.created, b.outcome, b.repository, b.good, b.bad, c.subject, c.author",
        repository,
        sha,
        reader.json_value("b.conclusion", *culprit, "confidence"),
        reader.json_value("b.conclusion", "no_commit"),
        reader.json_value("b.conclusion", "caveats", 0),
        reader.json_value("b.request", "case"),
        reader.json_value("b.request", "runtime_dir"),
        reader.json_value("b.request", "stack", "case", "command"),
        reader.json_value("b.request", "stack", "name"),
        reader.json_value("b.request", "platform"),
        reader.json_value("b.request", "seeks"),
        reader.json_value("b.request", "interactive"),
    )
    query = (
        f"SELECT {', '.join(columns)} FROM bisections b "
        f"LEFT JOIN commits c ON c.sha = {sha} AND c.repository = {repository} ORDER BY b.id DESC"
    )
    found = reader.rows(query if limit is None else f"{query} LIMIT {limit:d}", {})
    return [_summary(reader, row) for row in found]


def _summary(reader: StoreReader, row: tuple[Any, ...]) -> BisectionSummary:
    number, name, created, outcome, repository, good, bad, subject, author, *from_json = row
    culprit_repository, culprit, confidence, no_commit, caveat, *asked = from_json
    case, runtime_dir, command, stack, platform_name, seeks, interactive = asked
    # Stores from before fixes could be sought say nothing about it.
    sought = Seeks(seeks or Seeks.REGRESSION)
    return BisectionSummary(
        name=name,
        created=_time(created),
        outcome=outcome or UNFINISHED,
        ended=phrase_for_outcome(outcome, seeks=sought, in_doubt=bool(no_commit), has_caveat=bool(caveat))
        if outcome
        else unfinished_state(reader, number).text,
        stack=stack or "",
        case=case_text(
            case, runtime_dir, json.loads(command or "[]"), interactive=interactive in (1, "true")
        ),
        platform=platform_name or "",
        repository=repository,
        good=good,
        bad=bad,
        seeks=sought,
        culprit_repository=culprit_repository,
        culprit=culprit,
        subject=subject,
        confidence=None if confidence is None else float(confidence),
        author=author,
    )


def print_history(store: str | None, *, as_json: bool) -> int:
    """Print all bisections, the newest first. Return the exit code."""

    def body() -> int:
        url = store_url(store)
        with open_reader(url) as reader:
            summaries = [] if reader is None else list_bisections(reader)
        if as_json:
            print(TypeAdapter(list[BisectionSummary]).dump_json(summaries, indent=2).decode())
        elif not summaries:
            print("no bisections yet" if reader else f"no bisections yet in {url}")
        else:
            _print_summaries(summaries)
        return 0

    return run_command(body)


def _print_summaries(summaries: Sequence[BisectionSummary]) -> None:
    # JSON and the queue need no styles, and start sooner without rich.
    from rich.console import Console
    from rich.text import Text

    console = Console()

    def show(text: str, style: str = "", *, is_cut: bool = False) -> None:
        # A terminal breaks a line between words, or cuts it there. A pipe gets it whole.
        parts = break_line(text, console, indent=4, margin=2 * is_cut)
        if is_cut and len(parts) > 1:
            parts = [f"{parts[0]} …"]
        console.print(Text("\n".join(parts), style=style), soft_wrap=True)

    width = max(len(each.name) for each in summaries)
    show(f"{'name':<{width}}  answer", "bold")
    for each in summaries:
        culprit = "" if each.culprit is None else f": {each.culprit_repository} {each.culprit[:12]}"
        show(f"{each.name:<{width}}  " + one_line(f"{each.ended}{culprit} {each.subject or ''}"))
        stack = () if each.stack == COMMAND_STACK else (each.stack,)
        asked = (_format_minute(each.created), f"{each.repository} {each.range_text}", *stack, each.case)
        show(f"    {shorten('  '.join(asked), 400)}", "dim", is_cut=True)


_FINAL_STATES = (SubmissionState.ENDED, SubmissionState.CANCELLED)


@dataclass(frozen=True, kw_only=True)
class QueueEntry:
    """A submission as it is shown. Fields without a comment are those of `SubmissionRow`."""

    id: int
    bisection: str
    """The name of its bisection."""
    user: str
    words: list[str]
    folder: str
    priority: int
    platform: str | None
    """The platform whose board it needs; None where it needs none."""
    device: int | None
    state: SubmissionState
    cancelling: bool
    exit_code: int | None
    host: str | None
    worker: str | None
    created: datetime
    started: datetime | None
    finished: datetime | None
    lacking: str | None
    """While it waits: a machine that cannot run it, and the reason."""
    lost: int
    begun: bool
    """Whether the store has its bisection."""
    runs: int
    """The number of its bisection's runs that have ended."""
    outcome: BisectionOutcome | None
    """The outcome of its bisection, once it has one."""
    tail: str
    """The last lines of its log."""

    @property
    def command(self) -> str:
        """Return the command that was typed, as a shell takes it."""
        return shlex.join(["bisect-precision", *self.words])

    @property
    def is_over(self) -> bool:
        """Return whether it has ended or was cancelled."""
        return self.state in _FINAL_STATES


_FINAL = ", ".join(f"'{state}'" for state in _FINAL_STATES)
_SUBMISSIONS = f"""
    SELECT s.id, s.bisection, s."user", s.words, s.folder, s.priority, s.board, s.device, s.state, s.cancelling,
        s.exit_code, s.host, s.worker, s.created, s.started, s.finished, s.lacking, s.lost, s.tail, b.id, b.outcome,
        (SELECT count(*) FROM probes p WHERE p.bisection_id = b.id AND p.state = '{ProbeState.FINISHED}')
    FROM submissions s LEFT JOIN bisections b ON b.name = s.bisection
"""


def find_entry(reader: StoreReader, number: int) -> QueueEntry | None:
    """Return the submission of this number."""
    found = reader.rows(f"{_SUBMISSIONS} WHERE s.id = :number", {"number": number})
    return _entry(found[0]) if found else None


def queue_entries(reader: StoreReader, *, max_ended: int) -> list[QueueEntry]:
    """Return the submissions that run or wait, and the newest ones that are over, in the order of submission."""
    newest = f"SELECT id FROM submissions WHERE state IN ({_FINAL}) ORDER BY finished DESC LIMIT :most"
    shown = f"{_SUBMISSIONS} WHERE s.state NOT IN ({_FINAL}) OR s.id IN ({newest}) ORDER BY s.id"
    return [_entry(row) for row in reader.rows(shown, {"most": max_ended})]


def _entry(row: tuple[Any, ...]) -> QueueEntry:
    number, bisection, user, words, folder, priority, board, device, state, cancelling, *rest = row
    exit_code, host, worker, created, started, finished, lacking, lost, tail, begun, outcome, runs = rest
    return QueueEntry(
        id=number,
        bisection=bisection,
        user=user,
        words=plain_value(json.loads(words) if isinstance(words, str) else words),
        folder=folder,
        priority=priority,
        platform=board,
        device=device,
        state=SubmissionState(state),
        cancelling=bool(cancelling),
        exit_code=exit_code,
        host=host,
        worker=worker,
        created=_time(created),
        started=_time_or_none(started),
        finished=_time_or_none(finished),
        lacking=lacking,
        lost=lost,
        begun=begun is not None,
        runs=runs,
        outcome=None if outcome is None else BisectionOutcome(outcome),
        tail=tail,
    )


def state_text(entry: QueueEntry) -> str:
    """Return the state of a submission, in words."""
    runs = f", {plural(entry.runs, 'run')} made" if entry.runs else ""
    needs = _board_text(entry)
    if entry.state is SubmissionState.QUEUED:
        lacking = f"; {one_line(entry.lacking)}" if entry.lacking else ""
        return f"waits{f' for {needs}' if needs else ''}{runs}{lacking}"
    if entry.state is SubmissionState.RUNNING:
        what = "is being cancelled" if entry.cancelling else "runs"
        return f"{what} on {one_line(entry.host or '')}{f', {needs}' if needs else ''}"
    if entry.state is SubmissionState.CANCELLED:
        return f"was cancelled{runs}"
    outcome = f": {entry.outcome.value.replace('_', ' ')}" if entry.outcome else ""
    return f"ended with exit code {entry.exit_code}{outcome}{runs}"


def _board_text(entry: QueueEntry) -> str:
    if entry.platform is None:
        return ""
    return f"board {entry.platform}{'' if entry.device is None else f' {entry.device}'}"


MAX_ENDED_SHOWN = 20
"""`status` lists this many of the newest ended submissions. Older ones rarely matter."""


def print_queue(options: StatusOptions) -> int:
    """Print the queue of the store, or one submission with the end of its log. Return the exit code."""

    def body() -> int:
        with open_reader(store_url(options.store)) as reader:
            if options.number is not None:
                entry = find_entry(reader, options.number) if reader else None
                print_entry(check_entry(entry, options.number), as_json=options.as_json)
            else:
                entries = queue_entries(reader, max_ended=MAX_ENDED_SHOWN) if reader else []
                print_entries(entries, as_json=options.as_json)
        return 0

    return run_command(body)


def check_entry(entry: QueueEntry | None, number: int) -> QueueEntry:
    """Return the submission that has a number. Raises `UserError` where there is none."""
    if entry is None:
        raise UserError(f"no submission has the number {number}; bisect-precision status lists them")
    return entry


def print_entries(entries: Sequence[QueueEntry], *, as_json: bool) -> None:
    """Print submissions, in two lines each."""
    if as_json:
        print(TypeAdapter(list[QueueEntry]).dump_json([*entries], indent=2).decode())
        return
    lines = [line for entry in entries for line in _entry_lines(entry)]
    print_text(
        "\n".join(lines or ["nothing was submitted yet: bisect-precision submit --good A --bad B ..."]),
        indent=4,
    )


def print_entry(entry: QueueEntry, *, as_json: bool) -> None:
    """Print one submission with the end of its log."""
    if as_json:
        print(TypeAdapter(QueueEntry).dump_json(entry, indent=2).decode())
        return
    print_text("\n".join([*_entry_lines(entry), *map(one_line, entry.tail.splitlines())]), indent=4)


def _entry_lines(entry: QueueEntry) -> Iterator[str]:
    yield f"{entry.id}  {state_text(entry)}"
    details = [_format_minute(entry.created), one_line(entry.user)]
    if entry.priority:
        details.append(f"priority {entry.priority}")
    yield "    " + "  ".join([*details, entry.bisection, one_line(shlex.join(entry.words))])
