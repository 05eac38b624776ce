"""An end that lacks a module or a tool, and a checkout that lacks a submodule, say so before minutes of building."""

import os
from collections.abc import Iterator, Mapping
from itertools import product
from pathlib import PurePosixPath

from ...runner.case.case import CaseName, predecessors
from ...runner.case.lacks import CaseImports, may_install
from ...runner.errors import UserError
from ...runner.git.repository import GITLINK, GitRepository
from ...runner.git.revisions import Revisions
from ...runner.git.submodule_pins import is_had_for_a_pin
from ...runner.git.submodules import Submodule, is_initialized, submodules_at
from ...runner.stack.complaints import suggestion
from ...runner.stack.stack import Stack
from ...runner.workspace.environment import EnvironmentReader
from ...runner.workspace.workspace import Workspace
from ..commits.range import LoadedRange
from .request import BisectRequest


def check_lacks(request: BisectRequest, workspace: Workspace, revisions: Revisions) -> list[str]:
    """What may be missing at an end, a sentence each. Raises `UserError` where something is for certain."""
    _check_tools(request.stack)
    sentences = [
        f"platform {request.platform} needs {name}, which is not set here: where it is not set, no run can be judged"
        for name in request.stack.platforms[request.platform].needs
        if not os.environ.get(name)
    ]
    ends = {"bad": request.bad} if request.gallop is not None else {"good": request.good, "bad": request.bad}
    if request.case is None:
        return sentences
    scripts = (*predecessors(request.stack), CaseName.parse(request.case, request.stack))
    for (end, sha), script in product(ends.items(), scripts):
        complete = revisions.complete({**request.frozen, request.repository: sha})
        lack = lack_of(request.stack, workspace, script, complete)
        if lack is None:
            continue
        sentence = f"{end} {sha[:12]}: {lack}"
        if not may_install(request.stack):
            raise UserError(sentence)
        if not any(lack in said for said in sentences):
            sentences.append(f"{sentence}, unless a step does")
    return sentences


def lacking_submodules(
    request: BisectRequest, workspace: Workspace, loaded: LoadedRange | None
) -> Iterator[str]:
    """What commits of the range pin of submodules and the checkout does not have, a sentence for each submodule."""
    name, stack = request.repository, request.stack
    if not stack.repositories[name].submodules:
        return
    commits = () if loaded is None else loaded.commits
    moving = [each.sha for each in commits if any(change.new_mode == GITLINK for change in each.changes)]
    missing: dict[str, tuple[Submodule, str]] = {}
    for sha in (request.bad, request.good, *moving):
        for each in submodules_at(workspace.clones[name], sha):
            if not (each.is_here or is_had_for_a_pin(each, name, stack, workspace.clones)):
                missing.setdefault(each.path, (each, sha))
    checkout = workspace.repositories[name]
    update = f"git -C {checkout.path} submodule update --init --recursive"
    for path, (submodule, sha) in missing.items():
        if is_initialized(checkout, submodule):
            fetch = f"git -C {checkout.path / path} fetch origin {submodule.commit}"
            yield (
                f"{path} is pinned at {submodule.commit[:12]} by {sha[:12]}, which is not in {checkout.path}: such a "
                f"commit cannot be tested; run: {fetch if (checkout.path / path / '.git').exists() else update}"
            )
        else:
            yield (
                f"{path} is a submodule that {checkout.path} has not initialized: it is empty in all "
                f"runs; run: {update}"
            )


def lack_of(stack: Stack, workspace: Workspace, case: CaseName, revisions: Mapping[str, str]) -> str | None:
    """What a case imports at some commits and the slots' interpreter lacks, and what mends that; None: nothing.

    Raises `UserError` where there is no interpreter.
    """
    if case.path.suffix != ".py" or case.path.is_absolute():
        return None
    at = {name: revisions[name] for name in stack.repositories if name in revisions}
    missing = CaseImports(stack, workspace.clones, at).missing(case)
    if not missing:
        return None
    python = (
        stack.environment.python or "the interpreter that runs this tool (environment.python names another)"
    )
    return (
        f"{case.path} imports what the environment lacks: {', '.join(map(str, missing))}; "
        f"install {' '.join(each.name for each in missing)} for {python}"
    )


def resembling_file(repository: GitRepository, sha: str, path: PurePosixPath) -> str:
    """A question for the file of a commit that a path which is none may mean: one of its name elsewhere, or of a name
    like its own; else nothing."""
    listed = repository.run("ls-tree", "-r", "-z", "--full-tree", "--name-only", sha).split("\0")
    alike = [each for each in listed if PurePosixPath(each).suffix == path.suffix]
    namesakes = [each for each in alike if PurePosixPath(each).name == path.name]
    return f": did you mean {min(namesakes, key=len)}?" if namesakes else suggestion(str(path), alike)


def _check_tools(stack: Stack) -> None:
    """Raises `UserError` where a tool is missing that the stack cannot do without."""
    reader = EnvironmentReader(stack)
    for name, tool in stack.environment.tools.items():
        if tool.required and reader.version(tool) is None:
            hint = f": {tool.hint}" if tool.hint else ""
            raise UserError(
                f"tool {name}: expected {' '.join(tool.command)} to print a version, found that it is missing or "
                f"fails{hint}; bisect-precision doctor looks for more"
            )
