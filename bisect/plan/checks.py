"""What is wrong with a question is said before anything is built: its case, its build directory."""

from collections.abc import Iterator
from pathlib import Path

from ...runner.case.case import CaseName, predecessors
from ...runner.case.runtime_dir import check_runtime_dir
from ...runner.errors import UsageError, UserError
from ...runner.git.overlays import read_laid_over
from ...runner.git.renames.files import adapted_files
from ...runner.git.renames.rules import told_of_rename
from ...runner.workspace.workspace import Workspace
from .lacks import resembling_file
from .question import Question, views
from .request import BisectRequest


def checked_runtime_dir(question: Question, searched: str) -> Path | None:
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


def check_histories(workspace: Workspace, *, searched: str) -> None:
    """Raises `UserError` where a repository that a pin may lead into is a shallow clone: where lines of it parted could
    not be told. Of the one that is searched itself the commits between its ends are enough."""
    stack = workspace.stack
    looked_into = {stack.held_name(name) for name, pin in stack.pins.items() if pin.search} - {searched}
    for name in sorted(looked_into & workspace.repositories.keys()):
        repository = workspace.repositories[name]
        if repository.boundary:
            raise UserError(
                f"expected a whole history of {name} at {repository.path}, found a shallow clone; run: git -C "
                f"{repository.path} fetch --unshallow, or hold its pin with --freeze"
            )


def check_checkouts(request: BisectRequest, workspace: Workspace) -> list[str]:
    """Only commits are tested: say what of the checkouts will not be, and refuse where that is the case itself."""
    notices: list[str] = []
    for name, repository in workspace.repositories.items():
        on_disk = [over for over in request.stack.repositories[name].overlays if over.revision is None]
        changed = [
            path for path in repository.changed_files() if not any(over.covers(path) for over in on_disk)
        ]
        if not changed:
            continue
        stack = request.stack
        if request.case is not None and name == stack.case.repository:
            for script in (CaseName.parse(request.case, stack), *predecessors(stack)):
                if str(script.path) in changed:
                    raise UserError(
                        f"{repository.path / script.path}: expected the case as committed, found changes that no probe "
                        "would see; commit them first"
                    )
        more = f" and {len(changed) - 1} more" if len(changed) > 1 else ""
        notices.append(f"{repository.path}: uncommitted changes are not tested ({changed[0]}{more})")
    if request.case is not None:
        _check_exists(CaseName.parse(request.case, request.stack), request, workspace, option="--case")
        for predecessor in predecessors(request.stack):
            _check_exists(predecessor, request, workspace, option="--after")
    return notices


def told_of_renames(request: BisectRequest, workspace: Workspace) -> Iterator[str]:
    """Sentences for each rename, with the files that it changes at the ends."""
    stack, (_, revisions) = request.stack, views(request, workspace)
    named = {"bad": request.bad} if request.gallop is not None else {"good": request.good, "bad": request.bad}
    ends = {
        end: revisions.complete({**request.frozen, request.repository: sha}) for end, sha in named.items()
    }
    for rename in stack.renames:
        subject = workspace.repositories[rename.repository].commit(rename.commit).subject
        adapted = {end: [*adapted_files(workspace.clones, stack, rename, held)] for end, held in ends.items()}
        yield from told_of_rename(rename, subject, adapted)


def _check_exists(case: CaseName, request: BisectRequest, workspace: Workspace, *, option: str) -> None:
    name = request.stack.case.repository
    sha = request.fixed.get(name, request.bad if name == request.repository else None)
    repository, overlays = workspace.clones[name], request.stack.repositories[name].overlays
    if sha is not None and read_laid_over(repository, overlays, sha, str(case.path)) is None:
        raise UsageError(
            f"{option} {case.path}: expected a file of {workspace.repositories[name].path} at {sha[:12]}, found none"
            f"{resembling_file(repository, sha, case.path)}"
        )
