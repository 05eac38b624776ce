"""What is asked of a bisection, as the store keeps it: all that a resume needs.

`BisectRequest` is the central class. The other parts choose its stack and pins, check that its ends have what the case
needs, and print the command that asks it again.

`learn_rates` estimates the rates of failing before anything of the range runs. It has three levels, each the prior of
the next:

1. The shipped rates.
2. Other cases of the stack. They show how often a case, or a fault, is flaky at all.
3. Earlier runs of the case itself. Its commits that were taken for good show the rate of good commits. They also show
   whether outcomes belong to commits (the likelihood of `outcome_models.py`).

Another fault may fail less often. So earlier faults show only how often a fault fails in every run.
"""

import os
import shlex
import shutil
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from pathlib import Path, PurePosixPath
from typing import Any, ClassVar, Literal

import numpy as np
from sqlalchemy import make_url
from sqlalchemy.exc import ArgumentError

from ...runner.case.case import CaseName, predecessors
from ...runner.case.preflight import CaseImports, frozen_build_case, may_install
from ...runner.errors import UsageError, UserError
from ...runner.git import GITLINK, GitError, GitRepository
from ...runner.overlays import CherryPick
from ...runner.pins import PinReader, Revisions, Submodule, has_commit_in_pin, is_initialized, list_submodules
from ...runner.probe.judge import BadWhen, Crash
from ...runner.settings import check_trusted, checkout_root, load_stack, read_whole, stack_of_checkout
from ...runner.stack import Stack, display_text, is_plain_name, suggestion
from ...runner.workspace.environment import EnvironmentReader, InheritedVariables
from ...runner.workspace.home import command_line
from ...runner.workspace.slot import Workspace
from ...store.durable_files import Document, Upgrade
from ...store.vocabulary import Seeks
from ..history.questions import MovedPin, PinRecord
from ..history.range import LoadedRange, Range
from ..search.graph import Floats
from ..search.rates import Rates
from .predicate import PLACEHOLDER_COMMAND, predicate_stack

_FLOOR = 0.05
"""This share of the shipped rates always remains, so that nothing is ever excluded."""
_PRIOR_STRENGTH = 4.0
"""The previous level counts as this many cases or faults, so that a few measured ones do not outweigh it at once."""

_FITTING_ROUNDS = 20
"""The rows and columns of the rates are scaled in turn this many times. Fewer rounds leave the two shares inexact."""


@dataclass(frozen=True, kw_only=True)
class RunTally:
    """A number of commits, each of which had the same number of failures and passes."""

    failures: int
    passes: int
    commits: int


@dataclass(frozen=True, kw_only=True)
class FlakyShare:
    """The number of flaky cases or faults among all that were seen.

    A case is flaky if it failed at a commit that was taken for good. A fault is flaky if it passed at one taken for
    bad.
    """

    flaky: int = 0
    all: int = 0


@dataclass(frozen=True, kw_only=True)
class EarlierRuns:
    """What the store remembers of a case on its platform, and of the other cases of its stack.

    `good` are the commits of the case that were taken for good. `faults` are the earlier faults of the case.
    """

    good: tuple[RunTally, ...] = ()
    faults: FlakyShare = FlakyShare()
    other_cases: FlakyShare = FlakyShare()
    other_faults: FlakyShare = FlakyShare()


def learn_rates(shipped: Rates, earlier: EarlierRuns) -> Rates:
    """Return the rates that a search begins from.

    >>> passed = EarlierRuns(good=(RunTally(failures=0, passes=1, commits=400),))
    >>> before, after = Rates.unknown(), learn_rates(Rates.unknown(), passed)
    >>> bool(after.weight[0].sum() > before.weight[0].sum()), bool(after.weight[before.weight > 0].all())
    (True, True)
    """
    learned = _fit_shares(shipped, good=[earlier.other_cases], bad=[earlier.other_faults, earlier.faults])
    learned = _add_good_commits(learned, earlier.good)
    models = tuple(
        (model, (1 - _FLOOR) * weight + _FLOOR * before)
        for (model, weight), (_, before) in zip(learned.models, shipped.models, strict=True)
    )
    return replace(shipped, weight=(1 - _FLOOR) * learned.weight + _FLOOR * shipped.weight, models=models)


def _fit_shares(rates: Rates, *, good: Iterable[FlakyShare], bad: Iterable[FlakyShare]) -> Rates:
    """Return the rates with other chances that good commits never fail and that bad ones always do.

    All else stays in proportion.
    """
    never, always = (
        _posterior_share(float(rates.weight[0].sum()), good),
        _posterior_share(float(rates.weight[:, -1].sum()), bad),
    )
    weight = rates.weight
    for _ in range(_FITTING_ROUNDS):
        weight = _scale_row(weight.T, -1, always).T
        weight = _scale_row(weight, 0, never)
    return replace(rates, weight=weight)


def _posterior_share(share: float, levels: Iterable[FlakyShare]) -> float:
    """Return the share of cases that are not flaky, after more of them were seen: the mean of a Beta posterior."""
    for level in levels:
        share = (_PRIOR_STRENGTH * share + level.all - level.flaky) / (_PRIOR_STRENGTH + level.all)
    return share


def _scale_row(weight: Floats, row: int, share: float) -> Floats:
    """Return the weights with one row scaled to `share`, and the other rows to the rest."""
    others = np.ones(len(weight), dtype=np.bool_)
    others[row] = False
    scaled = weight.copy()
    scaled[row] *= share / weight[row].sum()
    scaled[others] *= (1 - share) / weight[others].sum()
    return scaled


def _add_good_commits(rates: Rates, good: Iterable[RunTally]) -> Rates:
    """Return the rates after the runs of commits that were taken for good."""
    tallies = [*good]
    logs = np.array(
        [
            sum(
                (
                    each.commits
                    * model.log_likelihood(rates.good, fails=float(each.failures), passes=float(each.passes))
                    for each in tallies
                ),
                start=np.zeros(len(rates.good)),
            )
            for model, _ in rates.models
        ]
    )
    of_models = np.array([weight for _, weight in rates.models])
    joint = of_models[:, None] * np.exp(logs - logs.max())
    weight = joint.sum(axis=0)[:, None] * rates.weight
    in_models = joint @ rates.weight.sum(axis=1)
    models = zip((model for model, _ in rates.models), (in_models / in_models.sum()).tolist(), strict=True)
    return replace(rates, weight=weight / weight.sum(), models=tuple(models))


REPORTS_FOLDER = "bisect-precision-reports"
"""The folder for reports that were given none. It lies in the folder where their bisections were asked."""
_SYSTEM_FOLDERS = ("/usr", "/bin", "/opt", "/dev")
"""These folders hold programs that other people have too."""
_PERSON_RATES = Rates.from_values(good=0.0, bad=1.0)
"""A person's answer is taken as certain."""


def _remove_choices(old: Mapping[str, Any]) -> dict[str, Any]:
    """Upgrades a request of version 1.

    It could say how often each end is run, and in which unit (commits, days) a good end is searched for.
    """
    kept = {key: value for key, value in old.items() if key != "end_runs"}
    return {**kept, "gallop": old.get("gallop") is not None}


class BisectRequest(Document):
    """A question with its stack. `good` and `bad` are full commit ids of `repository`."""

    upgrades: ClassVar[tuple[Upgrade, ...]] = (_remove_choices,)

    schema_version: Literal[2] = 2
    stack: Stack
    repository: str
    fixed: Mapping[str, str]
    """The commits, at the start, of repositories that are neither searched nor pinned."""
    frozen: Mapping[str, str] = {}
    """The values of frozen pins, by repository. A pin to something outside of the stack has its own name as the key."""
    good: str
    """The good end. Where it has to be found first, this is the root, and nothing before it is searched."""
    bad: str
    also_old: tuple[str, ...] = ()
    """Further commits that behave like the old end, according to the user. Their ancestors are no candidates."""
    replayed: int = 0
    """The number of judgements of a git bisect log that count without a run. They left the range to be searched."""
    parted: tuple[str, ...] = ()
    """The commits that were named as the old end but are no ancestors of the new one. The old end is their merge base.
    """
    skip: tuple[str, ...] = ()
    """Commits of `repository` that are never run."""
    paths: tuple[str, ...] = ()
    """Files and folders of `repository`. A candidate touches at least one. Without any, all commits are candidates."""
    seeks: Seeks = Seeks.REGRESSION
    """What is sought. A regression lies behind the good end and before the bad one; a fix lies the other way
    about."""
    gallop: bool = False
    """Whether a good end is searched for, 1, 2, 4, ... commits before the bad end."""
    cherry_picks: tuple[CherryPick, ...] = ()
    """Changes that commits of `repository` are tested with, in a stretch that does not build without them."""
    case: str | None
    """The case. Where it is None, the stack's command or the build directory is the whole case."""
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
    """The folder of the frozen data. Where it is None, they are captured at the good end if the case has any."""
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
    """Whether branches that were merged are left out. Of a merge only the first parent is followed."""
    commit_pages: Mapping[str, str] = {}
    """The address of each repository's commit pages. A commit's id is appended to it."""
    timeout: float | None
    """Seconds for one run. None means ten times as long as the ends took."""
    confidence: float
    reuses: tuple[str, ...] = ()
    """The bisections that asked the same before. Their runs of equal content count here too."""
    earlier_runs: EarlierRuns | None = None
    """What the store knew of the case at the start. None means that it knew nothing, or that what counts as bad
    is no verdict."""
    output: Path
    inherited: InheritedVariables | None = None
    """Variables of the shell that reached the case at the start. None means that the bisection began before they were
    kept."""

    @property
    def range(self) -> Range:
        """Return where the change lies. Its old end is the root where a good end has to be found first."""
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
        """Return the commits of the ends that were named, by `good` and `bad`. A good end that is searched for is
        none."""
        return {"bad": self.bad} if self.gallop else {"good": self.good, "bad": self.bad}

    def belongs_to(self, checkout: Path) -> bool:
        """Return whether it was asked in this checkout, or about it."""
        asked_in = [] if self.folder is None else [checkout_root(self.folder)]
        return checkout in (*asked_in, *(each.path for each in self.stack.repositories.values()))

    @property
    def rates(self) -> Rates:
        """Return the fail rates that the search begins from: as shipped, as learned from earlier runs, or certain for a
        person."""
        if self.interactive:
            return _PERSON_RATES
        shipped = Rates.unknown()
        return shipped if self.earlier_runs is None else learn_rates(shipped, self.earlier_runs)

    @property
    def is_command(self) -> bool:
        """Return whether a command behind `--` is judged."""
        return self.command or (self.bad_when is None and not self.interactive)

    @property
    def judging_rule(self) -> BadWhen:
        """Return the rule by which its runs are judged."""
        return BadWhen.parse(
            self.bad_when, good=self.good_when, command=self.is_command or self.interactive, crash=self.crash
        )

    @property
    def bad_criterion(self) -> str | None:
        """Return what makes a run bad, in words. None means the command's exit code."""
        return "a person says so" if self.interactive else self.bad_when

    @property
    def replays(self) -> bool:
        """Return whether the build directory is itself the case."""
        return self.case is None and self.runtime_dir is not None

    @property
    def case_text(self) -> str:
        """Return the name of the case: a script with its arguments, a build directory, a command, or a person's
        judgement."""
        return case_text(self.case, self.runtime_dir, self.stack.case.command, interactive=self.interactive)

    @property
    def own_files(self) -> list[Path]:
        """Return the user's own files that a command names by their full path. Nobody else has them."""
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
        """Return the script that the stack's command for cases runs. None means that this command is the whole case."""
        if self.case is not None:
            return CaseName.parse(self.case, self.stack)
        return frozen_build_case(self.frozen_runtime_dir) if self.frozen_runtime_dir is not None else None

    @property
    def captures_golden(self) -> bool:
        """Return whether golden data are to be saved at the good end."""
        case = self.stack.case
        return (
            self.golden_data is None
            and not (self.is_command or self.interactive)
            and (case.harness or bool(case.flags.save_data))
        )


def case_text(
    case: str | None, runtime_dir: Path | str | None, command: Sequence[str], *, interactive: bool
) -> str:
    """Return the name of a case: its script, else its build directory, its command, or whatever a person runs."""
    if case is not None:
        return case
    if interactive and tuple(command) == PLACEHOLDER_COMMAND:
        return "what a person runs"
    return shlex.join(map(display_text, command)) if runtime_dir is None else str(runtime_dir)


def check_requirements(
    request: BisectRequest, workspace: Workspace, revisions: Revisions, *, runs: bool = True
) -> list[str]:
    """Check that the ends have what the case needs. Return one sentence for each thing that may be missing.

    Raises `UserError` where something is certainly missing. Without `runs`, tools are only searched for, and an
    interpreter that the stack names is not asked what it can import.
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


def missing_submodules(
    request: BisectRequest, workspace: Workspace, loaded: LoadedRange | None
) -> Iterator[str]:
    """Yield a sentence for each submodule that commits of the range pin and the checkout does not have."""
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


def describe_missing_imports(
    stack: Stack, workspace: Workspace, case: CaseName, revisions: Mapping[str, str]
) -> str | None:
    """Describe what a case imports at some commits and the slots' interpreter lacks, and how to install it.

    Return None where nothing is missing. Raises `UserError` where there is no interpreter.
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


def suggest_file(repository: GitRepository, sha: str, path: PurePosixPath) -> str:
    """Return a question that suggests a file of a commit in place of a path that it does not have.

    The suggestion has the same name in another folder, or a similar name. Empty where there is none.
    """
    listed = repository.run("ls-tree", "-r", "-z", "--full-tree", "--name-only", sha).split("\0")
    alike = [each for each in listed if PurePosixPath(each).suffix == path.suffix]
    namesakes = [each for each in alike if PurePosixPath(each).name == path.name]
    return f": did you mean {min(namesakes, key=len)}?" if namesakes else suggestion(str(path), alike)


def overlay_option(
    repository: GitRepository, path: PurePosixPath, good: str, bad: str, at: str | None
) -> str | None:
    """Return the option that lays a file over all commits of a range, as it is at a commit or on disk.

    Return None where nothing else would be left to search, or where the option cannot name the file.
    """
    others = (":(top)", f":(top,exclude,literal){path}")
    if "@" in str(path) or not repository.run("rev-list", "--max-count=1", f"{good}..{bad}", "--", *others):
        return None
    return f"--overlay {shlex.quote(str(path) if at is None else f'{path}@{at[:12]}')}"


def _check_tools(stack: Stack, *, runs: bool) -> None:
    """Raises `UserError` where a tool is missing that the stack requires."""
    reader = EnvironmentReader(stack)
    for name, tool in stack.environment.tools.items():
        found = reader.version(tool) if runs else shutil.which(tool.command[0])
        if tool.required and found is None:
            hint = f": {tool.hint}" if tool.hint else ""
            raise UserError(
                f"tool {name}: expected {' '.join(tool.command)} to print a version, found that it is missing or "
                f"fails{hint}; bisect-precision doctor looks for more"
            )


def override_pins(stack: Stack, *, freeze: tuple[str, ...], search: tuple[str, ...]) -> Stack:
    """Return the stack with some pins frozen or searched, whatever its file says. Raises `UsageError`."""
    pins = dict(stack.pins)
    for option, names in (("--freeze", freeze), ("--search", search)):
        for name in names:
            if name not in pins:
                known = f"one of the pins {', '.join(sorted(pins))}" if pins else "no pin: the stack has none"
                raise UsageError(f"{option} {name}: expected {known}{suggestion(name, sorted(pins))}")
            if name in freeze and name in search:
                raise UsageError(f"--freeze {name} --search {name}: expected one of them, found both")
            pins[name] = pins[name].model_copy(update={"search": option == "--search"})
    return stack.model_copy(update={"pins": pins})


def frozen_values(stack: Stack, revisions: Revisions, *, searched: str, bad: str) -> dict[str, str]:
    """Return the values of frozen pins, by their names among revisions.

    A pin keeps its value at the bad end, so that this end stays as it failed. A pin without a value there is not
    frozen, and neither is one that pins the searched repository itself.
    """
    held: dict[str, str] = {}
    at_bad = revisions.complete({searched: bad})
    for name, pin in stack.pins.items():
        held_name = stack.revision_key(name)
        value = revisions.pins.value(name, at_bad[pin.holder]) if pin.holder in at_bad else None
        if not pin.search and held_name != searched and value is not None:
            held[held_name] = value
    return held


def pin_records(
    stack: Stack,
    pins: PinReader,
    *,
    good: Mapping[str, str],
    bad: Mapping[str, str],
    frozen: Mapping[str, str],
) -> tuple[PinRecord, ...]:
    """Return all pins of the stack, at the revisions of both ends."""
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
                told = (old_version, new_version) if old_version and new_version else None
                moved.append(MovedPin(path=pin.path, held_name=held_name, old=before, new=after, told=told))
    return moved


def pin_display_value(stack: Stack, name: str, value: str | None) -> str | None:
    """Return the value of a pin as people know it: a release by its version."""
    return None if value is None else stack.version_of(stack.revision_key(name), value) or value


DEFAULT_STACK_FILE = "stack.toml"
"""A stack file of this name is used in its folder where no stack is named."""


def select_stack(
    name: str | None, overrides: Mapping[str, Path], *, by_checkout: bool = True
) -> Stack | None:
    """Return the stack of this name or file.

    Without a name it is that of `stack.toml` in the current folder. Without that file, and with `by_checkout`, it is
    the stack whose checkout this is. Return None where there is none of these.

    Raises:
        UsageError: its file cannot be used, or was found here and not trusted.
    """
    if name is None and (found := Path(DEFAULT_STACK_FILE)).is_file():
        check_trusted(found, read_whole(found))
        name = DEFAULT_STACK_FILE
    if name is None and by_checkout:
        name = stack_of_checkout(checkout_root(Path.cwd()))
    return None if name is None else load_stack(name, overrides=overrides)


def repository_stack(overrides: Mapping[str, Path]) -> Stack:
    """Return a stack of the one repository that is named, else of the one around the current folder.

    Raises:
        UsageError: there is none, or there are several.
    """
    if len(overrides) > 1:
        raise UsageError(
            f"--repository: expected one where no stack is named, found {', '.join(overrides)}; name the stack of them "
            "all with --stack"
        )
    for name, path in overrides.items():
        if not is_plain_name(name):
            raise UsageError(f"--repository {name}={path}: expected a name of letters, digits, - and _")
        return predicate_stack(GitRepository.open_root(path, name=name).path, name=name)
    try:
        root = GitRepository(Path.cwd()).root
    except GitError as error:
        here = Path.cwd()
        if (
            git_folder := next((each for each in (here, *here.parents) if each.name == ".git"), None)
        ) is not None:
            raise UsageError(
                f"expected a git checkout, found the inside of {git_folder}: begin in {git_folder.parent}"
            ) from error
        raise UsageError(
            f"expected a git checkout, found none around {here}: begin in one, or name a stack with --stack, or "
            "one repository with --repository NAME=PATH"
        ) from error
    return predicate_stack(root)


_STORE = "--store"
_NAME = "--name"


CommitsByOption = Mapping[str, Mapping[str, str]]
"""Each option has the commit ids that its values stood for at the time."""


def replace_commit_names(words: Sequence[str], commits: CommitsByOption) -> tuple[str, ...]:
    """Return the words of a command with commit ids in place of names of commits, which may move on.

    The name of the bisection is left out, because it is taken. A password in the store's URL becomes `***`.
    """
    last = list(words).index("--") if "--" in words else len(words)
    held: list[str] = []
    for place, word in enumerate(words[:last]):
        name, equals, value = word.partition("=")
        before = words[place - 1] if place else ""
        if _NAME in (name, before):
            continue
        if equals and name in (*commits, _STORE):
            held.append(f"{name}={_repeatable_value(name, value, commits)}")
        else:
            held.append(_repeatable_value(before, word, commits))
    return (*held, *words[last:])


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
    """Return one shell line that begins the bisection again, from the folder where it was begun."""
    return f"cd {shlex.quote(folder)} && {command_line(['bisect-precision', *words])}"
