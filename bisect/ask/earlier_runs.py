"""Reads from the store what is known of a case before it is bisected.

Runs of earlier bisections and nights show how often good commits failed and how often faults passed. Runs of bisections
that asked the same question are reused as they are.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ...runner.case.case import digest_of
from ...runner.workspace.environment import EnvironmentReader
from ...store.bisections import EarlierRunJournal, NightlyRun, RangeCandidate
from ...store.durable_files import DocumentError, read_document
from ...store.tables import BisectionRow, ProbeRow, StageRow
from ...store.vocabulary import BisectionOutcome, CaseStatus, DriveEnd, Judgement, Seeks, Verdict, plural
from ..engine.answer import Conclusion, NamedCommit
from ..history.range import LoadedRange
from .ends import files_of_command
from .question import BisectRequest, EarlierRuns, FlakyShare, RunTally

_PRESUMED_GOOD = frozenset({CaseStatus.PASSED, CaseStatus.FLAKY})
_MAX_BISECTIONS_READ = 20
"""At most this many bisections of the case are read run by run. Of any more, only the rates at their ends are read."""


_REUSED_OUTCOMES = (
    None,
    BisectionOutcome.CULPRIT,
    BisectionOutcome.SUSPECT,
    BisectionOutcome.ONLY_SKIPPED,
    BisectionOutcome.BUDGET,
)
"""Runs of a bisection with one of these outcomes are reused where the same is asked again. Other outcomes say that the
ends did not differ, or that no commit was to blame. The cause of those has probably been fixed since."""


@dataclass(frozen=True, kw_only=True)
class ReusableBisections:
    """The names of bisections that asked the same, and the digest of the frozen data that they share."""

    names: tuple[str, ...] = ()
    golden: str | None = None


@dataclass
class _History:
    """The runs of one case.

    `good` counts them for each content that was taken for good. `faults` counts them for each fault, at commits that
    were taken for bad.
    """

    good: defaultdict[str, Counter[Judgement]] = field(default_factory=lambda: defaultdict(Counter))
    faults: defaultdict[str, Counter[Judgement]] = field(default_factory=lambda: defaultdict(Counter))

    def tallies(self) -> tuple[RunTally, ...]:
        """Return the tallies of the contents that were taken for good."""
        counts = Counter((runs[Judgement.BAD], runs[Judgement.GOOD]) for runs in self.good.values())
        return tuple(
            RunTally(failures=failures, passes=passes, commits=commits)
            for (failures, passes), commits in sorted(counts.items())
        )

    @property
    def flaky_faults(self) -> FlakyShare:
        """Return how many of the faults passed at least once."""
        passed = sum(runs[Judgement.GOOD] > 0 for runs in self.faults.values())
        return FlakyShare(flaky=passed, all=len(self.faults))


def earlier_runs(request: BisectRequest, journal: EarlierRunJournal) -> EarlierRuns | None:
    """Return what the store remembers of a case.

    Return None where it remembers nothing, or where more than the verdict decides whether a run is bad. Runs that
    count for the question itself are left out.
    """
    if request.interactive or request.case is None or request.bad_when not in {*Verdict}:
        return None
    case = request.case.split()[0]
    histories = defaultdict[str, _History](_History)
    for run in _nightly_runs(request, journal):
        judgement = Judgement.GOOD if run.verdict is Verdict.PASS else Judgement.BAD
        if run.status in _PRESUMED_GOOD and run.verdict in (Verdict.PASS, request.bad_when):
            histories[run.case].good[run.content][judgement] += 1
    read = 0
    for row in journal.bisections_with_culprit(repository=request.repository):
        if row.name not in request.reuses and _has_same_setup(row, request):
            of_row = row.request["case"].split()[0]
            whole = of_row == case and read < _MAX_BISECTIONS_READ
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


def describe_earlier_runs(earlier: EarlierRuns) -> str:
    """Describe what the store knows of the case, one sentence for each fact."""
    passes = sum(tally.passes * tally.commits for tally in earlier.good)
    failures = sum(tally.failures * tally.commits for tally in earlier.good)
    faults, others = earlier.faults, earlier.other_cases
    runs = f"{passes} {'pass' if passes == 1 else 'passes'} and {plural(failures, 'failure')} of good commits"
    of_faults = f", and {plural(faults.all, 'fault')}, {_describe_flakiness(faults)}" if faults.all else ""
    of_stack = (
        f", and {plural(others.all, 'other case')} of its stack, {_describe_flakiness(others)}"
        if others.all
        else ""
    )
    return f"The store knows earlier runs: {runs}{of_faults}{of_stack}. How sure the search is follows from these too."


def _describe_flakiness(share: FlakyShare) -> str:
    if share.all == 1:
        return "flaky" if share.flaky else "not flaky"
    return f"{share.flaky} of them flaky"


def _nightly_runs(request: BisectRequest, journal: EarlierRunJournal) -> Iterable[NightlyRun]:
    """Return the runs of nights that are comparable to the request.

    Nights have neither overlays nor renames, and do not keep the variables and predecessors of their cases. So their
    runs count only where this request has none of these.
    """
    own = request.stack.case
    if own.variables or own.after or any(_overlays_and_renames(request.stack.model_dump())):
        return ()
    return journal.nightly_runs(repository=request.repository, platform=request.platform)


def _has_same_setup(row: BisectionRow, request: BisectRequest) -> bool:
    """Return whether a bisection asked the same of some case of the same stack and platform."""
    asked = row.request
    stack, own = asked["stack"], request.stack
    beside = (
        stack["case"].get("variables", {}),
        tuple(stack["case"].get("after", ())),
        [*_overlays_and_renames(stack)],
    )
    own_beside = (own.case.variables, own.case.after, [*_overlays_and_renames(own.model_dump())])
    same = (stack["name"], asked["platform"], asked["bad_when"], beside)
    wanted = (own.name, request.platform, request.bad_when, own_beside)
    return same == wanted and asked["case"] is not None and not asked.get("interactive", False)


def _overlays_and_renames(stack: Mapping[str, Any]) -> Iterator[tuple[object, ...]]:
    """Yield each overlay of a stack as repository, path and git object id. Then yields each rename that adapts files
    of other times."""
    for name, repository in stack["repositories"].items():
        for overlay in repository.get("overlays", ()):
            yield name, overlay["path"], overlay["object"]
    for rename in stack.get("renames", ()):
        yield rename["commit"], rename["old"], rename["new"], *rename["keyword_of"]


def _add_ends(history: _History, row: BisectionRow, journal: EarlierRunJournal) -> None:
    """Add the runs of a bisection's ends, as its conclusion has them."""
    conclusion = read_document(Conclusion, row.conclusion)
    for rate in conclusion.rates:
        runs = Counter({Judgement.BAD: rate.failures, Judgement.GOOD: rate.runs - rate.failures})
        if rate.end == "good":
            history.good[rate.commit] += runs
        else:
            history.faults[conclusion.culprits[0].commit] += runs


def _add_probes(history: _History, row: BisectionRow, journal: EarlierRunJournal) -> None:
    """Add all runs in the ranges where the bisection named a culprit. Its failing runs are of one fault."""
    conclusion = read_document(Conclusion, row.conclusion)
    fault = history.faults[conclusion.culprits[0].commit]
    named = [*conclusion.culprits[:1], *filter(None, [conclusion.through])]
    probes = journal.probes(row.id)
    for stage, candidates in journal.ranges(row.id):
        for culprit in named:
            if culprit.repository == stage.repository:
                _add_range(history, fault, stage, candidates, probes, culprit)


def _add_range(
    history: _History,
    fault: Counter[Judgement],
    stage: StageRow,
    candidates: Iterable[RangeCandidate],
    probes: Iterable[ProbeRow],
    culprit: NamedCommit,
) -> None:
    changed = _descendants(candidates, culprit.commit)
    bad_if_changed = stage.seeks is Seeks.REGRESSION
    for probe in probes:
        counts = probe.judgement in (Judgement.GOOD, Judgement.BAD) and probe.phase.is_unmodified
        if probe.stage_id != stage.id or probe.judgement is None or not counts:
            continue
        is_bad = (probe.commit in changed) is bad_if_changed
        side = fault if is_bad else history.good[probe.content]
        side[probe.judgement] += 1


def _descendants(candidates: Iterable[RangeCandidate], commit: str) -> set[str]:
    found = {commit}
    for candidate in candidates:
        if not found.isdisjoint(candidate.parents):
            found.add(candidate.sha)
    return found


def find_reusable_bisections(
    request: BisectRequest, loaded: LoadedRange, journal: EarlierRunJournal, *, golden_store: Path
) -> ReusableBisections:
    """Return the bisections that asked the same, whose runs of this range count too, and the frozen data they share.

    The frozen data are those that the request names. Where it names none, they are the newest that still lie in
    `golden_store`.
    """
    rows = [
        row
        for row in journal.bisections_with_bad_end(repository=request.repository, bad=request.bad)
        if row.outcome in _REUSED_OUTCOMES and not _has_failed(row) and _asks_same_question(row, request)
    ]
    golden: str | None = None
    if request.golden_data is not None:
        golden = digest_of(request.golden_data)
    elif request.captures_golden:
        kept = (row.golden for row in rows if row.golden is not None and (golden_store / row.golden).is_dir())
        golden = next(kept, None)
        if golden is None:
            return ReusableBisections()
    names = tuple(row.name for row in rows if row.golden == golden)
    request = request.model_copy(update={"reuses": names})
    used = {probe.bisection.name for probe in reusable_probes(request, loaded, journal)}
    return ReusableBisections(
        names=tuple(name for name in names if name in used), golden=golden if used else None
    )


def reusable_probes(
    request: BisectRequest, loaded: LoadedRange, journal: EarlierRunJournal
) -> list[ProbeRow]:
    """Return the judged runs that count for a range, from the bisections that a question reuses.

    A run counts if it had an environment like the present one. It must also have started after the last change of each
    file that the command names by its full path.
    """
    if not request.reuses:
        return []
    contents = {*filter(None, loaded.contents.values()), loaded.old_content, loaded.new_content}
    here = _drop_packages(EnvironmentReader(request.stack).read())
    changed = max((file.stat().st_mtime for file in files_of_command(request)), default=0.0)
    return [
        probe
        for probe in journal.judged_probes(request.reuses, contents)
        if probe.environment is not None
        and _drop_packages(probe.environment.details) == here
        and probe.started.timestamp() > changed
    ]


def _has_failed(row: BisectionRow) -> bool:
    """Return whether the bisection stopped for a reason other than its commits. What it saw last may be fixed since."""
    return row.outcome is None and bool(row.drives) and row.drives[-1].end is DriveEnd.FAILED


def _asks_same_question(row: BisectionRow, request: BisectRequest) -> bool:
    try:
        asked = read_document(BisectRequest, row.request)
    except DocumentError:
        return False  # a later version of this tool wrote the request
    return (
        _question_key(asked) == _question_key(request)
        and request.runtime_dir is None
        and not request.interactive
    )


def _question_key(request: BisectRequest) -> tuple[object, ...]:
    """Return what decides what a run does and how it is judged, apart from the content of the commits.

    Overlays are part of that content, so they are left out.
    """
    stack = request.stack
    plain = {name: each.model_copy(update={"overlays": ()}) for name, each in stack.repositories.items()}
    inherited = request.inherited
    return (
        stack.model_copy(update={"repositories": plain}),
        (request.repository, request.case, request.runtime_dir, request.interactive),
        (request.platform, request.device, request.timeout),
        (request.bad_when, request.good_when, request.crash, request.is_command),
        None if inherited is None else inherited.relevant_values,
    )


def _drop_packages(surroundings: Mapping[str, str]) -> dict[str, str]:
    """Return the environment without its packages, which are known only once a slot is set up."""
    return {name: text for name, text in surroundings.items() if not name.startswith("package ")}
