"""What is asked of a bisection: as it was typed, as the store keeps it, and as it is planned.

A `Question` is what the user typed. Once it is checked it is a `BisectRequest`, which the store keeps. A `Plan` adds
the range. `BisectLog` reads the ends from a `git bisect log`. `engine_question` returns what the engine has to know of
a request. The other functions read the pins of a stack, and print the command that asks again.
"""

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import Any, ClassVar, Literal

from sqlalchemy import make_url
from sqlalchemy.exc import ArgumentError

from ...runner.case.case import CaseName, missing_requirements, perturbation_key
from ...runner.case.preflight import frozen_build_case
from ...runner.errors import UsageError, nearest_path, reason, suggestion
from ...runner.git import GitRepository
from ...runner.overlays import CherryPick
from ...runner.pins import PinReader, Revisions
from ...runner.probe.judge import Crash, JudgingRule
from ...runner.settings import checkout_root
from ...runner.stack import Stack, case_text, display_text
from ...runner.workspace.environment import InheritedVariables
from ...runner.workspace.home import command_line
from ...store.durable_files import Document, Upgrade, read_text_file
from ...store.vocabulary import Seeks, Verdict, plural
from ..engine.runs import BisectionQuestion
from ..history.questions import MovedPin, OfferedPerturbation, PinRecord
from ..history.range import LoadedRange, Range
from ..search.rates import EarlierRuns, Rates, learn_rates
from .predicate import Predicate


@dataclass(frozen=True, kw_only=True)
class Question:
    """A question as the user asked it. Its words are checked, but not yet against the checkouts."""

    stack: Stack
    repository: str | None
    good: tuple[str, ...]
    """The good ends. Where there are none, a good end is searched for before the bad one."""
    bad: str
    case: str | None
    platform: str | None
    device: int
    bad_when: str | None
    golden_data: Path | None
    runtime_dir: Path | None
    first_parent: bool
    timeout: float | None
    confidence: float
    output: Path | None
    name: str | None = None
    """The name of the bisection. None where a name has to be made."""
    good_when: str | None = None
    crash: Crash = "skip"
    seeks: Seeks = Seeks.REGRESSION
    cherry_picks: tuple[str, ...] = ()
    """The values of --cherry-pick, each REV@A..B."""
    overlays: tuple[str, ...] = ()
    """The values of --overlay, each PATH or PATH@REV."""
    adapt: tuple[Path, ...] = ()
    """The files of renames."""
    skip: tuple[str, ...] = ()
    """The values of --skip, each REV or A..B."""
    path: tuple[str, ...] = ()
    """The values of --path, each a file or folder of the searched repository."""
    also_old: tuple[str, ...] = ()
    """Further revisions that behave like the older end."""
    interactive: bool = False
    command: Predicate | None = None
    """The command behind `--`, which is also the case of the stack."""
    typed: tuple[str, ...] = ()
    """The words of the command line, without the program's name."""
    replay_log: "BisectLog | None" = None
    """The log of --replay, from which ends, skips and paths come."""


REPORTS_FOLDER = "bisect-precision-reports"
"""Reports without a folder of their own lie here, in the folder where their bisections were asked."""
NEWEST_LINK = "newest"
"""The name of the link in `REPORTS_FOLDER` to the report that a bisection wrote last."""
_SYSTEM_FOLDERS = ("/usr", "/bin", "/opt", "/dev")
"""These folders hold programs that other machines have too."""
_PERSON_RATES = Rates.from_values(good=0.0, bad=1.0)
"""The rates where a person judges, whose answer counts as certain."""


def _remove_choices(old: Mapping[str, Any]) -> dict[str, Any]:
    """Upgrade a request of version 1.

    That version had `end_runs`, how often each end is run, and a unit (commits or days) in `gallop`.
    """
    kept = {key: value for key, value in old.items() if key != "end_runs"}
    return {**kept, "gallop": old.get("gallop") is not None}


class BisectRequest(Document):
    """A question with all that a resume needs. `good` and `bad` are full commit ids of `repository`."""

    upgrades: ClassVar[tuple[Upgrade, ...]] = (_remove_choices,)

    schema_version: Literal[2] = 2
    stack: Stack
    repository: str
    fixed: Mapping[str, str]
    """The commits, at the start, of repositories that are neither searched nor pinned."""
    frozen: Mapping[str, str] = {}
    """The values of frozen pins, by repository. A pin to something outside of the stack has its own name as the key."""
    good: str
    """The good end. Where it has to be found first, this is the oldest commit that may be it."""
    bad: str
    also_old: tuple[str, ...] = ()
    """Further commits that the user named as old ends. Their ancestors are no candidates."""
    replayed: int = 0
    """The number of judgements of a git bisect log that count without a run. They left the range to be searched."""
    parted: tuple[str, ...] = ()
    """The commits that the user named as old ends, if none is an ancestor of the new end. Their merge base is the old
    end then."""
    skip: tuple[str, ...] = ()
    """Commits of `repository` that are never run."""
    paths: tuple[str, ...] = ()
    """Files and folders of `repository`. A candidate touches at least one. Without any, all commits are candidates."""
    seeks: Seeks = Seeks.REGRESSION
    """What is sought: a regression, whose old end is good, or a fix, whose old end is bad."""
    gallop: bool = False
    """Whether a good end is searched for, 1, 2, 4, ... commits before the bad end."""
    cherry_picks: tuple[CherryPick, ...] = ()
    """Changes that are applied to a stretch of commits of `repository` before these are built."""
    case: str | None
    """The script of the case. None where the stack's command or the build directory is the whole case."""
    platform: str
    device: int
    bad_when: str | None
    """What makes a run bad. None means that a command fails as the failing end does, or that a person decides."""
    good_when: str | None = None
    """What a pass has to show. None means the verdict `pass`, or exit code 0 of a command."""
    crash: Crash = "skip"
    """What a command counts as when a signal ends it."""
    command: bool = False
    """Whether a command behind `--` is judged. Older requests do not have this field; use `is_command`."""
    golden_data: Path | None
    """The folder of the frozen data. Without it, they are captured at the good end if the case has any."""
    runtime_dir: Path | None = None
    """A build directory that every run uses instead of compiling the case."""
    frozen_runtime_dir: Path | None = None
    """The copy of `runtime_dir`, made when the bisection begins."""
    interactive: bool = False
    """Whether a person runs the case and judges it."""
    typed: tuple[str, ...] = ()
    """The words that ask the same again, without the name of the command. Empty where nobody typed any."""
    folder: Path | None = None
    """The folder where they were typed."""
    first_parent: bool = False
    """Whether only the first parent of a merge is followed."""
    commit_pages: Mapping[str, str] = {}
    """The address of each repository's commit pages, to which a commit's id is appended."""
    timeout: float | None
    """Seconds for one run. None means ten times as long as the longest run so far took."""
    confidence: float
    reuses: tuple[str, ...] = ()
    """The bisections that asked the same before, and whose runs of equal content count here too."""
    earlier_runs: EarlierRuns | None = None
    """What the store knew of the case at the start. None where it knew nothing, or where not only a verdict is bad."""
    output: Path
    inherited: InheritedVariables | None = None
    """The shell variables that reached the case at the start. Requests of earlier versions have none."""

    @property
    def range(self) -> Range:
        """Return where the change lies. `good` says what its old end is where that has to be found first."""
        regression = self.seeks is Seeks.REGRESSION
        return Range(
            repository=self.repository,
            old=self.good if regression else self.bad,
            new=self.bad if regression else self.good,
            held=self.frozen,
            also_old=self.also_old,
            skip=tuple(sha for sha in self.skip if sha not in (self.good, self.bad)),
            paths=self.paths,
            seeks=self.seeks,
            first_parent=self.first_parent,
        )

    @property
    def ends(self) -> dict[str, str]:
        """Return the commits of the ends that were named, under the keys `good` and `bad`."""
        return {"bad": self.bad} if self.gallop else {"good": self.good, "bad": self.bad}

    def belongs_to(self, checkout: Path) -> bool:
        """Return whether the question was asked in this checkout, or about it."""
        asked_in = [] if self.folder is None else [checkout_root(self.folder)]
        return checkout in (*asked_in, *(each.path for each in self.stack.repositories.values()))

    @property
    def rates(self) -> Rates:
        """Return the fail rates that the search begins from."""
        if self.interactive:
            return _PERSON_RATES
        shipped = Rates.unknown()
        return shipped if self.earlier_runs is None else learn_rates(shipped, self.earlier_runs)

    @property
    def is_command(self) -> bool:
        """Return whether a command behind `--` is judged."""
        return self.command or (self.bad_when is None and not self.interactive)

    @property
    def judging_rule(self) -> JudgingRule:
        """Return the rule by which runs are judged."""
        return JudgingRule.parse(
            self.bad_when, good=self.good_when, command=self.is_command or self.interactive, crash=self.crash
        )

    @property
    def bad_criterion(self) -> str | None:
        """Return what makes a run bad, in words. Return None where a command fails as the failing end does."""
        return "a person says so" if self.interactive else self.bad_when

    @property
    def replays(self) -> bool:
        """Return whether the build directory is itself the case."""
        return self.case is None and self.runtime_dir is not None

    @property
    def case_text(self) -> str:
        """Return the name of the case, as the function of this name does."""
        return case_text(self.case, self.runtime_dir, self.stack.case.command, interactive=self.interactive)

    @property
    def own_files(self) -> list[Path]:
        """Return the user's own files that a command names by their full path. Other machines do not have them."""
        if self.case is not None or self.runtime_dir is not None:
            return []
        words = (Path(display_text(word)) for word in self.stack.case.command)
        return [
            word
            for word in words
            if word.is_absolute() and not any(map(word.is_relative_to, _SYSTEM_FOLDERS))
        ]

    @property
    def script(self) -> CaseName | None:
        """Return the script that the stack's command runs. Return None where this command is the whole case."""
        if self.case is not None:
            return CaseName.parse(self.case, self.stack)
        return frozen_build_case(self.frozen_runtime_dir) if self.frozen_runtime_dir is not None else None

    @property
    def captures_golden(self) -> bool:
        """Return whether golden data have to be saved at the good end."""
        case = self.stack.case
        return (
            self.golden_data is None
            and not (self.is_command or self.interactive)
            and (case.harness or bool(case.flags.save_data))
        )


@dataclass(frozen=True, kw_only=True)
class Plan:
    """A checked question, its range, and what the user should know before the first run."""

    name: str
    is_named: bool
    """Whether the user named the bisection or its folder. If not, each plan of the question has another name."""
    request: BisectRequest
    range: LoadedRange | None
    """None where the good end has to be found first."""
    notices: tuple[str, ...]


_OLD, _NEW = "good", "bad"
_OPTIONS_OF_OLD = ("--term-old", "--term-good")
_OPTIONS_OF_NEW = ("--term-new", "--term-bad")


@dataclass(kw_only=True)
class BisectLog:
    """A `git bisect log`, in its own order, with commits as it names them."""

    file: Path
    olds: list[str] = field(default_factory=list[str])
    """The good commits, or those with the log's own old term."""
    news: list[str] = field(default_factory=list[str])
    """The bad commits, or those with the log's own new term."""
    skip: list[str] = field(default_factory=list[str])
    paths: list[str] = field(default_factory=list[str])
    first_parent: bool = False
    _old_terms: set[str] = field(default_factory=lambda: {_OLD, "old"})
    _new_terms: set[str] = field(default_factory=lambda: {_NEW, "new"})

    @property
    def judgements(self) -> int:
        """Return the number of commits that the log judges."""
        return len(self.olds) + len(self.news) + len(self.skip)

    @property
    def notice(self) -> str:
        """Return the sentence of the report about this log."""
        return (
            f"--replay {self.file}: {plural(self.judgements, 'judgement')} of it count as they stand, without a run of "
            "ours; only the ends that they leave, and what lies between, are run"
        )

    @classmethod
    def read(cls, file: Path) -> "BisectLog":
        """Read a log, as `git bisect log` prints it or as it stands in a report. Raises `UsageError`."""
        try:
            lines = read_text_file(file).splitlines()
        except (OSError, UnicodeDecodeError) as error:
            raise UsageError(
                f"--replay {file}: expected a file of git bisect log: {reason(error)}"
            ) from error
        log = cls(file=file)
        for number, line in enumerate(lines, start=1):
            words = _words(line)
            if words and not log._read_line(words):
                raise UsageError(
                    f"--replay {file}: expected git bisect start, good, bad or skip with commits, found in line "
                    f"{number}: {line.strip()[:100]}"
                )
        if not log.news:
            raise UsageError(
                f"--replay {file}: expected a log of git bisect that names a bad end, found none in it"
            )
        return log

    def _read_line(self, words: Sequence[str]) -> bool:
        """Read the words of one line. Return whether they are a command of git bisect."""
        command, commits = words[0], words[1:]
        if command == "start":
            self._read_start(commits)
            return True
        if command == "terms":
            return True
        if not commits:
            return False
        if command in self._old_terms:
            self.olds += commits
        elif command in self._new_terms:
            self.news += commits
        elif command == "skip":
            self.skip += commits
        else:
            return False
        return True

    def _read_start(self, words: Sequence[str]) -> None:
        """Read the words behind `git bisect start`: options, the bad end, good ends, and paths behind `--`."""
        end = words.index("--") if "--" in words else len(words)
        self.paths += words[end + 1 :]
        revisions: list[str] = []
        left = iter(words[:end])
        for word in left:
            name, equals, value = word.partition("=")
            if name in (*_OPTIONS_OF_OLD, *_OPTIONS_OF_NEW):
                terms = self._old_terms if name in _OPTIONS_OF_OLD else self._new_terms
                terms.add(value if equals else next(left, ""))
            elif name == "--first-parent":
                self.first_parent = True
            elif not name.startswith("--"):
                revisions.append(word)
        self.news += revisions[:1]
        self.olds += revisions[1:]


def _words(line: str) -> list[str]:
    """Return the words of a line behind `git bisect`. There are none where the line is blank or a comment.

    The first word of any other line is no command of git bisect.
    """
    if not line.strip() or line.lstrip().startswith("#"):
        return []
    try:
        words = shlex.split(line)
    except ValueError:
        return [line]
    if words[:2] == ["git", "bisect"] and len(words) > 2:
        return words[2:]
    return words[1:] if words[0] == "git-bisect" and len(words) > 1 else ["?", *words]


DEFAULT_STACK_FILE = "stack.toml"
"""A stack file of this name counts in its folder where no stack is named."""


def frozen_values(stack: Stack, revisions: Revisions, *, searched: str, bad: str) -> dict[str, str]:
    """Return the values of frozen pins, by the names under which revisions have them.

    A frozen pin has its value of the bad end at every commit. A pin without a value there is not frozen. A pin of the
    searched repository is not frozen either.
    """
    frozen: dict[str, str] = {}
    at_bad = revisions.complete({searched: bad})
    for name, pin in stack.pins.items():
        held_name = stack.revision_key(name)
        value = revisions.pins.value(name, at_bad[pin.holder]) if pin.holder in at_bad else None
        if not pin.search and held_name != searched and value is not None:
            frozen[held_name] = value
    return frozen


def pin_records(
    stack: Stack,
    pins: PinReader,
    *,
    good: Mapping[str, str],
    bad: Mapping[str, str],
    frozen: Mapping[str, str],
) -> tuple[PinRecord, ...]:
    """Return all pins of the stack, with their values at the revisions of both ends."""
    return tuple(
        PinRecord(
            name=name,
            holder=pin.holder,
            path=pin.path,
            value_good=pins.display_value(name, good[pin.holder]) if pin.holder in good else None,
            value_bad=pins.display_value(name, bad[pin.holder]) if pin.holder in bad else None,
            searched=pin.search,
            frozen_at=pin_display_value(stack, name, frozen.get(stack.revision_key(name))),
        )
        for name, pin in stack.pins.items()
    )


def moved_pins(stack: Stack, pins: PinReader, *, repository: str, old: str, new: str) -> list[MovedPin]:
    """Return the searched pins that differ between two commits of their holder."""
    moved: list[MovedPin] = []
    for name, pin in stack.pins.items():
        if pin.holder == repository and pin.search:
            before, after = pins.value(name, old), pins.value(name, new)
            if before is not None and after is not None and before != after:
                held_name = stack.revision_key(name)
                old_version, new_version = (stack.version_of(held_name, each) for each in (before, after))
                versions = (old_version, new_version) if old_version and new_version else None
                moved.append(
                    MovedPin(path=pin.path, held_name=held_name, old=before, new=after, versions=versions)
                )
    return moved


def pin_display_value(stack: Stack, name: str, value: str | None) -> str | None:
    """Return the value of a pin as people know it, which for a release is its version."""
    return None if value is None else stack.version_of(stack.revision_key(name), value) or value


def suggest_file(repository: GitRepository, sha: str, path: PurePosixPath) -> str:
    """Return the end of a message about a path that a commit does not have. It suggests another file of the commit.

    That file has the same name in another folder, or a similar path. The text is empty without such a file.
    """
    listed = repository.run("ls-tree", "-r", "-z", "--full-tree", "--name-only", sha).split("\0")
    same_suffix = [each for each in listed if PurePosixPath(each).suffix == path.suffix]
    namesakes = [each for each in same_suffix if PurePosixPath(each).name == path.name]
    if namesakes:
        return f": did you mean {min(namesakes, key=len)}?"
    if hint := suggestion(str(path), same_suffix):
        return hint
    near = nearest_path(repository.path / path)
    return "" if near is None else f": did you mean {near.relative_to(repository.path)}?"


def overlay_option(
    repository: GitRepository, path: PurePosixPath, good: str, bad: str, at: str | None
) -> str | None:
    """Return the option that lays a file over all commits of a range, as it is at the commit `at` or on disk.

    Return None where no commit of the range changes anything else, or where the option cannot name the file.
    """
    others = (":(top)", f":(top,exclude,literal){path}")
    if "@" in str(path) or not repository.run("rev-list", "--max-count=1", f"{good}..{bad}", "--", *others):
        return None
    return f"--overlay {shlex.quote(str(path) if at is None else f'{path}@{at[:12]}')}"


_STORE = "--store"
_NAME = "--name"


CommitsByOption = Mapping[str, Mapping[str, str]]
"""The commit ids that the values of each option stood for when the question was asked."""


def replace_commit_names(words: Sequence[str], commits: CommitsByOption) -> tuple[str, ...]:
    """Return the words of a command with commit ids in place of branches and dates.

    `--name` is left out, because the name is taken. A password in the store's URL becomes `***`.
    """
    last = list(words).index("--") if "--" in words else len(words)
    repeatable: list[str] = []
    for place, word in enumerate(words[:last]):
        name, equals, value = word.partition("=")
        before = words[place - 1] if place else ""
        if _NAME in (name, before):
            continue
        if equals and name in (*commits, _STORE):
            repeatable.append(f"{name}={_repeatable_value(name, value, commits)}")
        else:
            repeatable.append(_repeatable_value(before, word, commits))
    return (*repeatable, *words[last:])


def _repeatable_value(option: str, value: str, commits: CommitsByOption) -> str:
    if option in commits:
        return commits[option].get(value, value)
    if option != _STORE:
        return value
    try:
        return make_url(value).render_as_string()
    except (ArgumentError, ValueError):  # opening the store refuses it
        return value


def repeat_command(folder: str, words: Sequence[str]) -> str:
    """Return one shell line that asks a question again, from the folder where it was asked."""
    return f"cd {shlex.quote(folder)} && {command_line(['bisect-precision', *words])}"


def engine_question(request: BisectRequest) -> BisectionQuestion:
    """Return what the engine has to know of a request."""
    case, rule = request.stack.case, request.judging_rule
    golden = "given" if request.golden_data is not None else "captured" if request.captures_golden else "none"
    return BisectionQuestion(
        range=request.range,
        confidence=request.confidence,
        gallop=request.gallop,
        golden=golden,
        repositories=frozenset(request.stack.repositories),
        has_patches=bool(request.cherry_picks),
        measured_in=case.repository if request.case and case.yardstick else None,
        case=request.case,
        mismatch=rule.bad is not None and rule.bad.verdict is Verdict.MISMATCH,
        has_command=request.bad_when is None or request.is_command,
        compares_failures=request.is_command and rule.compares_failures,
        crash_is_bad=request.crash == "bad",
        rates=request.rates,
        perturbations=() if request.interactive else _offered_perturbations(request.stack),
        starts_at_merge_base=bool(request.parted),
    )


def _offered_perturbations(stack: Stack) -> tuple[OfferedPerturbation, ...]:
    """Return the perturbations of a stack whose requirements this machine meets."""
    return tuple(
        OfferedPerturbation(name=name, key=perturbation_key(each), description=each.description)
        for name, each in stack.perturbations.items()
        if not missing_requirements(each)
    )
