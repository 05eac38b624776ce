"""Reads stored runs: what they say of a case before it is bisected, and each of them as the engine knows it.

`earlier_runs` counts how often good commits failed, and how often faults passed, in earlier bisections and nights.
`find_reusable_bisections` finds bisections that asked the same question, and `reusable_probes` their runs that count
again. `finished_probe` turns a row of the store into a probe of the engine. `failure_names` returns what failing runs
printed. `merge_base_finding` explains the result of a merge base that was run in place of an end.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any

from ...runner.case.case import digest_of
from ...runner.errors import EndsError, UndecidedError
from ...runner.probe.probe import place_name
from ...runner.verdict.rules import compiler_errors
from ...runner.verdict.symptoms import Symptoms
from ...runner.workspace.environment import EnvironmentReader, variable_changes
from ...store.bisections import EarlierRunJournal, NightlyRun, RangeCandidate
from ...store.durable_files import DocumentError, read_document
from ...store.tables import BisectionRow, ProbeRow, StageRow
from ...store.vocabulary import (
    BisectionOutcome,
    BuildSource,
    CaseStatus,
    DriveEnd,
    Judgement,
    Seeks,
    Verdict,
    plural,
    verdict_phrase,
)
from ..engine.answer import Conclusion, NamedCommit
from ..engine.runs import FinishedProbe, ProbeTimes, slot_build
from ..history.range import LoadedRange, SlotBuild
from ..search.rates import EarlierRuns, FlakyShare, RunTally
from .ends import files_of_command, programs_of_command
from .question import BisectRequest

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
"""Runs of a bisection with one of these outcomes are reused where the same is asked again. Any other outcome has a
cause besides the commits, which has probably been fixed since."""


@dataclass(frozen=True, kw_only=True)
class ReusableBisections:
    """The names of bisections that asked the same, and the digest of the frozen data that they share."""

    names: tuple[str, ...] = ()
    golden: str | None = None
    notices: tuple[str, ...] = ()
    """What keeps the runs of the newest such bisection from counting, if variables of the shell do."""


@dataclass
class _History:
    """The runs of one case."""

    good: defaultdict[str, Counter[Judgement]] = field(default_factory=lambda: defaultdict(Counter))
    """The judgements of each presumably good content."""
    faults: defaultdict[str, Counter[Judgement]] = field(default_factory=lambda: defaultdict(Counter))
    """The judgements of each fault, at presumably bad commits."""

    @property
    def tallies(self) -> tuple[RunTally, ...]:
        """Return the tallies of the presumably good contents."""
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
    """Return what the store remembers of the case of a request, without the runs that the request reuses.

    Return None where it remembers nothing, or where more than the verdict decides whether a run is bad.
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
        if row.name in request.reuses or not _has_same_setup(row, request):
            continue
        try:
            conclusion = read_document(Conclusion, row.conclusion)
        except DocumentError:
            continue  # a later version of this tool wrote the conclusion
        row_case = row.request["case"].split()[0]
        if row_case == case and read < _MAX_BISECTIONS_READ:
            read += 1
            _add_probes(histories[row_case], row.id, conclusion, journal)
        else:
            _add_ends(histories[row_case], conclusion)
    own = histories.pop(case, _History())
    others = [history for history in histories.values() if history.good]
    if not own.good and not own.faults and not others:
        return None
    flaky = sum(any(runs[Judgement.BAD] for runs in history.good.values()) for history in others)
    shares = [history.flaky_faults for history in others]
    return EarlierRuns(
        good=own.tallies,
        faults=own.flaky_faults,
        other_cases=FlakyShare(flaky=flaky, all=len(others)),
        other_faults=FlakyShare(
            flaky=sum(share.flaky for share in shares), all=sum(share.all for share in shares)
        ),
    )


def describe_earlier_runs(earlier: EarlierRuns) -> str:
    """Return the notice about what the store knows of the case."""
    passes = sum(tally.passes * tally.commits for tally in earlier.good)
    failures = sum(tally.failures * tally.commits for tally in earlier.good)
    faults, others = earlier.faults, earlier.other_cases
    runs = f"{passes} {'pass' if passes == 1 else 'passes'} and {plural(failures, 'failure')} of good commits"
    if faults.all:
        runs += f", and {plural(faults.all, 'fault')}, {_describe_flakiness(faults)}"
    if others.all:
        runs += f", and {plural(others.all, 'other case')} of its stack, {_describe_flakiness(others)}"
    return f"The store knows earlier runs: {runs}. How sure the search is follows from these too."


def _describe_flakiness(share: FlakyShare) -> str:
    if share.all == 1:
        return "flaky" if share.flaky else "not flaky"
    return f"{share.flaky} of them flaky"


def _nightly_runs(request: BisectRequest, journal: EarlierRunJournal) -> Iterable[NightlyRun]:
    """Return the runs of nights that are comparable to the request.

    There are none where the request has overlays, renames, variables or predecessors. Nights have no overlays and no
    renames, and the store does not keep the variables and predecessors of their cases.
    """
    own = request.stack.case
    if own.variables or own.after or any(_overlays_and_renames(request.stack.model_dump())):
        return ()
    return journal.nightly_runs(repository=request.repository, platform=request.platform)


def _has_same_setup(row: BisectionRow, request: BisectRequest) -> bool:
    """Return whether a bisection asked the same as the request, of any case of the same stack and platform."""
    asked = row.request
    stack, own = asked["stack"], request.stack
    asked_setup = (
        stack["name"],
        asked["platform"],
        asked["bad_when"],
        stack["case"].get("variables", {}),
        tuple(stack["case"].get("after", ())),
        [*_overlays_and_renames(stack)],
    )
    own_setup = (
        own.name,
        request.platform,
        request.bad_when,
        own.case.variables,
        own.case.after,
        [*_overlays_and_renames(own.model_dump())],
    )
    is_scripted = asked["case"] is not None and not asked.get("interactive", False)
    return is_scripted and asked_setup == own_setup


def _overlays_and_renames(stack: Mapping[str, Any]) -> Iterator[tuple[object, ...]]:
    """Yield what identifies each overlay of a stack, and then each rename. `stack` is the stack as JSON."""
    for name, repository in stack["repositories"].items():
        for overlay in repository.get("overlays", ()):
            yield name, overlay["path"], overlay["object"]
    for rename in stack.get("renames", ()):
        yield rename["commit"], rename["old"], rename["new"], *rename["keyword_of"]


def _add_ends(history: _History, conclusion: Conclusion) -> None:
    """Add the runs of a bisection's ends, as its conclusion counts them."""
    for rate in conclusion.rates:
        runs = Counter({Judgement.BAD: rate.failures, Judgement.GOOD: rate.runs - rate.failures})
        if rate.end == "good":
            history.good[rate.commit] += runs
        else:
            history.faults[conclusion.culprits[0].commit] += runs


def _add_probes(
    history: _History, bisection: int, conclusion: Conclusion, journal: EarlierRunJournal
) -> None:
    """Add all runs in the ranges where a bisection named a culprit. They all belong to one fault."""
    fault = history.faults[conclusion.culprits[0].commit]
    named = [*conclusion.culprits[:1], *filter(None, [conclusion.through])]
    probes = journal.probes(bisection)
    for stage, candidates in journal.ranges(bisection):
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
    """Return the bisections that asked the same and have runs of this range, and the frozen data that they share.

    The data are those that the request names, else the newest that still lie in `golden_store`.
    """
    asked = [
        (row, earlier)
        for row in journal.bisections_with_bad_end(repository=request.repository, bad=request.bad)
        if row.outcome in _REUSED_OUTCOMES and not _has_failed(row)
        if (earlier := _same_question(row, request)) is not None
    ]
    rows, notices = _split_by_variables(asked, request)
    golden: str | None = None
    if request.golden_data is not None:
        golden = digest_of(request.golden_data)
    elif request.captures_golden:
        kept = (row.golden for row in rows if row.golden is not None and (golden_store / row.golden).is_dir())
        golden = next(kept, None)
        if golden is None:
            return ReusableBisections(notices=notices)
    names = tuple(row.name for row in rows if row.golden == golden)
    request = request.model_copy(update={"reuses": names})
    used = {probe.bisection.name for probe in reusable_probes(request, loaded, journal)}
    return ReusableBisections(
        names=tuple(name for name in names if name in used), golden=golden if used else None, notices=notices
    )


def _split_by_variables(
    asked: Sequence[tuple[BisectionRow, BisectRequest]], request: BisectRequest
) -> tuple[list[BisectionRow], tuple[str, ...]]:
    """Return the bisections that had the variables of the request, else a notice about the newest of the others.

    A case may read a variable that nothing is known to read, and a secret's value can decide a result too.
    """
    same: list[BisectionRow] = []
    others: list[tuple[BisectionRow, list[str]]] = []
    for row, earlier in asked:
        if (earlier.inherited is None) is not (request.inherited is None):
            continue
        changes: list[str] = []
        if earlier.inherited is not None and request.inherited is not None:
            changes = [*variable_changes(earlier.inherited, request.inherited)]
        if changes:
            others.append((row, changes))
        else:
            same.append(row)
    if same or not others:
        return same, ()
    newest, changes = max(others, key=lambda other: other[0].created)
    more = f", and {len(changes) - _MAX_CHANGES} more" if len(changes) > _MAX_CHANGES else ""
    shown = ", ".join(changes[:_MAX_CHANGES])
    return same, (f"The runs of {newest.name}, which asked the same, do not count here: {shown}{more}.",)


_MAX_CHANGES = 3
"""A notice lists at most this many variables."""


def reusable_probes(
    request: BisectRequest, loaded: LoadedRange, journal: EarlierRunJournal
) -> list[ProbeRow]:
    """Return the judged runs of a range that count again, from the bisections that a request reuses.

    A run counts if it had the present environment. It must also have started after the last change of the command's
    files. These are the files that it names by their full path, and the programs that it finds in PATH.
    """
    if not request.reuses:
        return []
    contents = {*filter(None, loaded.contents.values()), loaded.old_content, loaded.new_content}
    present = _drop_packages(EnvironmentReader(request.stack).read())
    files = (*files_of_command(request), *programs_of_command(request))
    stats = [file.stat() for file in files]
    # A file that is replaced by an older one has a new `st_ctime`.
    last_change = max((time for found in stats for time in (found.st_mtime, found.st_ctime)), default=0.0)
    return [
        probe
        for probe in journal.judged_probes(request.reuses, contents)
        if probe.environment is not None
        and _drop_packages(probe.environment.details) == present
        and probe.started.timestamp() > last_change
    ]


def _has_failed(row: BisectionRow) -> bool:
    """Return whether the bisection stopped with an error, whose cause may be fixed since."""
    return row.outcome is None and bool(row.drives) and row.drives[-1].end is DriveEnd.FAILED


def _same_question(row: BisectionRow, request: BisectRequest) -> BisectRequest | None:
    """Return what a bisection asked, if it is the same but for the shell's variables, and can be asked again."""
    try:
        earlier = read_document(BisectRequest, row.request)
    except DocumentError:
        return None  # a later version of this tool wrote the request
    is_repeatable = request.runtime_dir is None and not request.interactive
    return earlier if is_repeatable and _question_key(earlier) == _question_key(request) else None


def _question_key(request: BisectRequest) -> tuple[object, ...]:
    """Return what decides how a run goes and is judged, except for the variables of the shell and the content.

    Overlays belong to the content.
    """
    stack = request.stack
    plain = {name: each.model_copy(update={"overlays": ()}) for name, each in stack.repositories.items()}
    return (
        stack.model_copy(update={"repositories": plain}),
        (request.repository, request.case, request.runtime_dir, request.interactive),
        (request.platform, request.device, request.timeout),
        (request.bad_when, request.good_when, request.crash, request.is_command),
    )


def _drop_packages(environment: Mapping[str, str]) -> dict[str, str]:
    """Return an environment without its packages, which are unknown before a slot is set up."""
    return {name: text for name, text in environment.items() if not name.startswith("package ")}


def finished_probe(stored: ProbeRow, *, kernels: tuple[str, ...] = ()) -> FinishedProbe:
    """Return a finished probe of the store as the engine has it.

    `kernels` are the names of the kernels in its build, where they matter.
    """
    assert stored.verdict is not None
    judgement = stored.judgement or Judgement.SKIP
    symptoms = None if stored.symptoms is None else Symptoms.from_json(stored.symptoms)
    blames_commit = judgement is Judgement.SKIP and stored.verdict.traits.judges_commit
    return FinishedProbe(
        number=stored.ordinal,
        content=stored.content,
        phase=stored.phase,
        judgement=judgement if stored.likeness is None else Judgement.BAD,
        verdict=stored.verdict,
        verdict_source=stored.verdict_source,
        signature=stored.signature,
        evidence=_summary_evidence(stored),
        metrics=stored.metrics or {},
        place=place_of_row(stored),
        kernels=kernels,
        errors=compiler_errors(line.text for line in stored.evidence) if blames_commit else (),
        symptoms=symptoms,
        times=_times(stored),
    )


def place_of_row(stored: ProbeRow) -> str | None:
    """Return the host and slot of a stored probe as one name. Return None where the slot is unknown."""
    return None if stored.slot is None else place_name(stored.host, stored.slot)


def _times(stored: ProbeRow) -> ProbeTimes:
    return ProbeTimes(
        build_source=stored.build_source or BuildSource.NONE,
        build_seconds=stored.build_seconds or 0.0,
        run_seconds=stored.run_seconds or 0.0,
    )


def _summary_evidence(stored: ProbeRow) -> tuple[str, ...]:
    first = stored.evidence[:1]
    if first and first[0].stream == "ending" and len(stored.evidence) > 1:
        # How a run ended says little, so its last printed line is added.
        first = [first[0], stored.evidence[-1]]
    return tuple(line.text for line in first)


def sort_by_end(stored: Iterable[ProbeRow]) -> list[ProbeRow]:
    """Return finished probes in the order in which they ended.

    With several workers they may have started in another order.
    """
    return sorted(stored, key=lambda row: row.finished or row.started)


_MAX_EVIDENCE_LINES = 100
"""At most this many lines of evidence name what fails. The first lines of a run decided its verdict."""


def failure_names(request: BisectRequest, probes: Iterable[ProbeRow]) -> Sequence[str]:
    """Return texts that name what fails: the case, what counts as bad, and what failing runs printed."""
    lines = (line.text for probe in probes if probe.judgement is Judgement.BAD for line in probe.evidence)
    printed = islice(dict.fromkeys(lines), _MAX_EVIDENCE_LINES)
    return [request.case_text, request.bad_when or "", *printed]


def build_in_slot(stored: ProbeRow) -> SlotBuild | None:
    """Return what a finished probe left in its slot. Return None where nothing was built."""
    return slot_build(stored.content, place_of_row(stored), _times(stored))


def undecidable_merge_base(request: BisectRequest, probes: Iterable[ProbeRow]) -> UndecidedError | None:
    """Return the error that the merge base cannot be judged, so the side of the change is unknown.

    None where it can.
    """
    base = request.range.old
    judged = [probe for probe in probes if probe.commit == base]
    if not request.parted or not judged or judged[-1].judgement is not Judgement.SKIP:
        return None
    other, found = request.parted[0], judged[-1]
    old, new = ("good", "bad") if request.seeks is Seeks.REGRESSION else ("bad", "good")
    shown = verdict_phrase(found.verdict or Verdict.UNKNOWN, found.signature, found.verdict_source)
    return UndecidedError(
        f"the merge base {base[:12]} of {old} {other[:12]} and {new} {request.range.new[:12]} cannot be judged "
        f"({shown}): on which side the change lies is unknown; fix that and resume, or name a commit between "
        f"{base[:12]} and {request.range.new[:12]} as --{old}"
    )


def merge_base_finding(request: BisectRequest, probes: Iterable[ProbeRow]) -> EndsError | None:
    """Return the error that the change lies on the other branch. None where the merge base does not show that."""
    base = request.range.old
    unexpected = Judgement.BAD if request.seeks is Seeks.REGRESSION else Judgement.GOOD
    if not request.parted or not any(
        probe.commit == base and probe.judgement is unexpected for probe in probes
    ):
        return None
    return request.range.other_side_error(base, role="merge base", old=request.parted[0])
