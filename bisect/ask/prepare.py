"""Checks a question against the checkouts, before anything is written, and makes a plan of it.

`prepare` goes through all steps in order. It resolves the ends, overlays, renames and cherry-picks, loads the range,
and collects what the user should know. What is wrong with a question is said here, before anything is built.
"""

import secrets
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from ...runner.case.case import CaseName, predecessors
from ...runner.case.preflight import add_harness, bundled_data, check_replayable, check_runtime_dir
from ...runner.errors import EndsError, UsageError, UserError
from ...runner.git import GitRepository, commit_page_prefix
from ...runner.overlays import CherryPick, OverlayReader, overlay_notices, read_effective_text
from ...runner.pins import (
    Revisions,
    add_submodule_pins,
    fixed_revisions,
    moved_submodules,
    pinned_submodules,
)
from ...runner.probe.judge import BadWhen
from ...runner.releases import add_releases, release_notices
from ...runner.renames import adapted_files, add_renames, describe_rename
from ...runner.stack import Stack, display_text
from ...runner.workspace.home import Home
from ...runner.workspace.slot import Workspace
from ...store.tables import now
from ...store.vocabulary import Commit, Seeks, plural
from ..history.loader import load_range
from ..history.range import LoadedRange
from .ends import (
    Ends,
    Plan,
    Question,
    check_command,
    content_and_revisions,
    find_ends,
    find_variables,
    path_notices,
    resolve_skips,
    skip_notices,
    skipped_commits,
    tree_paths,
)
from .question import (
    REPORTS_FOLDER,
    BisectRequest,
    check_requirements,
    frozen_values,
    missing_submodules,
    overlay_option,
    replace_commit_names,
    suggest_file,
)

_LFS_ATTRIBUTE = "filter=lfs"


def resolve_runtime_dir(question: Question, searched: str) -> Path | None:
    """Return the build directory to freeze.

    Raises `UsageError` where no case takes a build directory, or where it would leave nothing to search.
    """
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


def check_lists_releases(stack: Stack) -> None:
    """Raises `UsageError` where a program has to be run to know which releases there are."""
    for name, repository in stack.repositories.items():
        if repository.releases is not None and repository.releases.command:
            raise UsageError(
                f"repositories.{name}.releases.command: expected none beside --dry-run, which runs nothing; leave "
                "--dry-run out, or name the releases with versions or folder"
            )


def check_histories(workspace: Workspace, *, searched: str) -> None:
    """Raises `UserError` where a repository that a pin may lead into is a shallow clone.

    Without the whole history it is unknown where two lines of it diverged. The searched repository is not checked,
    because the commits between its ends are enough.
    """
    stack = workspace.stack
    looked_into = {stack.revision_key(name) for name, pin in stack.pins.items() if pin.search} - {searched}
    for name in sorted(looked_into & workspace.repositories.keys()):
        repository = workspace.repositories[name]
        if repository.shallow_commits:
            raise UserError(
                f"expected a whole history of {name} at {repository.path}, found a shallow clone; run: git -C "
                f"{repository.path} fetch --unshallow, or hold its pin with --freeze"
            )


def fetch_partial(workspace: Workspace, searched: str, *, good: str | None, bad: str) -> list[str]:
    """Fetch the objects of the commits between the ends that a partial clone lacks.

    Return a sentence on what was fetched, and one on what could not be. Objects of other repositories are fetched when
    these are checked out.
    """
    checkout = workspace.repositories[searched]
    if checkout.promisor is None:
        return []
    asked = [("--no-walk", bad)] if good is None else [("--no-walk", good, bad), (f"{good}...{bad}",)]
    found = [workspace.fetch_missing(searched, *revisions) for revisions in asked]
    fetched, missing = sum(each.fetched for each in found), {sha for each in found for sha in each.missing}
    notices: list[str] = []
    if fetched:
        notices.append(
            f"{checkout.path} is a partial clone: {plural(fetched, 'object')} of the range, which it had not, were "
            f"fetched from {checkout.promisor} for the runs; the checkout is left as it is"
        )
    if missing:
        why = next(each.reason for each in found if each.missing)
        notices.append(
            f"{checkout.path} lacks {plural(len(missing), 'object')} of the range, and {why}: a commit that needs one "
            "is skipped"
        )
    return notices


def content_notices(workspace: Workspace, searched: str, bad: str) -> Iterator[str]:
    """Yield one sentence for each thing that a person's git may show and runs do not see."""
    for repository in workspace.repositories.values():
        if repository.has_other_history:
            yield (
                f"{repository.path} has grafts or replace refs, which are not followed: a commit is the one that its "
                "id names"
            )
    clone, path = workspace.clones[searched], workspace.repositories[searched].path
    if _LFS_ATTRIBUTE in (clone.read_text(bad, ".gitattributes") or "") and not clone.has_lfs:
        yield f"{path} has files in Git LFS, which git is not set up for: runs see their pointers; run: git lfs install"


def check_checkouts(request: BisectRequest, workspace: Workspace) -> list[str]:
    """Return a sentence for each checkout with uncommitted changes, because only commits are tested.

    Raises `UserError` where the changed file is the case itself.
    """
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
        _check_case_exists(CaseName.parse(request.case, request.stack), request, workspace, option="--case")
        for predecessor in predecessors(request.stack):
            _check_case_exists(predecessor, request, workspace, option="--after")
    return notices


def rename_notices(request: BisectRequest, workspace: Workspace) -> Iterator[str]:
    """Yield sentences for each rename, with the files that it changes at the ends."""
    stack, (_, revisions) = request.stack, content_and_revisions(request, workspace)
    ends = {
        end: revisions.complete({**request.frozen, request.repository: sha})
        for end, sha in request.ends.items()
    }
    for rename in stack.renames:
        subject = workspace.repositories[rename.repository].commit(rename.commit).subject
        adapted = {end: [*adapted_files(workspace.clones, stack, rename, held)] for end, held in ends.items()}
        yield from describe_rename(rename, subject, adapted)


def _check_case_exists(case: CaseName, request: BisectRequest, workspace: Workspace, *, option: str) -> None:
    """Raises `UsageError` where an end has no such case, because no run of that end could be judged."""
    name = request.stack.case.repository
    named = request.ends
    if name != request.repository:
        named = {name: request.fixed[name]} if name in request.fixed else {}
    clone, overlays = workspace.clones[name], request.stack.repositories[name].overlays
    has = {
        sha: read_effective_text(clone, overlays, sha, str(case.path)) is not None for sha in named.values()
    }
    lacking = next((end for end, sha in named.items() if not has[sha]), None)
    if lacking is None:
        return
    sha, other = named[lacking], next((sha for sha, is_there in has.items() if is_there), None)
    if other is not None:
        overlay = overlay_option(clone, case.path, request.range.old, request.range.new, other)
        mend = "name another end" if overlay is None else f"lay it over every commit with {overlay}"
        raise UsageError(
            f"{option} {case.path}: expected it at both ends, found none at {lacking} {sha[:12]}; {mend}"
        )
    sha = [*named.values()][-1]  # the newest end also has files that were added since
    raise UsageError(
        f"{option} {case.path}: expected a file of {workspace.repositories[name].path} at {sha[:12]}, found none"
        f"{suggest_file(clone, sha, case.path)}"
    )


def parse_cherry_picks(
    texts: tuple[str, ...], stack: Stack, repository: str, git: GitRepository
) -> tuple[CherryPick, ...]:
    """Read `REV@A..B` options. Raises `UserError`."""
    return tuple(_parse_cherry_pick(text, stack, repository, git) for text in texts)


def cherry_pick_ids(texts: tuple[str, ...], picks: tuple[CherryPick, ...]) -> dict[str, str]:
    """Return each `REV@A..B` with the commit ids that it stands for."""
    return {text: f"{pick.commit}@{pick.old}..{pick.new}" for text, pick in zip(texts, picks, strict=True)}


def _parse_cherry_pick(text: str, stack: Stack, repository: str, git: GitRepository) -> CherryPick:
    """Return the parsed value `REV@A..B` of --cherry-pick. Raises `UsageError`."""
    option = f"--cherry-pick {text}"
    revision, _, stretch = text.rpartition("@")
    old, dots, new = stretch.partition("..")
    if not (revision and old and dots and new):
        raise UsageError(
            f"{option}: expected REV@A..B: the change of REV is made on top of the commits of A..B"
        )
    pick = CherryPick(
        commit=git.resolve(revision, option=option),
        old=git.resolve(old, option=option),
        new=git.resolve(new, option=option),
    )
    picked = git.commit(pick.commit)
    if len(picked.parents) != 1:
        raise UsageError(
            f"{option}: expected a commit with one parent, found {len(picked.parents)}: pick its parts"
        )
    pins = {path for pin in stack.pins.values() if pin.holder == repository for path in pin.paths}
    moved = sorted(pins.intersection(picked.files))
    if moved:
        raise UsageError(
            f"{option}: expected a commit that moves no pin, found {moved[0]} in it; hold the pin with --freeze"
        )
    if not git.run("rev-list", "--max-count=1", f"{pick.old}..{pick.new}", "--"):
        raise UsageError(f"{option}: expected commits in {old}..{new}, found none: the older end comes first")
    if git.is_ancestor(pick.commit, pick.new):
        raise UsageError(
            f"{option}: expected commits without the change of {revision}, found {new} to follow it"
        )
    return pick


@dataclass(frozen=True, kw_only=True)
class _PlanInputs:
    """What the question names, each part checked: the stack as it will be used, names, and folders of data."""

    stack: Stack
    repository: str
    platform: str
    golden_data: Path | None
    runtime_dir: Path | None


def prepare(
    question: Question, home: Home, *, step: Callable[[str], None] = lambda _: None, runs: bool = True
) -> Plan:
    """Check a question against the checkouts, without writing anything but the home's key. Raises `UserError`.

    `step` is called with what begins next. Without `runs`, no program that the stack names is started, and nothing is
    written.
    """
    step("reading the checkouts")
    given = _check_inputs(question)
    if not runs:
        check_lists_releases(given.stack)
    given = replace(given, stack=add_releases(given.stack, home.releases))
    workspace = Workspace(given.stack, home)
    given, overlaid = _apply_overlays(question, given, workspace)
    given = replace(given, stack=add_renames(given.stack, question.adapt, workspace.repositories))
    check_histories(workspace, searched=given.repository)
    ends = find_ends(question, workspace.repositories[given.repository])
    step("fetching what a partial clone has not")
    good = ends.good if question.good else None
    completed = fetch_partial(workspace, given.repository, good=good, bad=ends.bad)
    step("reading the commits between the ends")
    history = _read_history(question, ends, workspace.clones[given.repository]) if question.good else []
    stack, unfollowed = _pin_submodules(question, given, ends, workspace, history)
    given, workspace = replace(given, stack=stack), Workspace(stack, home)
    overlays = given.stack.repositories[given.repository].overlays
    told_of_command = check_command(question, ends, workspace.repositories[given.repository], overlays)
    name = question.name or f"{now():%Y%m%d-%H%M%S}-{secrets.token_hex(2)}"
    request = _make_request(question, given, workspace, ends=ends, overlaid=overlaid, name=name, home=home)
    loaded = _load_range(request, workspace, history)
    if runs:
        request = request.model_copy(update={"inherited": find_variables(request, workspace, home)})
    replayed = [question.replayed.notice] if question.replayed else []
    notices = [
        *replayed,
        *ends.notices,
        *told_of_command,
        *completed,
        *content_notices(workspace, given.repository, ends.bad),
        *path_notices(request, loaded),
        *skip_notices(request),
    ]
    notices += [
        *release_notices(request.stack),
        *overlay_notices(request.stack),
        *rename_notices(request, workspace),
        *check_checkouts(request, workspace),
    ]
    step("looking for what the case needs at both ends")
    notices += [*missing_submodules(request, workspace, loaded), *unfollowed]
    notices += check_requirements(request, workspace, content_and_revisions(request, workspace)[1], runs=runs)
    notices += _case_notices(request)
    is_named = question.name is not None or question.output is not None
    return Plan(name=name, is_named=is_named, request=request, range=loaded, notices=tuple(notices))


def _case_notices(request: BisectRequest) -> Iterator[str]:
    """Yield one sentence for each thing that every run of the case is given."""
    if request.runtime_dir is not None:
        yield f"every run uses the build directory {request.runtime_dir} in place of compiling the case"
    if variables := request.stack.case.variables:
        told = ", ".join(f"{name}={display_text(text)}" for name, text in variables.items())
        yield f"every run of the case has {told}"
    if after := request.stack.case.after:
        yield (
            f"every run of the case comes after {', '.join(after)} in one process; localization and --reduce run its "
            "build alone"
        )
    if request.replays:
        yield "outputs are compared with the tolerance that the harness takes by default"


def _check_inputs(question: Question) -> _PlanInputs:
    """Check the names and folders of the question. Raises `UsageError` where it names something that does not exist."""
    stack = question.stack
    searched = question.repository or stack.searched
    if searched not in stack.repositories:
        raise UsageError(f"--repo {searched}: expected one of {', '.join(sorted(stack.repositories))}")
    platform = question.platform or next(iter(stack.platforms))
    if platform not in stack.platforms:
        raise UsageError(f"--platform {platform}: expected one of {', '.join(sorted(stack.platforms))}")
    BadWhen.parse(question.bad_when, good=question.good_when, command=question.command is not None)
    if question.golden_data is not None and not question.golden_data.is_dir():
        raise UsageError(
            f"--golden-data {question.golden_data}: expected a folder with in/ and out/, found none"
        )
    runtime_dir = resolve_runtime_dir(question, searched)
    golden_data = question.golden_data or (bundled_data(runtime_dir) if runtime_dir else None)
    given = _PlanInputs(
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
    return replace(given, stack=add_harness(stack))


def _apply_overlays(
    question: Question, given: _PlanInputs, workspace: Workspace
) -> tuple[_PlanInputs, dict[str, str]]:
    """Lay overlays over every commit.

    Return the changed inputs, and the commit ids of each `--overlay` that names a revision.
    """
    if not question.overlays:
        return given, {}
    reader = OverlayReader(
        given.stack, workspace.repositories, workspace.clones, Path.cwd(), given.repository
    )
    stack = reader.apply_overlays(question.overlays)
    return replace(given, stack=stack), reader.resolve_revisions(question.overlays)


def _read_history(question: Question, ends: Ends, clone: GitRepository) -> list[Commit]:
    """Return the commits between the ends, parents before children."""
    old, new = (ends.good, ends.bad) if question.seeks is Seeks.REGRESSION else (ends.bad, ends.good)
    return clone.commits(good=old, bad=new, also_good=ends.also_old, first_parent=question.first_parent)


def _pin_submodules(
    question: Question, given: _PlanInputs, ends: Ends, workspace: Workspace, history: Sequence[Commit]
) -> tuple[Stack, list[str]]:
    """Return the stack with pins for the submodules that move in the range, where nothing is built from them.

    Also return a sentence for each submodule that cannot be searched.
    """
    stack, name = given.stack, given.repository
    repository = workspace.repositories[name]
    if stack.steps or not stack.repositories[name].submodules or repository.is_bare:
        return stack, []
    new = ends.bad if question.seeks is Seeks.REGRESSION else ends.good
    # Where the good end has to be found first, the range is not known yet.
    moved = moved_submodules(history) if question.good else pinned_submodules(repository, [new])
    besides = stack.submodule_paths(name)
    pinned = {path: commits for path, commits in moved.items() if path not in besides}
    return add_submodule_pins(stack, name, pinned, workspace.clones[name])


def _make_request(
    question: Question,
    given: _PlanInputs,
    workspace: Workspace,
    *,
    ends: Ends,
    overlaid: Mapping[str, str],
    name: str,
    home: Home,
) -> BisectRequest:
    """Return the request of a question.

    `overlaid` gives the commit ids of each `--overlay` that names a revision.
    """
    stack, searched = given.stack, given.repository
    fixed = fixed_revisions(stack, workspace.repositories, searched=searched)
    repository = workspace.repositories[searched]
    skips = resolve_skips(question.skip, repository)
    picks = parse_cherry_picks(question.cherry_picks, stack, searched, repository)
    patches = cherry_pick_ids(question.cherry_picks, picks)
    of_ends = {"--good": ends.named, "--bad": ends.named}
    held = {**of_ends, "--skip": skips, "--cherry-pick": patches, "--overlay": overlaid}
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
        paths=tree_paths(question.path, checkout=repository.path, here=Path.cwd()),
        skip=skipped_commits(skips, repository),
        cherry_picks=picks,
        replayed=question.replayed.judgements if question.replayed else 0,
        seeks=question.seeks,
        gallop=not question.good,
        case=None if question.case is None else str(CaseName.parse(question.case, stack)),
        platform=given.platform,
        device=question.device,
        bad_when=question.bad_when,
        good_when=question.good_when,
        crash=question.crash,
        command=question.command is not None and not question.interactive,
        golden_data=given.golden_data.resolve() if given.golden_data else None,
        runtime_dir=given.runtime_dir,
        frozen_runtime_dir=home.bisections / name / "runtime-dir" if given.runtime_dir else None,
        interactive=question.interactive,
        typed=replace_commit_names(question.typed, held),
        folder=Path.cwd(),
        first_parent=question.first_parent,
        commit_pages=_commit_pages(workspace),
        timeout=question.timeout,
        confidence=question.confidence,
        output=(question.output or Path(REPORTS_FOLDER) / name).resolve(),
    )


def _commit_pages(workspace: Workspace) -> dict[str, str]:
    """Return the address of each repository's commit pages, as far as its remote is known to have any."""
    prefixes = {
        name: commit_page_prefix(repository.remote_url() or "")
        for name, repository in workspace.repositories.items()
    }
    return {name: prefix for name, prefix in prefixes.items() if prefix is not None}


def _load_range(
    request: BisectRequest, workspace: Workspace, history: Sequence[Commit]
) -> LoadedRange | None:
    """Return the range that the question asks about, from its commits. It is None where its good end has to be found
    first.

    Raises `EndsError` where no commit of the range can change a result. Raises `UserError` where an end pins a commit
    that cannot be had.
    """
    content, revisions = content_and_revisions(request, workspace)
    searched = request.repository
    for end in request.ends.values():
        # Fail now where a pinned commit cannot be had: without it no two commits of the range could be distinguished.
        content.revisions_key(revisions.complete({**request.frozen, searched: end}))
    if request.gallop:
        return None
    where = request.range
    repository = workspace.clones[searched]
    loaded = load_range(where, history, repository=repository, content=content, revisions=revisions)
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
