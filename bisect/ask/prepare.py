"""Checks a question against the checkouts, and turns it into a plan, before anything is built.

`prepare` does all steps in order. It resolves the ends, overlays, renames and cherry-picks, and loads the range.
`check_requirements` finds what the case needs and an end does not have. A check raises an error that says what is wrong
with the question, or returns notices for the user.
"""

import os
import secrets
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from pathlib import Path, PurePosixPath

from ...runner.case.case import CaseName, predecessors
from ...runner.case.preflight import (
    CaseImports,
    add_harness,
    bundled_data,
    check_replayable,
    check_runtime_dir,
    may_install,
)
from ...runner.errors import EndsError, UsageError, UserError, nearest_name
from ...runner.git import GITLINK, GitRepository, commit_page_prefix
from ...runner.overlays import CherryPick, OverlayReader, overlay_notices, read_effective_text
from ...runner.pins import (
    Revisions,
    Submodule,
    add_submodule_pins,
    fixed_revisions,
    has_commit_in_pin,
    is_initialized,
    list_submodules,
    moved_submodules,
    pinned_submodules,
)
from ...runner.probe.judge import JudgingRule
from ...runner.releases import add_releases, release_notices
from ...runner.renames import adapted_files, add_renames, describe_rename
from ...runner.stack import Stack, display_text
from ...runner.workspace.environment import EnvironmentReader
from ...runner.workspace.home import Home
from ...runner.workspace.slot import Workspace
from ...store.tables import now
from ...store.vocabulary import Commit, Seeks, plural
from ..history.loader import RangeHistory, load_range, read_history
from ..history.range import LoadedRange, Range
from .ends import (
    Ends,
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
    Plan,
    Question,
    frozen_values,
    overlay_option,
    replace_commit_names,
    suggest_file,
)


@dataclass(frozen=True, kw_only=True)
class _PlanInputs:
    """The checked parts of a question. `prepare` adds overlays, renames and pins to the stack."""

    stack: Stack
    repository: str
    platform: str
    golden_data: Path | None
    runtime_dir: Path | None


def prepare(
    question: Question, home: Home, *, step: Callable[[str], None] = lambda _: None, run_programs: bool = True
) -> Plan:
    """Check a question against the checkouts, and return a plan. Raises `UserError`.

    `step` is called with the name of each step as it begins. Without `run_programs`, only git runs, and no program that
    the stack names.

    No checkout is changed. The home gets private clones, fetched objects and the histories of releases. With
    `run_programs`, it also gets the key that hides the values of variables.
    """
    step("reading the checkouts")
    inputs = _check_inputs(question)
    if not run_programs:
        _check_no_release_command(inputs.stack)
    inputs = replace(inputs, stack=add_releases(inputs.stack, home.releases))
    workspace = Workspace(inputs.stack, home)
    inputs, overlay_commits = _apply_overlays(question, inputs, workspace)
    inputs = replace(inputs, stack=add_renames(inputs.stack, question.adapt, workspace.repositories))
    check_histories(workspace, searched=inputs.repository)
    ends = find_ends(question, workspace.repositories[inputs.repository])
    if workspace.repositories[inputs.repository].promisor is not None:
        step("fetching the objects that the partial clone lacks")
    good = ends.good if question.good else None
    fetch_notices = _fetch_missing_objects(workspace, inputs.repository, good=good, bad=ends.bad)
    step("reading the commits between the ends")
    history = _read_history(question, ends, workspace, inputs.repository) if question.good else None
    stack, submodule_notices = _pin_submodules(question, inputs, ends, workspace, history)
    inputs, workspace = replace(inputs, stack=stack), Workspace(stack, home)
    overlays = inputs.stack.repositories[inputs.repository].overlays
    command_notices = check_command(question, ends, workspace.repositories[inputs.repository], overlays)
    name = question.name or f"{now():%Y%m%d-%H%M%S}-{secrets.token_hex(2)}"
    request = _make_request(
        question, inputs, workspace, ends=ends, overlay_commits=overlay_commits, name=name, home=home
    )
    loaded = _load_range(request, workspace, history)
    if run_programs:
        request = request.model_copy(update={"inherited": find_variables(request, workspace, home)})
    notices = [
        *([question.replay_log.notice] if question.replay_log else []),
        *ends.notices,
        *command_notices,
        *fetch_notices,
        *_content_notices(workspace, inputs.repository, ends.bad),
        *path_notices(request.paths, loaded),
        *skip_notices(request),
        *release_notices(request.stack),
        *overlay_notices(request.stack),
        *_rename_notices(request, workspace),
        *_check_checkouts(request, workspace),
    ]
    step("looking for what the case needs at both ends")
    notices += [*_missing_submodules(request, workspace, loaded), *submodule_notices]
    notices += check_requirements(
        request, workspace, content_and_revisions(request, workspace)[1], runs=run_programs
    )
    notices += _case_notices(request)
    is_named = question.name is not None or question.output is not None
    return Plan(name=name, is_named=is_named, request=request, range=loaded, notices=tuple(notices))


def _check_inputs(question: Question) -> _PlanInputs:
    """Return the checked parts of a question. Raises `UsageError` where a name, a folder or a rule is wrong."""
    stack = question.stack
    searched = question.repository or stack.searched
    if searched not in stack.repositories:
        raise UsageError(f"--repo {searched}: expected one of {', '.join(sorted(stack.repositories))}")
    platform = question.platform or next(iter(stack.platforms))
    if platform not in stack.platforms:
        raise UsageError(f"--platform {platform}: expected one of {', '.join(sorted(stack.platforms))}")
    # This raises an error where the rules are invalid.
    JudgingRule.parse(question.bad_when, good=question.good_when, command=question.command is not None)
    if question.golden_data is not None and not question.golden_data.is_dir():
        raise UsageError(
            f"--golden-data {question.golden_data}: expected a folder with in/ and out/, found none"
        )
    runtime_dir = _resolve_runtime_dir(question, searched)
    golden_data = question.golden_data or (bundled_data(runtime_dir) if runtime_dir else None)
    inputs = _PlanInputs(
        stack=stack,
        repository=searched,
        platform=platform,
        golden_data=golden_data,
        runtime_dir=runtime_dir,
    )
    if runtime_dir is None or question.case is not None:
        return inputs
    if golden_data is None:
        raise UsageError(
            f"--runtime-dir {runtime_dir}: expected frozen data in its data/, found none; name it with "
            "--golden-data, or the case with --case"
        )
    check_replayable(runtime_dir, golden_data)
    return replace(inputs, stack=add_harness(stack))


def _resolve_runtime_dir(question: Question, searched: str) -> Path | None:
    """Return the build directory that every run uses. Return None where the question names none.

    Raises `UsageError` where the case takes no build directory, or where it replaces what `searched` would build.
    """
    if question.runtime_dir is None:
        return None
    case = question.stack.case
    takes_build_directory = bool(case.flags.runtime_dir) if question.case is not None else case.scene_tests
    if not (case.harness or takes_build_directory):
        hint = "; leave --case out: the build directory is the case" if case.scene_tests else ""
        raise UsageError(
            f"--runtime-dir {question.runtime_dir}: expected a case that takes a build directory "
            f"(case.flags.runtime_dir in the stack file), found none in stack {question.stack.name}{hint}"
        )
    if searched == question.stack.searched and not case.scene_tests:
        raise UsageError(
            f"--runtime-dir {question.runtime_dir}: expected --repo to name a repository other than {searched}, "
            f"because the build directory replaces what {searched} would build"
        )
    return check_runtime_dir(question.runtime_dir)


def _check_no_release_command(stack: Stack) -> None:
    """Raise `UsageError` where a command of the stack would have to list the releases of a repository."""
    for name, repository in stack.repositories.items():
        if repository.releases is not None and repository.releases.command:
            raise UsageError(
                f"repositories.{name}.releases.command: expected none beside --dry-run, which runs nothing; leave "
                "--dry-run out, or name the releases with versions or folder"
            )


def check_histories(workspace: Workspace, *, searched: str) -> None:
    """Raise `UserError` where a repository whose pin may be searched is a shallow clone.

    Without the whole history it is unknown where two branches diverged. The searched repository needs only the commits
    between its ends.
    """
    stack = workspace.stack
    searchable = {stack.revision_key(name) for name, pin in stack.pins.items() if pin.search} - {searched}
    for name in sorted(searchable & workspace.repositories.keys()):
        repository = workspace.repositories[name]
        if repository.shallow_commits:
            raise UserError(
                f"expected a whole history of {name} at {repository.path}, found a shallow clone; run: git -C "
                f"{repository.path} fetch --unshallow, or hold its pin with --freeze"
            )


def _apply_overlays(
    question: Question, inputs: _PlanInputs, workspace: Workspace
) -> tuple[_PlanInputs, dict[str, str]]:
    """Return the inputs with the overlays of the question, and each `--overlay PATH@REV` with its commit id."""
    if not question.overlays:
        return inputs, {}
    reader = OverlayReader(
        inputs.stack, workspace.repositories, workspace.clones, Path.cwd(), inputs.repository
    )
    stack = reader.apply_overlays(question.overlays)
    return replace(inputs, stack=stack), reader.resolve_revisions(question.overlays)


def _fetch_missing_objects(workspace: Workspace, searched: str, *, good: str | None, bad: str) -> list[str]:
    """Fetch the objects that a partial clone of the searched repository lacks between the ends.

    Return a sentence on the fetched objects, and one on objects that could not be fetched.
    """
    checkout = workspace.repositories[searched]
    if checkout.promisor is None:
        return []
    selections = [("--no-walk", bad)] if good is None else [("--no-walk", good, bad), (f"{good}...{bad}",)]
    found = [workspace.fetch_missing(searched, *revisions) for revisions in selections]
    fetched = sum(each.fetched for each in found)
    missing = {sha for each in found for sha in each.missing}
    notices: list[str] = []
    if fetched:
        notices.append(
            f"{checkout.path} is a partial clone: {plural(fetched, 'object')} of the range were missing and "
            f"were fetched from {checkout.promisor} for the runs; the checkout is unchanged"
        )
    if missing:
        reason = next(each.reason for each in found if each.missing)
        notices.append(
            f"{checkout.path} lacks {plural(len(missing), 'object')} of the range, and {reason}: a commit that "
            "needs one is skipped"
        )
    return notices


def _read_history(question: Question, ends: Ends, workspace: Workspace, searched: str) -> RangeHistory:
    """Return the commits between the ends, or their outline where they are too many."""
    old, new = (ends.good, ends.bad) if question.seeks is Seeks.REGRESSION else (ends.bad, ends.good)
    where = Range(
        repository=searched,
        old=old,
        new=new,
        held={},
        also_old=ends.also_old,
        first_parent=question.first_parent,
    )
    whole = bool(question.path or question.skip or question.cherry_picks)
    return read_history(where, workspace.clones[searched], whole=whole)


def _pin_submodules(
    question: Question, inputs: _PlanInputs, ends: Ends, workspace: Workspace, history: RangeHistory | None
) -> tuple[Stack, list[str]]:
    """Return the stack with a pin for each submodule that moves in the range, and notices.

    Where the range is not known yet, or not read as a whole, all submodules of its ends get one. There is a notice for
    each submodule that cannot be searched. A stack with build steps lists its own pins.
    """
    stack, name = inputs.stack, inputs.repository
    is_bare, clone = workspace.repositories[name].is_bare, workspace.clones[name]
    if stack.steps or not stack.repositories[name].submodules or is_bare:
        return stack, []
    if history is None:
        moved = pinned_submodules(clone, [ends.bad if question.seeks is Seeks.REGRESSION else ends.good])
    elif history.commits is None:
        moved = pinned_submodules(clone, [ends.good, ends.bad])
    else:
        moved = moved_submodules(history.commits)
    listed = stack.submodule_paths(name)
    pinned = {path: commits for path, commits in moved.items() if path not in listed}
    return add_submodule_pins(stack, name, pinned, clone)


def _make_request(
    question: Question,
    inputs: _PlanInputs,
    workspace: Workspace,
    *,
    ends: Ends,
    overlay_commits: Mapping[str, str],
    name: str,
    home: Home,
) -> BisectRequest:
    """Return the request of a question. `overlay_commits` are those that `_apply_overlays` returned."""
    stack, searched = inputs.stack, inputs.repository
    fixed = fixed_revisions(stack, workspace.repositories, searched=searched)
    repository = workspace.repositories[searched]
    skips = resolve_skips(question.skip, repository)
    picks = {text: _parse_cherry_pick(text, stack, searched, repository) for text in question.cherry_picks}
    commits_by_option = {
        "--good": ends.commit_names,
        "--bad": ends.commit_names,
        "--skip": skips,
        "--cherry-pick": {text: f"{pick.commit}@{pick.old}..{pick.new}" for text, pick in picks.items()},
        "--overlay": overlay_commits,
    }
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
        cherry_picks=tuple(picks.values()),
        replayed=question.replay_log.judgements if question.replay_log else 0,
        seeks=question.seeks,
        gallop=not question.good,
        case=None if question.case is None else str(CaseName.parse(question.case, stack)),
        platform=inputs.platform,
        device=question.device,
        bad_when=question.bad_when,
        good_when=question.good_when,
        crash=question.crash,
        command=question.command is not None and not question.interactive,
        golden_data=inputs.golden_data.resolve() if inputs.golden_data else None,
        runtime_dir=inputs.runtime_dir,
        frozen_runtime_dir=home.bisections / name / "runtime-dir" if inputs.runtime_dir else None,
        interactive=question.interactive,
        typed=replace_commit_names(question.typed, commits_by_option),
        folder=Path.cwd(),
        first_parent=question.first_parent,
        commit_pages=_commit_pages(workspace),
        timeout=question.timeout,
        confidence=question.confidence,
        output=_report_folder(question.output, name),
    )


def _parse_cherry_pick(text: str, stack: Stack, repository: str, git: GitRepository) -> CherryPick:
    """Return the change that a value `REV@A..B` names. Raises `UsageError`."""
    option = f"--cherry-pick {text}"
    revision, _, commit_range = text.rpartition("@")
    old, dots, new = commit_range.partition("..")
    if not (revision and old and dots and new):
        raise UsageError(f"{option}: expected REV@A..B: REV is picked on top of each commit of A..B")
    pick = CherryPick(
        commit=git.resolve(revision, option=option),
        old=git.resolve(old, option=option),
        new=git.resolve(new, option=option),
    )
    picked = git.commit(pick.commit)
    if len(picked.parents) != 1:
        raise UsageError(
            f"{option}: expected a commit with one parent, found {len(picked.parents)} parents; pick "
            "single commits instead"
        )
    pins = {path for pin in stack.pins.values() if pin.holder == repository for path in pin.paths}
    moved = sorted(pins.intersection(picked.files))
    if moved:
        raise UsageError(
            f"{option}: expected a commit that moves no pin, found {moved[0]} in it; hold the pin with --freeze"
        )
    if not git.run("rev-list", "--max-count=1", f"{pick.old}..{pick.new}", "--"):
        raise UsageError(f"{option}: expected commits in {old}..{new}, found none; name the older end first")
    if git.is_ancestor(pick.commit, pick.new):
        raise UsageError(
            f"{option}: expected commits that lack the change of {revision}, found {new}, which contains it"
        )
    return pick


def _report_folder(output: Path | None, name: str) -> Path:
    """Return the folder that was typed, or one below `REPORTS_FOLDER`.

    Raises `UsageError` where `REPORTS_FOLDER` is a link. A commit can add one, and reports would go to its target.
    """
    reports = Path(REPORTS_FOLDER)
    if output is None and reports.is_symlink():
        raise UsageError(
            f"{REPORTS_FOLDER}: expected a folder for reports, found a link to {reports.readlink()}; remove it, or "
            "name the place with --output"
        )
    return (output or reports / name).resolve()


def _commit_pages(workspace: Workspace) -> dict[str, str]:
    """Return the address prefix of commit pages for each repository whose remote is known to have them."""
    prefixes = {
        name: commit_page_prefix(repository.remote_url() or "")
        for name, repository in workspace.repositories.items()
    }
    return {name: prefix for name, prefix in prefixes.items() if prefix is not None}


def _load_range(
    request: BisectRequest, workspace: Workspace, history: RangeHistory | None
) -> LoadedRange | None:
    """Return the range that the question asks about. Return None where the good end has to be found first.

    Raises `EndsError` where no commit of the range can change a result. Raises `UserError` where an end pins a commit
    that is not available.
    """
    content, revisions = content_and_revisions(request, workspace)
    searched = request.repository
    for end in request.ends.values():
        # This raises an error where a pinned commit is not available. No two commits could be distinguished without it.
        content.revisions_key(revisions.complete({**request.frozen, searched: end}))
    if history is None:
        return None
    search_range = request.range
    loaded = load_range(search_range, history, content=content, revisions=revisions)
    if loaded is None and request.paths:
        raise EndsError(
            f"{search_range.old[:12]}..{search_range.new[:12]}: expected a commit that touches "
            f"--path {' or '.join(request.paths)}, found none; {_path_advice(request.paths, history.commits or ())}"
        )
    if loaded is None:
        raise EndsError(
            f"{search_range.old[:12]}..{search_range.new[:12]}: expected a commit that can change the result, found "
            f"only changes in ignored paths ({', '.join(request.stack.repositories[searched].ignore)})"
        )
    return loaded


def _path_advice(paths: Sequence[str], history: Sequence[Commit]) -> str:
    """Return what to name in place of paths that no commit touches: the most similar path that one touches."""
    touched = {PurePosixPath(change.path) for commit in history for change in commit.changes}
    known = [str(each) for each in touched.union(*(path.parents for path in touched))]
    near = next(filter(None, (nearest_name(path, known) for path in paths)), None)
    return "name another path, or leave it out" if near is None else f"did you mean {near}?"


_LFS_ATTRIBUTE = "filter=lfs"


def _content_notices(workspace: Workspace, searched: str, bad: str) -> Iterator[str]:
    """Yield a sentence for each difference between what the user's git shows and what runs see."""
    for repository in workspace.repositories.values():
        if repository.has_other_history:
            yield (
                f"{repository.path} has grafts or replace refs, which are not followed: runs use the commits "
                "without them"
            )
    clone, path = workspace.clones[searched], workspace.repositories[searched].path
    if _LFS_ATTRIBUTE in (clone.read_text(bad, ".gitattributes") or "") and not clone.has_lfs:
        yield f"{path} has files in Git LFS, but git is not set up for it: runs see only pointers; run: git lfs install"


def _rename_notices(request: BisectRequest, workspace: Workspace) -> Iterator[str]:
    """Yield sentences on each rename, with the files that it adapts at the ends."""
    stack, (_, revisions) = request.stack, content_and_revisions(request, workspace)
    revisions_by_end = {
        end: revisions.complete({**request.frozen, request.repository: sha})
        for end, sha in request.ends.items()
    }
    for rename in stack.renames:
        subject = workspace.repositories[rename.repository].commit(rename.commit).subject
        adapted = {
            end: [*adapted_files(workspace.clones, stack, rename, at_end)]
            for end, at_end in revisions_by_end.items()
        }
        yield from describe_rename(rename, subject, adapted)


def _check_checkouts(request: BisectRequest, workspace: Workspace) -> list[str]:
    """Return a sentence for each checkout with uncommitted changes, which are not tested.

    Raises `UserError` where the case, or a case that runs before it, has such changes. Raises `UsageError` where an end
    does not have the case.
    """
    notices: list[str] = []
    own_files = frozenset(request.own_files)
    for name, repository in workspace.repositories.items():
        on_disk = [
            overlay for overlay in request.stack.repositories[name].overlays if overlay.revision is None
        ]
        changed = [
            path
            for path in repository.changed_files()
            # Each commit runs with the overlays, and with the user's own files that the command names.
            if not any(overlay.covers(path) for overlay in on_disk)
            and repository.path / path not in own_files
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


def _check_case_exists(case: CaseName, request: BisectRequest, workspace: Workspace, *, option: str) -> None:
    """Raise `UsageError` where an end does not have the case. `option` is the one that names it."""
    name = request.stack.case.repository
    shas = request.ends
    if name != request.repository:
        shas = {name: request.fixed[name]} if name in request.fixed else {}
    clone, overlays = workspace.clones[name], request.stack.repositories[name].overlays
    has = {
        sha: read_effective_text(clone, overlays, sha, str(case.path)) is not None for sha in shas.values()
    }
    lacking = next((end for end, sha in shas.items() if not has[sha]), None)
    if lacking is None:
        return
    sha, other = shas[lacking], next((sha for sha, is_there in has.items() if is_there), None)
    if other is not None:
        overlay = overlay_option(clone, case.path, request.range.old, request.range.new, other)
        remedy = "name another end" if overlay is None else f"lay it over every commit with {overlay}"
        raise UsageError(
            f"{option} {case.path}: expected it at both ends, found none at {lacking} {sha[:12]}; {remedy}"
        )
    sha = [*shas.values()][-1]  # the newest end also has files that were added since
    raise UsageError(
        f"{option} {case.path}: expected a file of {workspace.repositories[name].path} at {sha[:12]}, found none"
        f"{suggest_file(clone, sha, case.path)}"
    )


def _missing_submodules(
    request: BisectRequest, workspace: Workspace, loaded: LoadedRange | None
) -> Iterator[str]:
    """Yield a sentence for each submodule commit that the range pins and the checkout does not have."""
    name, stack = request.repository, request.stack
    if not stack.repositories[name].submodules:
        return
    commits = () if loaded is None else loaded.commits
    moving = [each.sha for each in commits if any(change.new_mode == GITLINK for change in each.changes)]
    missing: dict[str, tuple[Submodule, str]] = {}
    for sha in (request.bad, request.good, *moving):
        for each in list_submodules(workspace.clones[name], sha):
            if not (each.is_here or has_commit_in_pin(each, name, stack, workspace.clones)):
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


def check_requirements(
    request: BisectRequest, workspace: Workspace, revisions: Revisions, *, runs: bool = True
) -> list[str]:
    """Return a sentence for each thing that may be missing at an end for the case.

    Raises `UserError` where something is certainly missing. `runs` says that programs of the stack may run. Without it,
    tools are only searched for, and the stack's interpreter is not asked what it can import.
    """
    _check_tools(request.stack, runs=runs)
    sentences = [
        f"platform {request.platform} needs {name}, which is not set here: where it is not set, no run can be judged"
        for name in request.stack.platforms[request.platform].needs
        if not os.environ.get(name)
    ]
    if request.case is None:
        return sentences
    if not runs and request.stack.environment.python is not None:
        return [*sentences, "what the case imports was not looked for, which would run environment.python"]
    scripts = (*predecessors(request.stack), CaseName.parse(request.case, request.stack))
    for (end, sha), script in product(request.ends.items(), scripts):
        complete = revisions.complete({**request.frozen, request.repository: sha})
        lack = describe_missing_imports(request.stack, workspace, script, complete)
        if lack is None:
            continue
        sentence = f"{end} {sha[:12]}: {lack}"
        if not may_install(request.stack):
            raise UserError(sentence)
        if not any(lack in said for said in sentences):
            sentences.append(f"{sentence}, unless a step does")
    return sentences


def _check_tools(stack: Stack, *, runs: bool) -> None:
    """Raise `UserError` where a tool is missing that the stack requires."""
    reader = EnvironmentReader(stack)
    for name, tool in stack.environment.tools.items():
        found = reader.version(tool) if runs else shutil.which(tool.command[0])
        if tool.required and found is None:
            hint = f": {tool.hint}" if tool.hint else ""
            raise UserError(
                f"tool {name}: expected {' '.join(tool.command)} to print a version, found that it is missing or "
                f"fails{hint}; bisect-precision doctor looks for more"
            )


def describe_missing_imports(
    stack: Stack, workspace: Workspace, case: CaseName, revisions: Mapping[str, str]
) -> str | None:
    """Return a sentence on what a case imports and the slots' interpreter does not have, and how to install it.

    `revisions` are the commits of the repositories. Return None where nothing is missing. Raises `UserError` where
    there is no interpreter.
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


def _case_notices(request: BisectRequest) -> Iterator[str]:
    """Yield a sentence for each setting that applies to every run of the case."""
    if request.runtime_dir is not None:
        yield f"every run uses the build directory {request.runtime_dir} in place of compiling the case"
    if variables := request.stack.case.variables:
        assignments = ", ".join(f"{name}={display_text(text)}" for name, text in variables.items())
        yield f"every run of the case has {assignments}"
    if after := request.stack.case.after:
        yield (
            f"every run of the case comes after {', '.join(after)} in one process; localization and --reduce run its "
            "build alone"
        )
    if request.replays:
        yield "outputs are compared with the default tolerance of the harness"
