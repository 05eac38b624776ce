"""A question is checked against the checkouts, before anything is written."""

import secrets
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from ...runner.case.case import CaseName
from ...runner.case.runtime_dir import check_replayable, data_of
from ...runner.case.scene_tests import with_harness
from ...runner.errors import EndsError, UsageError
from ...runner.git.commit_pages import commit_page_prefix
from ...runner.git.overlays import OverlayReader, told_of_overlays
from ...runner.git.releases import told_of_releases, with_releases
from ...runner.git.renames.rules import with_renames
from ...runner.git.revisions import Revisions, fixed_revisions
from ...runner.git.submodule_pins import moved_submodules, pinned_submodules, with_submodule_pins
from ...runner.probe.bad_when import BadWhen
from ...runner.stack.stack import Stack
from ...runner.stack.templates import unfilled
from ...runner.workspace.home import Home
from ...runner.workspace.workspace import Workspace
from ...store.clock import now
from ...store.vocabulary import Seeks
from ..commits.load import load_range
from ..commits.range import LoadedRange
from .checks import check_checkouts, check_histories, checked_runtime_dir, told_of_renames
from .cherry_picks import held_cherry_picks, parse_cherry_picks
from .ends.command import check_command
from .ends.find import Ends, find_ends
from .ends.paths import paths_of_tree, told_of_paths
from .ends.skips import held_skips, skipped_commits, told_of_skips
from .ends.variables import variables_read
from .lacks import check_lacks, lacking_submodules
from .pins import frozen_values
from .question import Plan, Question, views
from .request import BisectRequest
from .typed import with_commits_held


@dataclass(frozen=True, kw_only=True)
class _Given:
    """What was named, checked by itself: the stack as it will be used, names, and folders of data."""

    stack: Stack
    repository: str
    platform: str
    golden_data: Path | None
    runtime_dir: Path | None


def prepare(question: Question, home: Home, *, step: Callable[[str], None] = lambda _: None) -> Plan:
    """Check a question against the checkouts, without writing anything. Raises `UserError`.

    `step` is told what is begun.
    """
    step("reading the checkouts")
    given = _given(question)
    given = replace(given, stack=with_releases(given.stack, home.releases))
    workspace = Workspace(given.stack, home)
    overlaid = dict[str, str]()
    if question.overlays:
        reader = OverlayReader(given.stack, workspace.repositories, workspace.clones, Path.cwd())
        given = replace(given, stack=reader.laid_over(question.overlays))
        overlaid = reader.held(question.overlays)
    given = replace(given, stack=with_renames(given.stack, question.adapt, workspace.repositories))
    check_histories(workspace, searched=given.repository)
    ends = find_ends(question, workspace.repositories[given.repository])
    stack, unfollowed = _with_submodules(question, given, ends, workspace)
    given, workspace = replace(given, stack=stack), Workspace(stack, home)
    overlays = given.stack.repositories[given.repository].overlays
    told_of_command = check_command(question, ends, workspace.repositories[given.repository], overlays)
    name = question.name or f"{now():%Y%m%d-%H%M%S}-{secrets.token_hex(2)}"
    request = _request(question, given, workspace, ends=ends, overlaid=overlaid, name=name, home=home)
    step("reading the commits between the ends")
    loaded = _loaded(request, workspace)
    request = request.model_copy(update={"inherited": variables_read(request, workspace)})
    replayed = [question.replayed.notice] if question.replayed else []
    notices = [
        *replayed,
        *ends.notices,
        *told_of_command,
        *told_of_paths(request, loaded),
        *told_of_skips(request),
    ]
    notices += [
        *told_of_releases(request.stack),
        *told_of_overlays(request.stack),
        *told_of_renames(request, workspace),
        *check_checkouts(request, workspace),
    ]
    step("looking for what the case needs at both ends")
    notices += [*lacking_submodules(request, workspace, loaded), *unfollowed]
    notices += check_lacks(request, workspace, views(request, workspace)[1])
    if request.runtime_dir is not None:
        notices.append(
            f"every run uses the build directory {request.runtime_dir} in place of compiling the case"
        )
    if variables := request.stack.case.variables:
        told = ", ".join(f"{name}={unfilled(text)}" for name, text in variables.items())
        notices.append(f"every run of the case has {told}")
    if after := request.stack.case.after:
        notices.append(
            f"every run of the case comes after {', '.join(after)} in one process; localization and --reduce run its "
            "build alone"
        )
    if request.replays:
        notices.append("outputs are compared with the tolerance that the harness takes by default")
    is_named = question.name is not None or question.output is not None
    return Plan(name=name, is_named=is_named, request=request, range=loaded, notices=tuple(notices))


def _given(question: Question) -> _Given:
    """Raises `UsageError` where something is named that is not there."""
    stack = question.stack
    searched = question.repository or stack.searched
    if searched not in stack.repositories:
        raise UsageError(f"--repo {searched}: expected one of {', '.join(sorted(stack.repositories))}")
    platform = question.platform or next(iter(stack.platforms))
    if platform not in stack.platforms:
        raise UsageError(f"--platform {platform}: expected one of {', '.join(sorted(stack.platforms))}")
    if question.bad_when is not None:
        BadWhen.parse(question.bad_when)
    if question.golden_data is not None and not question.golden_data.is_dir():
        raise UsageError(
            f"--golden-data {question.golden_data}: expected a folder with in/ and out/, found none"
        )
    runtime_dir = checked_runtime_dir(question, searched)
    golden_data = question.golden_data or (data_of(runtime_dir) if runtime_dir else None)
    given = _Given(
        stack=stack,
        repository=searched,
        platform=platform,
        golden_data=golden_data,
        runtime_dir=runtime_dir,
    )
    if runtime_dir is None or question.case is not None:
        return given
    if golden_data is None:
        raise UsageError(
            f"--runtime-dir {runtime_dir}: expected frozen data in its data/, found none; name it with "
            "--golden-data, or the case with --case"
        )
    check_replayable(runtime_dir, golden_data)
    return replace(given, stack=with_harness(stack))


def _with_submodules(
    question: Question, given: _Given, ends: Ends, workspace: Workspace
) -> tuple[Stack, list[str]]:
    """The stack with pins for the submodules that move in the range, where nothing is built from them; and a sentence
    for each that cannot be searched."""
    stack, name = given.stack, given.repository
    repository = workspace.repositories[name]
    if stack.steps or not stack.repositories[name].submodules or repository.is_bare:
        return stack, []
    old, new = (ends.good, ends.bad) if question.seeks is Seeks.REGRESSION else (ends.bad, ends.good)
    moved = (
        moved_submodules(repository.commits(good=old, bad=new))
        if question.good
        else pinned_submodules(repository, [new])  # the range is not known yet
    )
    besides = stack.pinned_folders(name)
    pinned = {path: commits for path, commits in moved.items() if path not in besides}
    return with_submodule_pins(stack, name, pinned, workspace.clones[name])


def _request(
    question: Question,
    given: _Given,
    workspace: Workspace,
    *,
    ends: Ends,
    overlaid: Mapping[str, str],
    name: str,
    home: Home,
) -> BisectRequest:
    """`overlaid`: what each `--overlay` with a revision stands for, in commit ids."""
    stack, searched = given.stack, given.repository
    fixed = fixed_revisions(stack, workspace.repositories, searched=searched)
    repository = workspace.repositories[searched]
    skips = held_skips(question.skip, repository)
    picks = parse_cherry_picks(question.cherry_picks, stack, searched, repository)
    return BisectRequest(
        stack=stack,
        repository=searched,
        fixed=fixed,
        frozen=frozen_values(
            stack, Revisions(stack, workspace.clones, fixed), searched=searched, bad=ends.bad
        ),
        good=ends.good,
        bad=ends.bad,
        also_old=ends.also_old,
        parted=ends.parted,
        paths=paths_of_tree(question.path, checkout=repository.path, here=Path.cwd()),
        skip=skipped_commits(skips, repository),
        cherry_picks=picks,
        replayed=question.replayed.judgements if question.replayed else 0,
        seeks=question.seeks,
        gallop=None if question.good else question.gallop,
        case=None if question.case is None else str(CaseName.parse(question.case, stack)),
        platform=given.platform,
        device=question.device,
        bad_when=question.bad_when,
        golden_data=given.golden_data.resolve() if given.golden_data else None,
        runtime_dir=given.runtime_dir,
        frozen_runtime_dir=home.bisections / name / "runtime-dir" if given.runtime_dir else None,
        interactive=question.interactive,
        typed=with_commits_held(
            question.typed,
            {
                "--good": ends.named,
                "--bad": ends.named,
                "--skip": skips,
                "--cherry-pick": held_cherry_picks(question.cherry_picks, picks),
                "--overlay": overlaid,
            },
        ),
        folder=Path.cwd(),
        first_parent=question.first_parent,
        commit_pages=_commit_pages(workspace),
        timeout=question.timeout,
        confidence=question.confidence,
        end_runs=question.end_runs,
        output=(question.output or Path(f"bisect-precision-{name}")).resolve(),
    )


def _commit_pages(workspace: Workspace) -> dict[str, str]:
    """Where the commits of each repository can be looked at, as far as its remote tells."""
    prefixes = {
        name: commit_page_prefix(repository.remote_url() or "")
        for name, repository in workspace.repositories.items()
    }
    return {name: prefix for name, prefix in prefixes.items() if prefix is not None}


def _loaded(request: BisectRequest, workspace: Workspace) -> LoadedRange | None:
    """The range that is asked about; None where its good end has to be looked for. Raises `EndsError` where no commit
    of it can change a result, `UserError` where an end pins what cannot be had."""
    content, revisions = views(request, workspace)
    searched = request.repository
    for end in (request.bad,) if request.gallop is not None else (request.good, request.bad):
        # A pinned commit that cannot be had is said now: without it no commit of the range could be told from another.
        content.of_revisions(revisions.complete({**request.frozen, searched: end}))
    if request.gallop is not None:
        return None
    where = request.range
    loaded = load_range(where, repository=workspace.clones[searched], content=content, revisions=revisions)
    if loaded is None and request.paths:
        raise EndsError(
            f"{where.old[:12]}..{where.new[:12]}: expected a commit that touches --path {' or '.join(request.paths)}, "
            "found none; name another path, or leave it out"
        )
    if loaded is None:
        raise EndsError(
            f"{where.old[:12]}..{where.new[:12]}: expected a commit that can change the result, found only changes in "
            f"ignored paths ({', '.join(request.stack.repositories[searched].ignore)})"
        )
    return loaded
