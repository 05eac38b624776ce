"""How a bisection ended, as it is kept in the store and printed in reports."""

from typing import Literal

from ..runner.localization.answer import Localization
from ..runner.stack.parts import Model
from ..store.documents.document import Document
from ..store.vocabulary import BisectionOutcome, Judgement

Blame = Literal["submodule", "version", "superproject", "interaction", "either", "unknown"]


class NamedCommit(Model):
    """A commit that is named. `confidence` is the posterior probability that it made the change, after confirmation."""

    repository: str
    commit: str
    parent: str | None
    """Its first parent, which was run beside it."""
    confidence: float | None
    merge: bool
    """It has several parents, none of which fails by itself: an interaction of what it merges."""
    version: str | None = None
    """The release that it stands for."""
    under: str | None = None
    """The perturbation under which it was found: there it fails in every run."""


class Counterfactual(Model):
    """What a pin that the culprit moves has to do with it: the 2 x 2 of the pin and the commit that holds it.

    `repository` is what is pinned: a repository of the stack, else the pin's own name, and then the blame for it is
    "version": there is no history in which to look further.
    """

    pin: str
    repository: str
    old: str
    new: str
    new_holder_old_target: Judgement
    old_holder_new_target: Judgement
    blame: Blame
    told: tuple[str, str] | None = None
    """Both as people know them, where they stand for releases."""

    @property
    def move(self) -> str:
        """From where to where."""
        old, new = self.told or (self.old[:12], self.new[:12])
        return f"from {old} to {new}"


YardstickBlame = Literal["yardstick", "other change", "both together", "either", "unknown"]


class YardstickTest(Model):
    """What it has to do with the result that the culprit changes how its case measures: by a run of the culprit as its
    parent measures, and of the parent as the culprit measures."""

    changes: tuple[str, ...]
    """What differs, a phrase each, with file and line."""
    new_with_old: Judgement
    old_with_new: Judgement
    blame: YardstickBlame


class LayerCell(Model):
    """What the case does with some layers new and the others old."""

    new: tuple[str, ...]
    judgement: Judgement


class MovedLayers(Model):
    """What the layers do together that a commit moves at once: its own change, and several pins.

    `least` are the least sets of layers that were seen to make the difference where they are new, each without the
    others. Where it is not `proven`, there are cells of which nothing is known and that were not run, as they most
    likely cannot be built: they may tell of other sets.
    """

    layers: tuple[str, ...]
    """The repository of the commit, which stands for its own change, then what is pinned."""
    cells: tuple[LayerCell, ...]
    """Those that were run, beside all old (the parent) and all new (the commit)."""
    least: tuple[tuple[str, ...], ...]
    proven: bool


class NoCommit(Model):
    """How probable it is that no commit of the range is to blame: by chance, as all fail at one rate, or because the
    environment moved."""

    chance: float
    environment: float


class EndRate(Model):
    """How often an end failed: of `runs` that could be judged."""

    end: Literal["good", "bad"]
    commit: str
    runs: int
    failures: int


class PinRecord(Model):
    """What a pin says at both ends. One that is searched follows its holder's commits; one that is frozen is held at
    `frozen_at` in every run (None: it says nothing at the bad end, so that there was nothing to hold)."""

    name: str
    holder: str
    path: str
    value_good: str | None
    value_bad: str | None
    searched: bool
    frozen_at: str | None = None


class Conclusion(Document):
    """The answer. `culprits` are confirmed; `suspects` are what is left where nothing could be confirmed."""

    schema_version: Literal[1] = 1
    outcome: BisectionOutcome
    message: str
    """One line."""
    culprits: tuple[NamedCommit, ...] = ()
    through: NamedCommit | None = None
    """The superproject's commit that brought the culprit in, where the culprit lies in a submodule."""
    lost: NamedCommit | None = None
    """What the culprit took away by moving a pin back, or to another line: the fix of what fails now; where a fix was
    sought, the fault. The commit that moves the pin is the culprit."""
    suspects: tuple[NamedCommit, ...] = ()
    no_commit: NoCommit | None = None
    """Of suspects that have together less than half: it is not known whether a commit is to blame."""
    earlier_failures: tuple[str, ...] = ()
    """Commits that failed before a later one passed: the range broke, was mended, and broke again. Where a
    fix is sought, those that passed before a later one failed."""
    failures: tuple[str, ...] = ()
    """How the failing end fails, where what fails otherwise did not count as bad: two failures were told apart."""
    broken_places: tuple[str, ...] = ()
    """The slots of machines that showed the same, whatever commit ran there: what ran there counts for nothing."""
    counterfactuals: tuple[Counterfactual, ...] = ()
    layers: tuple[MovedLayers, ...] = ()
    """Of each commit that moves several pins at once, in place of counterfactuals."""
    yardstick: YardstickTest | None = None
    """Where the culprit changes how its case measures."""
    rates: tuple[EndRate, ...] = ()
    pins: tuple[PinRecord, ...] = ()
    localization: Localization | None = None
    """Where in the culprit's build the failure begins; None where that was not asked, or there is no culprit."""
