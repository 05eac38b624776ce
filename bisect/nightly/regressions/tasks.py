"""What one regression asks to be bisected: its culprit while it is open, its fix once it has recovered."""

from abc import ABC, abstractmethod
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from typing import ClassVar

from ....runner.errors import EndsError, UserError
from ....store.documents.document import read_document
from ....store.tables.nights import RegressionRow
from ....store.vocabulary import BisectionOutcome, Seeks
from ...engine.priority.costs import Timings
from ...plan.prepare import prepare
from ...plan.question import Question
from ...plan.request import BisectRequest
from ...report.write import write_report
from ...result import Conclusion
from ...run.driven import DrivenBisection
from ...run.session import StoredBisection
from ..limits import OutOfTimeError
from ..runs import probe_times, question_case
from ..terminal import NamedProgress, SharedOutput
from .context import NightContext, cell_label


@dataclass(frozen=True, kw_only=True)
class Submitted:
    """A bisection that is left to the queue: its name and question, and the platform and number of the board that it
    runs on, if any."""

    bisection: str
    question: tuple[str, ...]
    """Its words, for people: it has begun."""
    board: str | None
    device: int


@dataclass(frozen=True, kw_only=True)
class _Ends:
    """The ends of a bisection, and the folder of its report."""

    good: str
    bad: str
    seeks: Seeks
    folder: str


class RegressionTask(ABC):
    """A bisection of one regression, driven beside those of the others. One that a night's end cut short is gone on
    with in the next night."""

    purpose: ClassVar[str]
    """What it is to name, in words."""
    deadline: float | None = None

    def __init__(
        self, context: NightContext, regression: RegressionRow, *, output: SharedOutput, problems: list[str]
    ) -> None:
        """`problems` collects what could not be done tonight, a sentence each."""
        self.context = context
        self.regression = regression
        self.timings = _expected_timings(context, regression)
        self._output = output
        self._problems = problems
        self._bisection: StoredBisection | None = None

    @abstractmethod
    def ends(self) -> _Ends:
        """Between which commits it searches."""

    @abstractmethod
    def stored(self) -> int | None:
        """The bisection that was begun for it."""

    @abstractmethod
    def remember(self, bisection: int | None) -> None:
        """Note which bisection was begun for it; None: another one will be."""

    @abstractmethod
    def named(self, bisection: StoredBisection, conclusion: Conclusion) -> None:
        """Note the commit that it names."""

    @abstractmethod
    def gave_up(self, why: str) -> None:
        """Note that it names no commit, and that none is looked for any more."""

    @abstractmethod
    def ends_agree(self, why: str) -> None:
        """Note that its ends do not differ, or that no range lies between them."""

    def open(self, held: ExitStack) -> DrivenBisection | None:
        """Begin it or go on with it; None where no run may start, or it has ended before. Raises `UserError`."""
        try:
            self.context.limits.check()
        except OutOfTimeError as error:
            self.problem(f"the search for its {self.purpose} was not begun: {error}")
            return None
        bisection = self._bisection = self._find() or self._begin()
        held.enter_context(bisection.lock())
        row = bisection.journal.row()
        if row.outcome not in (None, BisectionOutcome.BUDGET):
            self._keep(bisection, read_document(Conclusion, row.conclusion))
            return None
        return bisection.opened(NamedProgress(self._output, cell_label(self.regression.cell)), held)

    def hand_over(self, submit: Callable[[Submitted], None]) -> None:
        """Begin it or go on with it by way of the queue; one that has ended since is kept. Raises `UserError`."""
        bisection = self._bisection = self._find() or self._begin()
        if self.keep_ended():
            return
        request = bisection.request
        board = request.stack.platforms[request.platform].board
        submit(
            Submitted(
                bisection=bisection.name,
                question=_words_of(request),
                board=request.platform if board else None,
                device=request.device,
            )
        )

    def keep_ended(self) -> bool:
        """Keep what its bisection has found, where it has ended; whether it has."""
        bisection = self._find()
        row = None if bisection is None else bisection.journal.row()
        if bisection is None or row is None or row.outcome in (None, BisectionOutcome.BUDGET):
            return False
        conclusion = read_document(Conclusion, row.conclusion)
        if row.outcome is BisectionOutcome.ENDS_DO_NOT_DIFFER:
            self.ends_agree(conclusion.message)
            self.problem(conclusion.message)
        else:
            self._keep(bisection, conclusion)
        return True

    def permit(self) -> None:
        """Count a probe that is about to start. Raises `BudgetSpentError`."""
        self.context.limits.permit(self.regression.cell.platform)

    def concluded(self, conclusion: Conclusion) -> None:
        """Keep how it ended, with its report."""
        assert self._bisection is not None
        self._bisection.conclude(conclusion)
        write_report(self.context.sessions, self._bisection.name, self._bisection.request.output)
        self._keep(self._bisection, conclusion)

    def failed(self, error: UserError) -> None:
        """It cannot go on. Where its ends are not to blame it is the device or the disk, most likely: tomorrow another
        one is begun."""
        if isinstance(error, EndsError):
            if self._bisection is not None:
                ended = Conclusion(outcome=BisectionOutcome.ENDS_DO_NOT_DIFFER, message=str(error))
                self._bisection.conclude(ended)
            self.ends_agree(str(error))
        else:
            self.remember(None)
        self.problem(str(error))

    def problem(self, text: str) -> None:
        """Note what could not be done tonight."""
        self._problems.append(f"{cell_label(self.regression.cell)}: {text}")

    def _keep(self, bisection: StoredBisection, conclusion: Conclusion) -> None:
        match conclusion.outcome:
            case BisectionOutcome.CULPRIT:
                self.named(bisection, conclusion)
            case BisectionOutcome.BUDGET:
                self.problem(conclusion.message)
            case _:
                self.gave_up(conclusion.message)

    def _find(self) -> StoredBisection | None:
        """The bisection of an earlier night, if it was asked of the same stack."""
        identity = self.stored()
        if identity is None:
            return None
        bisection = self.context.bisection(identity)
        return bisection if bisection.request.stack == self.context.stack else None

    def _begin(self) -> StoredBisection:
        context, regression, ends = self.context, self.regression, self.ends()
        cell, config = regression.cell, context.config
        plan = prepare(
            Question(
                stack=context.stack,
                repository=context.stack.searched,
                good=(ends.good,),
                bad=ends.bad,
                seeks=ends.seeks,
                runtime_dir=None,
                first_parent=False,
                case=question_case(config, cell),
                platform=cell.platform,
                device=config.platforms[cell.platform].device,
                bad_when=regression.bad_when,
                golden_data=None,
                timeout=config.timeout,
                confidence=config.confidence,
                output=config.output / "bisections" / ends.folder,
            ),
            context.home,
        )
        bisection = StoredBisection.begin(plan, sessions=context.sessions, home=context.home)
        self.remember(bisection.journal.bisection)
        return bisection


class FindCulprit(RegressionTask):
    """Finds what broke a case; regressions with one culprit are one incident."""

    purpose = "culprit"

    def ends(self) -> _Ends:
        regression = self.regression
        return _Ends(
            good=regression.last_good,
            bad=regression.first_bad,
            seeks=Seeks.REGRESSION,
            folder=f"regression-{regression.id}",
        )

    def stored(self) -> int | None:
        return self.regression.bisection_id

    def remember(self, bisection: int | None) -> None:
        self.context.journal.regressions.update(self.regression.id, bisection_id=bisection)

    def named(self, bisection: StoredBisection, conclusion: Conclusion) -> None:
        culprit = conclusion.culprits[0]
        clone = self.context.workspace.clones[culprit.repository]
        self.context.journal.incidents.join(
            self.regression.id,
            night=self.context.night.id,
            bisection=bisection.journal.bisection,
            repository=culprit.repository,
            culprit=culprit.commit,
            subject=clone.commit(culprit.commit).subject,
            confidence=culprit.confidence,
        )

    def gave_up(self, why: str) -> None:
        self.context.journal.regressions.update(self.regression.id, problem=why)

    def ends_agree(self, why: str) -> None:
        # They may differ tomorrow, on a device that works, or where the failure comes and goes.
        self.remember(None)


class FindFix(RegressionTask):
    """Finds what fixed a case that has recovered."""

    purpose = "fix"

    def ends(self) -> _Ends:
        regression = self.regression
        assert regression.recovered_at is not None
        return _Ends(
            good=regression.recovered_at,
            bad=regression.last_bad,
            seeks=Seeks.FIX,
            folder=f"fix-{regression.id}",
        )

    def stored(self) -> int | None:
        return self.regression.fix_bisection_id

    def remember(self, bisection: int | None) -> None:
        self.context.journal.regressions.update(self.regression.id, fix_bisection_id=bisection)

    def named(self, bisection: StoredBisection, conclusion: Conclusion) -> None:
        fix = conclusion.through or conclusion.culprits[0]
        self.context.journal.regressions.update(self.regression.id, fixed_by=fix.commit)

    def gave_up(self, why: str) -> None:
        self.context.journal.regressions.update(self.regression.id, fix_problem=why)

    def ends_agree(self, why: str) -> None:
        self.gave_up(why)


def _words_of(request: BisectRequest) -> tuple[str, ...]:
    """What somebody would type to ask the same, beside the stack."""
    fix = () if request.seeks is Seeks.REGRESSION else ("--find-fix",)
    case = () if request.case is None else ("--case", request.case)
    return ("--good", request.good, "--bad", request.bad, *fix, *case, "--platform", request.platform)


def _expected_timings(context: NightContext, regression: RegressionRow) -> Timings | None:
    """What a bisection's first probes are expected to take, by earlier runs of its cell, or of the job."""
    journal = context.journal
    return Timings.of(map(probe_times, journal.runs.recent(regression.cell.id))) or Timings.of(
        map(probe_times, journal.runs.recent())
    )
