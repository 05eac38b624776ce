"""What is asked of a bisection: all that a resume needs, as it is kept in the store."""

import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Literal

from ...runner.case.case import CaseName
from ...runner.case.runtime_dir import replay_of
from ...runner.git.cherry_picks import CherryPick
from ...runner.stack.checkout import checkout_root
from ...runner.stack.stack import Stack
from ...runner.stack.templates import unfilled
from ...runner.workspace.inherited import InheritedVariables
from ...store.documents.document import Document
from ...store.vocabulary import Seeks
from ..commits.range import Range
from ..search.model.learned_rates import EarlierRuns, learned_rates
from ..search.model.rates import Rates
from .predicate import NOTHING_TO_RUN

_SYSTEM = ("/usr", "/bin", "/opt", "/dev")
"""Where programs lie that others have too."""
_RATES_OF_A_PERSON = Rates.known(good=0.0, bad=1.0)
"""What a person says is taken as certain."""


class BisectRequest(Document):
    """A question with its stack. `good` and `bad` are full commit ids of `repository`."""

    schema_version: Literal[1] = 1
    stack: Stack
    repository: str
    fixed: Mapping[str, str]
    """The commits of repositories that are neither searched nor pinned, as they were at the start."""
    frozen: Mapping[str, str] = {}
    """What frozen pins are held at, by repository, or by pin where what it names is outside of the stack."""
    good: str
    """Where it has to be found first: the root, behind which nothing is looked at."""
    bad: str
    also_old: tuple[str, ...] = ()
    """Commits that do as the old end does, as it was said: what they build on is no candidate."""
    replayed: int = 0
    """How many judgements of a log of git's count as they stand: they left the range to be searched."""
    parted: tuple[str, ...] = ()
    """What was named in place of the old end, and is no ancestor of the new one: the old end is their merge base."""
    skip: tuple[str, ...] = ()
    """Commits of `repository` that are never run."""
    paths: tuple[str, ...] = ()
    """Files and folders of `repository`, of which a candidate touches one; empty: all commits are candidates."""
    seeks: Seeks = Seeks.REGRESSION
    """A regression lies behind the good end and before the bad one, a fix the other way about."""
    gallop: Literal["commits", "days"] | None = None
    """The good end is looked for 1, 2, 4, ... of these before the bad one."""
    cherry_picks: tuple[CherryPick, ...] = ()
    """Of `repository`: what its commits are tested with in a stretch that does not build without."""
    case: str | None
    """None: the stack's command is the whole case, or the build directory is."""
    platform: str
    device: int
    bad_when: str | None
    """None: the case is a predicate command, and its exit code says."""
    golden_data: Path | None
    """Where frozen data come from; None: they are captured at the good end, where the case has any."""
    runtime_dir: Path | None = None
    """A build directory that every run uses in place of compiling the case."""
    frozen_runtime_dir: Path | None = None
    """Where its copy lies, once the bisection has begun."""
    interactive: bool = False
    """Whether a person runs the case, and judges."""
    typed: tuple[str, ...] = ()
    """The words that ask it again, without the name of the command; empty where nobody typed any."""
    folder: Path | None = None
    """Where they were typed."""
    first_parent: bool = False
    """Of merges only what was merged into is searched, not the branches."""
    commit_pages: Mapping[str, str] = {}
    """By repository: the address that a commit's id is put behind, where its remote shows commits in a browser."""
    timeout: float | None
    """Seconds for one run; None: ten times what the ends took."""
    confidence: float
    end_runs: int | None = None
    """How often each end is run before the search; None: once, and then as the search chooses."""
    earlier_runs: EarlierRuns | None = None
    """What the store knew of the case when the bisection began; None: nothing, or what counts as bad is no verdict."""
    output: Path
    inherited: InheritedVariables | None = None
    """Variables of the shell that reach the case, as they were at the start; None: begun before that was kept."""

    @property
    def range(self) -> Range:
        """Where the change lies; its old end is the root where a good end has to be looked for."""
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

    def is_of(self, checkout: Path) -> bool:
        """Whether it was asked in this checkout, or about it."""
        asked_in = [] if self.folder is None else [checkout_root(self.folder)]
        return checkout in (*asked_in, *(each.path for each in self.stack.repositories.values()))

    @property
    def rates(self) -> Rates:
        """The fail rates that the search begins from: as shipped, or as earlier runs have it; a person is certain."""
        if self.interactive:
            return _RATES_OF_A_PERSON
        shipped = Rates.unknown()
        return shipped if self.earlier_runs is None else learned_rates(shipped, self.earlier_runs)

    @property
    def says_bad(self) -> str | None:
        """What says that a run is bad, in words; None: the command's exit code."""
        return "a person says so" if self.interactive else self.bad_when

    @property
    def replays(self) -> bool:
        """Whether the build directory is itself the case."""
        return self.case is None and self.runtime_dir is not None

    @property
    def case_text(self) -> str:
        """How the case is named: a script with its arguments, a build directory, a command, or a person's judgement."""
        return case_text(self.case, self.runtime_dir, self.stack.case.command, interactive=self.interactive)

    @property
    def own_files(self) -> list[Path]:
        """The files of a command that are the asker's own, and nobody else has: those it names in full."""
        if self.case is not None or self.runtime_dir is not None:
            return []
        words = (Path(unfilled(word)) for word in self.stack.case.command)
        return [word for word in words if word.is_absolute() and not any(map(word.is_relative_to, _SYSTEM))]

    @property
    def script(self) -> CaseName | None:
        """What the stack's command for cases runs; None where that command is the whole case."""
        if self.case is not None:
            return CaseName.parse(self.case, self.stack)
        return replay_of(self.frozen_runtime_dir) if self.frozen_runtime_dir is not None else None

    @property
    def captures_golden(self) -> bool:
        """Whether golden data are to be saved at the good end."""
        case = self.stack.case
        return (
            self.golden_data is None
            and self.bad_when is not None
            and (case.harness or bool(case.flags.save_data))
        )


def case_text(
    case: str | None, runtime_dir: Path | str | None, command: Sequence[str], *, interactive: bool
) -> str:
    """How a case is named that is a script, else a build directory, else a command, else whatever a person runs."""
    if case is not None:
        return case
    if interactive and tuple(command) == NOTHING_TO_RUN:
        return "what a person runs"
    return shlex.join(map(unfilled, command)) if runtime_dir is None else str(runtime_dir)
