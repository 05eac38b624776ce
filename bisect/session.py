"""From the words of a command to a bisection that runs: check what is asked, note it, take it up again after a stop."""

import os
import secrets
import time
from collections.abc import Generator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from filelock import FileLock, Timeout
from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.orm import Session as DatabaseSession
from sqlalchemy.orm import sessionmaker

from ..runner.backends import Backend
from ..runner.bad_when import BadWhen
from ..runner.case import CaseName
from ..runner.cherry_picks import CherryPicks
from ..runner.content import StackContent
from ..runner.crew import Crew
from ..runner.errors import EndsError, UsageError, UserError
from ..runner.git import GitRepository
from ..runner.home import Home
from ..runner.revisions import Revisions, fixed_revisions
from ..runner.runtime_dir import check_replayable, check_runtime_dir, data_of, freeze_runtime_dir
from ..runner.scene_tests import with_harness
from ..runner.stack import Stack
from ..runner.worker import Setup
from ..runner.workspace import Workspace
from ..store.clock import now
from ..store.database import StoreError, open_store
from ..store.journal import Journal
from ..store.schema import Outcome, Seeks
from .company import Alone, Company, Workers
from .conclusion import Conclusion
from .driver import Driver
from .experiments import Experiments
from .patches import parse_cherry_picks
from .pins import frozen_values
from .progress import Progress
from .request import BisectRequest
from .stage import Range, Stage, load_stage


@dataclass(frozen=True, kw_only=True)
class Question:
    """What the user said, before anything of it is checked."""

    stack: Stack
    repository: str | None
    good: str | None
    """None: it is looked for behind the bad end."""
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
    gallop: Literal["commits", "days"] = "commits"
    """How far back in each step, where the good end is looked for."""
    seeks: Seeks = Seeks.REGRESSION
    cherry_picks: tuple[str, ...] = ()
    """Each REV@A..B."""


@dataclass(frozen=True, kw_only=True)
class Plan:
    """A question that can be asked, what it ranges over, and what the user should know before it starts."""

    name: str
    request: BisectRequest
    stage: Stage | None
    """None where the good end has to be found first."""
    notices: tuple[str, ...]


def prepare(question: Question, home: Home) -> Plan:
    """Check a question against the checkouts, without writing anything. Raises `UserError`."""
    stack = question.stack
    searched = question.repository or stack.searched
    if searched not in stack.repositories:
        raise UsageError(f"--repo {searched}: expected one of {sorted(stack.repositories)}")
    platform = question.platform or next(iter(stack.platforms))
    if platform not in stack.platforms:
        raise UsageError(f"--platform {platform}: expected one of {sorted(stack.platforms)}")
    if question.bad_when is not None:
        BadWhen.parse(question.bad_when)
    if question.golden_data is not None and not question.golden_data.is_dir():
        raise UsageError(
            f"--golden-data {question.golden_data}: expected a folder with in/ and out/, found none"
        )
    runtime_dir = _runtime_dir(question, searched)
    golden_data = question.golden_data or (data_of(runtime_dir) if runtime_dir else None)
    if runtime_dir is not None and question.case is None:
        if golden_data is None:
            raise UsageError(
                f"--runtime-dir {runtime_dir}: expected frozen data in its data/, found none; name it with "
                "--golden-data, or the case with --case"
            )
        check_replayable(runtime_dir, golden_data)
        stack = with_harness(stack)
    workspace = Workspace(stack, home)
    repository = workspace.repositories[searched]
    bad = repository.resolve(question.bad, option="--bad")
    if question.good is None:
        good = _root(repository, bad)
    else:
        good = repository.resolve(question.good, option="--good")
        _check_ends(repository, good=good, bad=bad, seeks=question.seeks)
    old, new = (good, bad) if question.seeks is Seeks.REGRESSION else (bad, good)
    fixed = fixed_revisions(stack, workspace.repositories, searched=searched)
    frozen = frozen_values(stack, Revisions(stack, workspace.clones, fixed), searched=searched, bad=bad)
    case = str(CaseName.parse(question.case, stack)) if question.case is not None else None
    name = f"{now():%Y%m%d-%H%M%S}-{secrets.token_hex(2)}"
    request = BisectRequest(
        stack=stack,
        repository=searched,
        fixed=fixed,
        frozen=frozen,
        good=good,
        bad=bad,
        cherry_picks=parse_cherry_picks(question.cherry_picks, stack, searched, repository),
        seeks=question.seeks,
        gallop=question.gallop if question.good is None else None,
        case=case,
        platform=platform,
        device=question.device,
        bad_when=question.bad_when,
        golden_data=golden_data.resolve() if golden_data else None,
        runtime_dir=runtime_dir,
        frozen_runtime_dir=home.bisections / name / "runtime-dir" if runtime_dir else None,
        first_parent=question.first_parent,
        timeout=question.timeout,
        confidence=question.confidence,
        output=(question.output or Path(f"bisect-precision-{name}")).resolve(),
    )
    content, revisions = _views(request, workspace)
    for end in (bad,) if question.good is None else (good, bad):
        # A pinned commit that cannot be had is said now: without it no commit of the range could be told from another.
        content.of_revisions(revisions.complete({**frozen, searched: end}))
    stage = None
    if question.good is not None:
        stage = load_stage(
            Range(
                repository=searched,
                old=old,
                new=new,
                held=frozen,
                seeks=question.seeks,
                first_parent=question.first_parent,
            ),
            repository=workspace.clones[searched],
            content=content,
            revisions=revisions,
        )
    if stage is None and question.good is not None:
        raise EndsError(
            f"{old[:12]}..{new[:12]}: expected a commit that can change the result, found only changes in "
            f"ignored paths ({', '.join(stack.repositories[searched].ignore)})"
        )
    notices = _check_checkouts(request, workspace)
    if runtime_dir is not None:
        notices.append(f"every run uses the build directory {runtime_dir} in place of compiling the case")
    if request.replays:
        notices.append("outputs are compared with the tolerance that the harness takes by default")
    return Plan(name=name, request=request, stage=stage, notices=tuple(notices))


def _runtime_dir(question: Question, searched: str) -> Path | None:
    """The build directory to freeze. Raises `UsageError` where nothing would be searched, or nothing could take it."""
    if question.runtime_dir is None:
        return None
    case = question.stack.case
    takes_one = bool(case.flags.runtime_dir) if question.case is not None else case.scene_tests
    if not (case.harness or takes_one):
        alone = "; leave --case out: the build directory is the case" if case.scene_tests else ""
        raise UsageError(
            f"--runtime-dir {question.runtime_dir}: expected a case that takes a build directory "
            f"(case.flags.runtime_dir in the stack file), found none in stack {question.stack.name}{alone}"
        )
    if searched == question.stack.searched and not case.scene_tests:
        raise UsageError(
            f"--runtime-dir {question.runtime_dir}: expected --repo with another repository than {searched}, whose "
            "work the build directory replaces"
        )
    return check_runtime_dir(question.runtime_dir)


def _root(repository: GitRepository, bad: str) -> str:
    """As far as a good end is looked for."""
    root, _ = repository.first_parents(bad)[-1]
    if root == bad:
        raise EndsError(
            f"expected commits before bad {bad[:12]} to look for a good end, found none: it is a root"
        )
    return root


def _check_ends(repository: GitRepository, *, good: str, bad: str, seeks: Seeks) -> None:
    if good == bad:
        raise EndsError(f"expected two different ends, found {good[:12]} as --good and --bad")
    ends = {"--good": good, "--bad": bad}
    older, newer = ends if seeks is Seeks.REGRESSION else reversed(ends)
    old, new = ends[older], ends[newer]
    if repository.is_ancestor(old, new):
        return
    expected = f"expected {older} to be an ancestor of {newer}, found {old[:12]}"
    if repository.is_ancestor(new, old):
        hint = (
            "to find what fixed it, add --find-fix" if seeks is Seeks.REGRESSION else "leave out --find-fix"
        )
        raise EndsError(f"{expected} to follow {new[:12]}: the ends are swapped; {hint}")
    base = repository.merge_base(old, new)
    if base is None:
        raise EndsError(f"expected related ends, found {good[:12]} and {bad[:12]} without a common ancestor")
    does = "passes" if seeks is Seeks.REGRESSION else "fails"
    raise EndsError(f"{expected} on another branch; if their merge base {does}, ask with {older} {base[:12]}")


def _check_checkouts(request: BisectRequest, workspace: Workspace) -> list[str]:
    """Only commits are tested: say what of the checkouts will not be, and refuse where that is the case itself."""
    notices: list[str] = []
    for name, repository in workspace.repositories.items():
        changed = repository.changed_files()
        if not changed:
            continue
        stack = request.stack
        if request.case is not None and name == stack.case.repository:
            path = str(CaseName.parse(request.case, stack).path)
            if path in changed:
                raise UserError(
                    f"{repository.path / path}: expected the case as committed, found changes that no probe would see; "
                    "commit them first"
                )
        more = f" and {len(changed) - 1} more" if len(changed) > 1 else ""
        notices.append(f"{repository.path}: uncommitted changes are not tested ({changed[0]}{more})")
    if request.case is not None:
        _check_case_exists(request, workspace)
    return notices


def _check_case_exists(request: BisectRequest, workspace: Workspace) -> None:
    assert request.case is not None
    case = CaseName.parse(request.case, request.stack)
    name = request.stack.case.repository
    sha = request.fixed.get(name, request.bad if name == request.repository else None)
    repository = workspace.repositories[name]
    if sha is not None and repository.read_text(sha, str(case.path)) is None:
        raise UsageError(
            f"--case {case.path}: expected a file of {repository.path} at {sha[:12]}, found none"
        )


def _views(request: BisectRequest, workspace: Workspace) -> tuple[StackContent, Revisions]:
    content = StackContent(request.stack, workspace)
    name = request.repository
    picks = CherryPicks(request.cherry_picks, repository=name, git=workspace.clones[name])
    return content, Revisions(request.stack, workspace.clones, request.fixed, picks=picks)


@dataclass(frozen=True, kw_only=True)
class CrewOptions:
    """Who works on a bisection this time, and for how many seconds at most."""

    jobs: int = 1
    backend: Backend = "loky"
    budget: float | None = None


class StoredBisection:
    """A bisection in the store that this process, and no other, may drive."""

    def __init__(self, journal: Journal, name: str, home: Home) -> None:
        self.journal = journal
        self.name = name
        self.directory = home.bisections / name
        self._home = home

    @classmethod
    def begin(cls, plan: Plan, *, sessions: sessionmaker[DatabaseSession], home: Home) -> "StoredBisection":
        """Note a new one."""
        request = plan.request
        journal = Journal.begin(
            sessions,
            name=plan.name,
            repository=request.repository,
            good=request.good,
            bad=request.bad,
            request=request.model_dump(mode="json"),
        )
        for notice in plan.notices:
            journal.add_notice(notice)
        return cls(journal, plan.name, home)

    @classmethod
    def find(
        cls, name: str | None, *, sessions: sessionmaker[DatabaseSession], home: Home
    ) -> "StoredBisection":
        """One to go on with: by name, or the newest that is not finished. Raises `UserError`."""
        journal = Journal.find(sessions, name)
        if journal is None:
            raise UserError(
                f"--resume {name or ''}: expected a bisection in the store, found none"
                f"{'' if name else ' that is unfinished'}; see bisect-precision history"
            )
        row = journal.row()
        if row.outcome not in (None, Outcome.BUDGET):
            raise UserError(
                f"--resume {row.name}: expected an unfinished bisection, found one that ended ({row.outcome}); "
                f"see bisect-precision report {row.name}"
            )
        return cls(journal, row.name, home)

    @property
    def request(self) -> BisectRequest:
        """What was asked."""
        return BisectRequest.model_validate(self.journal.row().request)

    @contextmanager
    def lock(self) -> Generator[None]:
        """Held while driving. Raises `UserError` where another process drives this bisection."""
        self.directory.mkdir(parents=True, exist_ok=True)
        busy = UserError(
            f"bisection {self.name}: expected to be its only driver, found another process at it; wait for that one"
        )
        with ExitStack() as held:
            try:
                held.enter_context(FileLock(self.directory / "driver.lock", blocking=False))
            except Timeout as error:
                raise busy from error
            if not held.enter_context(self.journal.sole_driver()):
                raise busy
            yield

    def drive(self, progress: Progress, crew: CrewOptions) -> Conclusion:
        """Run it to its end, or to that of its budget. The caller holds the lock."""
        deadline = None if crew.budget is None else time.monotonic() + crew.budget
        with open_crew(self.request.stack, self._home, jobs=crew.jobs, backend=crew.backend) as workers:
            return self.drive_beside(Alone(), workers, progress, deadline=deadline)

    def drive_beside(
        self, company: Company, workers: Workers, progress: Progress, *, deadline: float | None = None
    ) -> Conclusion:
        """Run it as `company` lets it, or to a deadline (of `time.monotonic`). The caller holds the lock."""
        request = self.request
        if request.runtime_dir is not None:
            assert request.frozen_runtime_dir is not None
            freeze_runtime_dir(
                request.runtime_dir,
                request.frozen_runtime_dir,
                replayed_on=request.golden_data if request.replays else None,
            )
        workspace = Workspace(request.stack, self._home)
        content, revisions = _views(request, workspace)
        experiments = Experiments(
            request=request,
            journal=self.journal,
            crew=workers,
            revisions=revisions,
            content=content,
            directory=self.directory,
            progress=progress,
            deadline=deadline,
            company=company,
        )
        driver = Driver(
            request=request,
            journal=self.journal,
            experiments=experiments,
            workspace=workspace,
            content=content,
            revisions=revisions,
            home=self._home,
            progress=progress,
        )
        conclusion = driver.run()
        self.journal.conclude(conclusion.outcome, conclusion.model_dump(mode="json"))
        return conclusion


def open_crew(stack: Stack, home: Home, *, jobs: int, backend: Backend) -> Crew:
    """Workers of a stack, to be entered. Here they share the cores of one machine."""
    setup = Setup(
        stack=stack,
        home=home,
        variables=dict(os.environ),
        share=jobs if backend == "loky" else 1,
    )
    return Crew(setup, jobs=jobs, backend=backend)


def open_sessions(url: str) -> sessionmaker[DatabaseSession]:
    """The store. Raises `UserError`."""
    try:
        return open_store(url)
    except (StoreError, SQLAlchemyError) as error:
        raise UserError(str(error)) from error
