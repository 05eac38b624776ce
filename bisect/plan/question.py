"""From the words of a command to a bisection that can be asked: all is checked before anything is written."""

import secrets
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from ...runner.case.case import CaseName
from ...runner.case.runtime_dir import check_replayable, check_runtime_dir, data_of
from ...runner.case.scene_tests import with_harness
from ...runner.errors import EndsError, UsageError, UserError
from ...runner.git.cherry_picks import CherryPicks
from ...runner.git.repository import GitRepository
from ...runner.git.revisions import Revisions, fixed_revisions
from ...runner.stack.stack import Stack
from ...runner.verdict.bad_when import BadWhen
from ...runner.workspace.content import StackContent
from ...runner.workspace.home import Home
from ...runner.workspace.workspace import Workspace
from ...store.clock import now
from ...store.vocabulary import Seeks
from ..commits.load import load_range
from ..commits.range import LoadedRange, Range
from .cherry_picks import parse_cherry_picks
from .pins import frozen_values
from .request import BisectRequest


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
    range: LoadedRange | None
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
    content, revisions = views(request, workspace)
    for end in (bad,) if question.good is None else (good, bad):
        # A pinned commit that cannot be had is said now: without it no commit of the range could be told from another.
        content.of_revisions(revisions.complete({**frozen, searched: end}))
    loaded = None
    if question.good is not None:
        loaded = load_range(
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
    if loaded is None and question.good is not None:
        raise EndsError(
            f"{old[:12]}..{new[:12]}: expected a commit that can change the result, found only changes in "
            f"ignored paths ({', '.join(stack.repositories[searched].ignore)})"
        )
    notices = _check_checkouts(request, workspace)
    if runtime_dir is not None:
        notices.append(f"every run uses the build directory {runtime_dir} in place of compiling the case")
    if request.replays:
        notices.append("outputs are compared with the tolerance that the harness takes by default")
    return Plan(name=name, request=request, range=loaded, notices=tuple(notices))


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


def views(request: BisectRequest, workspace: Workspace) -> tuple[StackContent, Revisions]:
    """What tells contents apart, and which commits belong together, as this request asks for."""
    content = StackContent(request.stack, workspace)
    name = request.repository
    picks = CherryPicks(request.cherry_picks, repository=name, git=workspace.clones[name])
    return content, Revisions(request.stack, workspace.clones, request.fixed, picks=picks)
