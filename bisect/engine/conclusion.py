"""The conclusion of a bisection, as the store keeps it and reports print it."""

from typing import Literal

from ...runner.commit_diff import CommitDiff
from ...runner.localization import Localization
from ...runner.stack import Model
from ...store.documents import Document
from ...store.vocabulary import BisectionOutcome, Judgement

Blame = Literal["submodule", "version", "superproject", "interaction", "either", "unknown"]


class NamedCommit(Model):
    """A commit that is named. `confidence` is the posterior probability that it made the change, after confirmation."""

    repository: str
    commit: str
    parent: str | None
    """Its first parent, which was run beside it."""
    confidence: float | None
    merge: bool
    """Whether it has several parents. None of these fails by itself: what it merges interacts."""
    version: str | None = None
    """The release that it stands for."""
    under: str | None = None
    """The perturbation under which it was found. Under it the commit fails in every run."""


class Counterfactual(Model):
    """Whether a pin that the culprit moves is to blame, by the 2 x 2 of the pin and the commit that holds it.

    `repository` is the pinned repository of the stack. For another pin, it is the pin's own name. The blame for such a
    pin is "version", because it has no history to search.
    """

    pin: str
    repository: str
    old: str
    new: str
    new_holder_old_target: Judgement
    old_holder_new_target: Judgement
    blame: Blame
    told: tuple[str, str] | None = None
    """The old and the new version as people know them, where the two stand for releases."""

    @property
    def move(self) -> str:
        """Return the move of the pin, from the old value to the new one."""
        old, new = self.told or (self.old[:12], self.new[:12])
        return f"from {old} to {new}"


YardstickBlame = Literal["yardstick", "other change", "both together", "either", "unknown"]


class YardstickTest(Model):
    """Whether the culprit's change of how its case measures is to blame.

    The culprit is run as its parent measures, and the parent as the culprit measures.
    """

    changes: tuple[str, ...]
    """Each difference as one phrase, with file and line."""
    new_with_old: Judgement
    old_with_new: Judgement
    blame: YardstickBlame


class LayerCell(Model):
    """The judgement of the case with some layers new and the others old."""

    new: tuple[str, ...]
    judgement: Judgement


class MovedLayers(Model):
    """The layers that a commit moves at once, which are its own change and several pins, and their joint effect.

    `least` are the smallest sets of layers that made the difference when only they were new. If it is not `proven`,
    some cells were not run, because they most likely cannot be built. These may show other sets.
    """

    layers: tuple[str, ...]
    """The repository of the commit comes first and stands for its own change. What the pins hold follows."""
    cells: tuple[LayerCell, ...]
    """The cells that were run, without the two ends: all old (the parent) and all new (the commit)."""
    least: tuple[tuple[str, ...], ...]
    proven: bool


class NoCommit(Model):
    """The probabilities that no commit of the range is to blame.

    chance: all commits fail at one rate. environment: something outside of the commits changed.
    """

    chance: float
    environment: float


class EndRate(Model):
    """How often an end failed in its `runs` judged runs."""

    end: Literal["good", "bad"]
    commit: str
    runs: int
    failures: int


class PinRecord(Model):
    """The values of a pin at both ends.

    A searched pin follows its holder's commits. A frozen one has the value `frozen_at` in every run. That is None if
    the pin has no value at the bad end.
    """

    name: str
    holder: str
    path: str
    value_good: str | None
    value_bad: str | None
    searched: bool
    frozen_at: str | None = None


class Conclusion(Document):
    """The answer of a bisection. `culprits` are confirmed. `suspects` are left if nothing could be confirmed."""

    schema_version: Literal[1] = 1
    outcome: BisectionOutcome
    message: str
    """One line that says the answer."""
    culprits: tuple[NamedCommit, ...] = ()
    through: NamedCommit | None = None
    """The superproject's commit that brought the culprit in, where the culprit lies in a submodule."""
    lost: NamedCommit | None = None
    """The fix that the culprit removed by moving a pin back, or to another line. If a fix was sought, it is the fault.
    The commit that moves the pin is the culprit."""
    suspects: tuple[NamedCommit, ...] = ()
    no_commit: NoCommit | None = None
    """Set where the suspects have less than half together: it is not known whether a commit is to blame."""
    earlier_failures: tuple[str, ...] = ()
    """Commits that failed before a later one passed: the range broke, was fixed, and broke again. Where a fix is
    sought, these are commits that passed before a later one failed."""
    failures: tuple[str, ...] = ()
    """The failures of the failing end, if failures were told apart. Other failures did not count as bad."""
    fail_otherwise: tuple[int, ...] = ()
    """The numbers of the runs that failed in another way, or may have."""
    broken_places: tuple[str, ...] = ()
    """The slots of machines whose runs ended alike, whatever commit ran there. Those runs count for nothing."""
    counterfactuals: tuple[Counterfactual, ...] = ()
    layers: tuple[MovedLayers, ...] = ()
    """One entry for each commit that moves several pins at once, in place of counterfactuals."""
    yardstick: YardstickTest | None = None
    """Set where the culprit changes how its case measures."""
    diffs: tuple[CommitDiff, ...] = ()
    """What the culprits change. A commit that git could not read has no entry, and stores of earlier versions
    have none."""
    rates: tuple[EndRate, ...] = ()
    pins: tuple[PinRecord, ...] = ()
    localization: Localization | None = None
    """Says where in the culprit's build the failure begins. None where that was not requested, or there is no
    culprit."""
