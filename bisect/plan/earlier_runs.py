"""What the store tells of a case before it is bisected: how commits did that were taken for good, and its faults."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from ...store.documents.document import read_document
from ...store.journals.earlier_runs import EarlierRunJournal, NightlyRun
from ...store.tables.bisections import BisectionRow, ProbeRow, StageRow
from ...store.vocabulary import CaseStatus, Judgement, Seeks, Verdict
from ...store.words import plural
from ..result import Conclusion, NamedCommit
from ..search.model.learned_rates import EarlierRuns, FlakyShare, RunTally
from .request import BisectRequest

_TAKEN_FOR_GOOD = frozenset({CaseStatus.PASSED, CaseStatus.FLAKY})
_MOST_OF_CASE = 20
"""Bisections of the case whose runs are read one by one."""


@dataclass
class _History:
    """The runs of one case: of each content that was taken for good, and of each fault where it was taken for bad."""

    good: defaultdict[str, Counter[Judgement]] = field(default_factory=lambda: defaultdict(Counter))
    faults: defaultdict[str, Counter[Judgement]] = field(default_factory=lambda: defaultdict(Counter))

    def tallies(self) -> tuple[RunTally, ...]:
        """The contents that were taken for good."""
        counts = Counter((runs[Judgement.BAD], runs[Judgement.GOOD]) for runs in self.good.values())
        return tuple(
            RunTally(failures=failures, passes=passes, commits=commits)
            for (failures, passes), commits in sorted(counts.items())
        )

    @property
    def flaky_faults(self) -> FlakyShare:
        """Of the faults, those with a pass."""
        passed = sum(runs[Judgement.GOOD] > 0 for runs in self.faults.values())
        return FlakyShare(flaky=passed, all=len(self.faults))


def earlier_runs(request: BisectRequest, journal: EarlierRunJournal) -> EarlierRuns | None:
    """What is remembered of a case; None where nothing is, or where more than the verdict tells that a run is bad."""
    if request.interactive or request.case is None or request.bad_when not in {*Verdict}:
        return None
    case = request.case.split()[0]
    histories = defaultdict[str, _History](_History)
    for run in _of_nights(request, journal):
        judgement = Judgement.GOOD if run.verdict is Verdict.PASS else Judgement.BAD
        if run.status in _TAKEN_FOR_GOOD and run.verdict in (Verdict.PASS, request.bad_when):
            histories[run.case].good[run.content][judgement] += 1
    read = 0
    for row in journal.that_named(repository=request.repository):
        if _alike(row, request):
            of_row = row.request["case"].split()[0]
            whole = of_row == case and read < _MOST_OF_CASE
            read += whole
            (_add_probes if whole else _add_ends)(histories[of_row], row, journal)
    this = histories.pop(case, _History())
    others = [history for history in histories.values() if history.good]
    if not this.good and not this.faults and not others:
        return None
    flaky = sum(any(runs[Judgement.BAD] for runs in history.good.values()) for history in others)
    faults = [history.flaky_faults for history in others]
    return EarlierRuns(
        good=this.tallies(),
        faults=this.flaky_faults,
        other_cases=FlakyShare(flaky=flaky, all=len(others)),
        other_faults=FlakyShare(flaky=sum(of.flaky for of in faults), all=sum(of.all for of in faults)),
    )


def told(earlier: EarlierRuns) -> str:
    """One sentence for the report."""
    passes = sum(tally.passes * tally.commits for tally in earlier.good)
    failures = sum(tally.failures * tally.commits for tally in earlier.good)
    faults, others = earlier.faults, earlier.other_cases
    of_case = f"{passes} {'pass' if passes == 1 else 'passes'}, {plural(failures, 'failure')} at commits taken for good"
    if faults.all:
        of_case += f", {plural(faults.all, 'fault')}, {faults.flaky} of which passed at times"
    of_stack = ""
    if others.all:
        of_stack = f"; {plural(others.all, 'other case')} of its stack, {others.flaky} of them flaky"
    return f"earlier runs of this case: {of_case}{of_stack}; the search began from that"


def _of_nights(request: BisectRequest, journal: EarlierRunJournal) -> Iterable[NightlyRun]:
    """The runs of nights, which do not keep what variables and predecessors their cases had, and have neither
    overlays nor renames: they count where this one has none."""
    own = request.stack.case
    if own.variables or own.after or any(_over_commits(request.stack.model_dump())):
        return ()
    return journal.of_nights(repository=request.repository, platform=request.platform)


def _alike(row: BisectionRow, request: BisectRequest) -> bool:
    """Whether a bisection asked the same of some case of the same stack and platform."""
    asked = row.request
    stack, own = asked["stack"], request.stack
    beside = (
        stack["case"].get("variables", {}),
        tuple(stack["case"].get("after", ())),
        [*_over_commits(stack)],
    )
    own_beside = (own.case.variables, own.case.after, [*_over_commits(own.model_dump())])
    same = (stack["name"], asked["platform"], asked["bad_when"], beside)
    wanted = (own.name, request.platform, request.bad_when, own_beside)
    return same == wanted and asked["case"] is not None and not asked.get("interactive", False)


def _over_commits(stack: Mapping[str, Any]) -> Iterator[tuple[object, ...]]:
    """What is laid over the commits of a stack: repository, path, and git's id of it; and the renames that files of
    other times are written by."""
    for name, repository in stack["repositories"].items():
        for overlay in repository.get("overlays", ()):
            yield name, overlay["path"], overlay["object"]
    for rename in stack.get("renames", ()):
        yield rename["commit"], rename["old"], rename["new"], *rename["keyword_of"]


def _add_ends(history: _History, row: BisectionRow, journal: EarlierRunJournal) -> None:
    """Its ends alone, as its conclusion has them."""
    conclusion = read_document(Conclusion, row.conclusion)
    for rate in conclusion.rates:
        runs = Counter({Judgement.BAD: rate.failures, Judgement.GOOD: rate.runs - rate.failures})
        if rate.end == "good":
            history.good[rate.commit] += runs
        else:
            history.faults[conclusion.culprits[0].commit] += runs


def _add_probes(history: _History, row: BisectionRow, journal: EarlierRunJournal) -> None:
    """All its runs in the ranges whose culprit it has named; they are of one fault."""
    conclusion = read_document(Conclusion, row.conclusion)
    fault = history.faults[conclusion.culprits[0].commit]
    named = [*conclusion.culprits[:1], *filter(None, [conclusion.through])]
    probes = journal.probes(row.id)
    for stage in journal.ranges(row.id):
        for culprit in named:
            if culprit.repository == stage.repository:
                _add_range(history, fault, stage, probes, culprit)


def _add_range(
    history: _History,
    fault: Counter[Judgement],
    stage: StageRow,
    probes: Iterable[ProbeRow],
    culprit: NamedCommit,
) -> None:
    changed = _descendants(stage, culprit.commit)
    bad_if_changed = stage.seeks is Seeks.REGRESSION
    for probe in probes:
        counts = probe.judgement in (Judgement.GOOD, Judgement.BAD) and probe.phase.is_as_asked
        if probe.stage_id != stage.id or probe.judgement is None or not counts:
            continue
        is_bad = (probe.commit in changed) is bad_if_changed
        side = fault if is_bad else history.good[probe.content]
        side[probe.judgement] += 1


def _descendants(stage: StageRow, commit: str) -> set[str]:
    found = {commit}
    for candidate in stage.candidates:
        if not found.isdisjoint(candidate.commit.parents):
            found.add(candidate.commit.sha)
    return found
