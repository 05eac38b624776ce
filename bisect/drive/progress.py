"""The events of a running bisection for whoever shows it, and the two views that show it.

`PlainProgress` writes lines for logs and pipes: one when a run starts, and its verdict below. It wraps none of them.
`LiveProgress` draws the range, what is still to come, and what each slot does, on a terminal. Verdicts stay above the
picture. The `describe_*` functions give the phrases that both share.

`DryRun` goes on with a bisection on made-up results, to see what the engine itself would ask for. A large range is
estimated by the entropy that is left instead. Estimates assume that every run tells the truth, up to a confirmed
culprit.
"""

import math
import textwrap
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from itertools import pairwise
from statistics import fmean
from types import TracebackType
from typing import Protocol, Self

import numpy as np
from rich.console import Console, ConsoleOptions, Group, RenderResult
from rich.live import Live
from rich.text import Text
from typing_extensions import override

from ...runner.errors import EndsError, UserError
from ...runner.probe.probe import ProbeResult
from ...runner.verdict.rules import error_size
from ...store.vocabulary import (
    BuildSource,
    Judgement,
    Phase,
    Seeks,
    Verdict,
    build_words,
    duration,
    plural,
    verdict_words,
)
from ..engine.answer import Conclusion
from ..engine.bisection import (
    Bisection,
    DataFrozen,
    ProbeFinished,
    ProbesCancelled,
    ProbeStarted,
    QuestionAnswered,
)
from ..engine.failures import highest_rate, runs_excluding
from ..engine.range_search import Context, RangeSearch, Timings, available_builds
from ..engine.runs import (
    BisectionKnowledge,
    BisectionQuestion,
    ConfirmationProgress,
    FinishedProbe,
    Needs,
    ProbeLog,
    ProbeTimes,
    RunningProbe,
    SearchProgress,
    WantedProbe,
    failing_end,
    passing_end,
)
from ..history.questions import AskBlamedFile, AskRange, HistoryQuestion
from ..history.range import LoadedRange, Target
from ..search.graph import Floats
from ..search.halving import expected_steps
from ..search.hypotheses import GOOD_END
from ..search.posterior import Posterior

_MAX_STEPS = 400
"""A dry run ends after this many steps. A search that never settles must not keep the user waiting."""
_DRY_RUN_CONTEXT = Context()
_COUNTED_PHASES = (Phase.ENDPOINT, Phase.SEARCH, Phase.CONFIRM)


class DryRun:
    """Goes on with a bisection on one worker and made-up results.

    A content fails if `fails` says so. `runs` counts the made-up runs of each phase, and `contents` holds what was run.
    """

    def __init__(self, bisection: Bisection, fails: Callable[[str], bool]) -> None:
        self.bisection = bisection
        self.runs: Counter[Phase] = Counter()
        self.contents: set[str] = set()
        self._fails = fails
        for probe in bisection.known.log.running:
            self._finish(probe)

    def run_to_culprit(self) -> bool:
        """Go on to the confirmed culprit, and return whether it was reached.

        What follows the culprit is asked of git and cannot be foreseen. The culprit is not reached where git is asked
        before it what an error blames. Raises `UserError` where the bisection would.
        """
        for _ in range(_MAX_STEPS):
            self.bisection, needs = self.bisection.next(_DRY_RUN_CONTEXT)
            if isinstance(needs, Conclusion) or any(
                wanted.phase not in _COUNTED_PHASES for wanted in needs.start
            ):
                return True
            if any(isinstance(question, AskBlamedFile) for question in needs.load):
                return False
            if any(map(_follows_culprit, needs.load)):
                return True
            self._serve(needs)
        return False

    def next_wanted_probe(self, context: Context) -> WantedProbe | None:
        """Return the first run that the bisection asks for.

        Return None where it has ended, or where an answer of git decides. Raises `UserError` where the bisection
        would.
        """
        self.bisection, needs = self.bisection.next(context)
        if isinstance(needs, Needs) and needs.freeze is not None:
            self.bisection, needs = self.bisection.apply_event(DataFrozen()).next(context)
        return needs.start[0] if isinstance(needs, Needs) and needs.start else None

    def _serve(self, needs: Needs) -> None:
        if needs.freeze is not None:
            self.bisection = self.bisection.apply_event(DataFrozen())
        if needs.cancel:
            self.bisection = self.bisection.apply_event(ProbesCancelled(needs.cancel))
        for wanted in needs.start:
            self._start(wanted)

    def _start(self, wanted: WantedProbe) -> None:
        number = 1 + max((probe.number for probe in self.bisection.known.log.ended), default=0)
        running = RunningProbe(number=number, wanted=wanted)
        self.bisection = self.bisection.apply_event(ProbeStarted(running))
        self._finish(running)

    def _finish(self, running: RunningProbe) -> None:
        target = running.wanted.target
        self.runs[running.wanted.phase] += 1
        self.contents.add(target.content)
        fails = self._fails(target.content)
        finished = FinishedProbe(
            number=running.number,
            content=target.content,
            phase=running.wanted.phase,
            judgement=Judgement.BAD if fails else Judgement.GOOD,
            verdict=Verdict.MISMATCH if fails else Verdict.PASS,
            metrics={},
            times=ProbeTimes(build_source=BuildSource.NONE, build_seconds=0.0, run_seconds=0.0),
        )
        self.bisection = self.bisection.apply_event(ProbeFinished(finished))


def _follows_culprit(question: HistoryQuestion) -> bool:
    return not isinstance(question, AskRange)


_REPORTED_RATE = 0.5
"""The notice about an unexpected end says how many runs exclude an event of this rate."""


def wait_limit(bisection: Bisection, wanted: Judgement) -> int | None:
    """Return how often the end that should show `wanted` is run in all, if it never shows it, until the bisection
    ends.

    The other end is assumed to behave as the user said. Return None where the range is not open, or where the
    bisection would go on.
    """
    search = bisection.state.search
    if search is None:
        return None
    good, bad = passing_end(search.loaded), failing_end(search.loaded)
    end = good if wanted is Judgement.GOOD else bad
    always_fails = wanted is Judgement.GOOD
    rehearsal = DryRun(
        bisection, lambda content: always_fails if content == end.content else content == bad.content
    )
    try:
        rehearsal.run_to_culprit()
    except EndsError:
        return len(rehearsal.bisection.known.log.probes_for(end.content))
    return None


def describe_wait(bisection: Bisection, wanted: Judgement) -> str | None:
    """Describe how often an unexpected end is run again, and what that many runs exclude.

    Return None where it is not run again.
    """
    most = wait_limit(bisection, wanted)
    if most is None:
        return None
    verb, shown = ("passes", "failures") if wanted is Judgement.GOOD else ("fails", "passes")
    first, *further = [
        (runs, rate)
        for runs, rate in [(runs_excluding(_REPORTED_RATE), _REPORTED_RATE), (most, highest_rate(most))]
        if runs <= most
    ]
    rarer = "".join(f", {runs} in fewer than {rate:.0%}" for runs, rate in further)
    times = f"{plural(most, 'time')}{_wait_condition(bisection, wanted)}"
    return (
        f"is run until it {verb}, at most {times}: {first[0]} {shown} in a row show "
        f"that it {verb} in fewer than {first[1]:.0%} of its runs{rarer} (99 %)"
    )


def _wait_condition(bisection: Bisection, wanted: Judgement) -> str:
    """Say that the wait depends on the other end, where that has not run yet. Two ends that behave alike end the
    bisection."""
    search = bisection.state.search
    assert search is not None
    other, does = (
        (failing_end(search.loaded), "the bad end fails")
        if wanted is Judgement.GOOD
        else (passing_end(search.loaded), "the good end passes")
    )
    return "" if bisection.known.log.probes_for(other.content) else f", if {does}"


def describe_waits(bisection: Bisection) -> str | None:
    """Describe how often either end is run if it behaves unexpectedly. None where that is unknown."""
    good, bad = (wait_limit(bisection, wanted) for wanted in (Judgement.GOOD, Judgement.BAD))
    if good is None or bad is None:
        return None
    return f"a good end that fails is run up to {plural(good, 'time')}, a bad one that passes {bad}"


@dataclass(frozen=True, kw_only=True)
class StartedProbe:
    """A probe that starts.

    `subject` and `date` are those of its commit. `again` says why it runs once more. `stands_for` is the end that it
    represents, where that is another commit with the same content.
    """

    ordinal: int
    phase: Phase
    repository: str
    commit: str
    subject: str | None = None
    date: datetime | None = None
    rerun_reason: str | None = None
    stands_for: str | None = None


class Progress(Protocol):
    """Hears from the driver what happens."""

    def show_state(self, bisection: Bisection) -> None:
        """The bisection has come this far. This call comes before any other that follows from it."""
        ...

    def show_range(self, repository: str, *, commits: int, candidates: int) -> None:
        """A range is going to be searched: `candidates` of its `commits` are left after the collapse."""
        ...

    def show_remaining(self, left: SearchProgress) -> None:
        """The search has narrowed the range, or begins."""
        ...

    def show_confirmation(self, left: ConfirmationProgress) -> None:
        """One commit is left. It runs beside its parent until the asked confidence is reached."""
        ...

    def probe_started(self, probe: StartedProbe) -> None:
        """A probe starts."""
        ...

    def show_activity(self, ordinal: int, where: str, text: str) -> None:
        """A worker does something for a probe. `where` is a slot; on a farm it also names the machine."""
        ...

    def probe_finished(self, ordinal: int, result: ProbeResult) -> None:
        """A probe is finished and stored."""
        ...

    def probe_cancelled(self, ordinal: int) -> None:
        """A probe was stopped because its result is no longer needed."""
        ...

    def notice(self, text: str) -> None:
        """A warning."""
        ...


STYLES: Mapping[Judgement, str] = {Judgement.GOOD: "green", Judgement.BAD: "red", Judgement.SKIP: "yellow"}

CANCELLED = "stopped: its result is not waited for any more"


@dataclass(frozen=True, kw_only=True)
class Estimate:
    """How many runs and builds are still to come if every run tells the truth.

    `seconds` is the time they take. It is None where nothing was timed yet.
    """

    ends: int
    search: int
    confirm: int
    builds: int
    seconds: float | None

    @property
    def runs(self) -> int:
        """Return the number of all runs together."""
        return self.ends + self.search + self.confirm


def describe_stage(repository: str, *, commits: int, candidates: int) -> str:
    """Describe a range in one line."""
    text = f"{repository}: {plural(commits, 'commit')} in the range"
    return text if candidates == commits else f"{text}, {candidates} that can change the result"


def describe_run(probe: StartedProbe) -> str:
    """Describe which run of which commit starts, and in which phase."""
    return f"run {probe.ordinal:<3} {probe.phase.value:<9} {probe.repository} {probe.commit[:12]}"


def describe_commit(probe: StartedProbe) -> str:
    """Describe a commit by its date and subject. Empty where nothing is known."""
    day = "" if probe.date is None else f"{probe.date:%Y-%m-%d}"
    subject = "".join(letter if letter.isprintable() else " " for letter in probe.subject or "")
    return " ".join(filter(None, (day, subject)))


def describe_reason(probe: StartedProbe) -> str:
    """Say in brackets why a commit is run again, or in place of an end. Empty where it is neither."""
    if probe.rerun_reason:
        return f"({probe.rerun_reason})"
    return f"(for {probe.stands_for[:12]}, which reads the same)" if probe.stands_for else ""


def describe_remaining(left: SearchProgress) -> str:
    """Describe how much of the search is left."""
    steps = "" if left.expected_steps is None else f", about {plural(math.ceil(left.expected_steps), 'step')}"
    return f"{plural(left.candidates, 'commit')} left{steps}{_more_runs(left.runs)}"


def _more_runs(runs: tuple[int, int] | None) -> str:
    """Say how long a search goes on whose runs contradict each other."""
    if runs is None:
        return ""
    least, most = runs
    return f", mostly {plural(most, 'more run') if least == most else f'{least} to {most} more runs'}"


def describe_estimate(estimate: Estimate) -> str:
    """Describe what is still to be run, and for how long."""
    kinds = ((estimate.ends, "of the ends"), (estimate.search, "to search"), (estimate.confirm, "to confirm"))
    if not estimate.runs:
        return "no more runs to come"
    parts = ", ".join(f"{count} {what}" for count, what in kinds if count)
    built = f", {plural(estimate.builds, 'build')}" if estimate.builds else ""
    left = "" if estimate.seconds is None else f": {duration(estimate.seconds)}"
    return f"about {plural(estimate.runs, 'run')} to come ({parts}){built}{left}"


def describe_confidence(left: ConfirmationProgress) -> str:
    """Describe how sure the search is of the one commit that is left."""
    sure = f"confidence {left.confidence:.4f}, asked {left.wanted:g}"
    return f"1 commit left, confirming it beside its parent: {sure}{_more_runs(left.runs)}"


def describe_result(result: ProbeResult) -> str:
    """Describe a verdict with its signature, and the time that the run took."""
    found = result.classification
    verdict = verdict_words(found.verdict, found.signature, found.source)
    if found.verdict is Verdict.PASS and result.judgement is Judgement.BAD:
        verdict = f"what --bad-when asks for was seen, verdict {verdict}"
    size = error_size(found.metrics)
    error = f"{size}, " if size else ""
    built = result.build_source is not BuildSource.NONE
    build = f"{build_words(result.build_source, result.build_seconds)}, " if built else ""
    return f"{result.judgement.value}: {verdict}, {error}{build}run {result.run_seconds:.1f} s"


def unexpected_end_notice(
    bisection: Bisection | None, probe: StartedProbe, result: ProbeResult
) -> Sequence[str]:
    """Return a notice if the first run of an end shows that the end behaves unexpectedly.

    The lines say what the end does, how many reruns remain, and last the path of the log. A reader can act on it
    without waiting for the reruns that make it sure.
    """
    if (
        bisection is None
        or probe.phase is not Phase.ENDPOINT
        or probe.rerun_reason
        or result.left is not None
    ):
        return ()
    question = bisection.known.question
    regression = question.range.seeks is Seeks.REGRESSION
    good, bad = (question.range.old, question.range.new)[:: 1 if regression else -1]
    end = probe.stands_for or probe.commit
    if end == good and result.judgement is Judgement.BAD and not question.gallop:
        notice, wanted = "the good end fails", Judgement.GOOD
    elif end == bad and result.judgement is Judgement.GOOD:
        notice, wanted = "the bad end passes", Judgement.BAD
    else:
        return ()
    if question.parted and end == question.range.old:
        notice = f"the merge base {'fails' if regression else 'passes'} too"
    wait = describe_wait(bisection, wanted)
    notice = notice if wait is None else f"{notice}, and {wait}"
    return notice, "if that is not as you meant it, stop here and see", str(result.log)


def represented_end(search: RangeSearch | None, wanted: WantedProbe) -> str | None:
    """Return the end of the range that a target represents, where its commit is another one with the same content."""
    if search is None or wanted.phase is not Phase.ENDPOINT:
        return None
    loaded, target = search.loaded, wanted.target
    ends = ((loaded.old_content, loaded.range.old), (loaded.new_content, loaded.range.new))
    return next((end for content, end in ends if content == target.content and end != target.commit), None)


def rerun_reason(known: BisectionKnowledge, wanted: WantedProbe) -> str | None:
    """Say why a target that ran before is run once more. None where it did not run."""
    earlier = known.log.probes_for(wanted.target.content)
    if not earlier:
        return None
    if all(probe.judgement is Judgement.SKIP for probe in earlier):
        return "again: it could not be judged"
    if wanted.phase is Phase.ENDPOINT and known.log.ended[-1].judgement is Judgement.SKIP:
        return "again: to see whether it can still be judged"
    if len({probe.judgement for probe in earlier} - {Judgement.SKIP}) > 1:
        return "again: its runs contradict each other"
    always = "fails" if earlier[-1].judgement is Judgement.BAD else "passes"
    runs = sum(probe.judgement is not Judgement.SKIP for probe in earlier)
    match wanted.phase:
        case Phase.ENDPOINT:
            done, rare = ("failed", "pass") if always == "fails" else ("passed", "failure")
            rate = f"a {rare} in fewer than {highest_rate(runs):.0%} of its runs is possible"
            return f"again: {plural(runs, 'run')} of this end {done}, {rate}"
        case Phase.CONFIRM:
            return f"again: to be sure that it {always}"
        case _:
            done, rare = ("failed", "pass") if always == "fails" else ("passed", "fail")
            if runs == 1:
                return f"again: it {done} in its one run, which may be chance"
            return f"again: it {done} in all {runs} runs, and may still {rare} now and then"


def wrap_text(text: str, width: int, *, indent: int = 0) -> list[str]:
    """Return the text in lines of at most `width` columns, broken between words. A longer word has its own line."""
    return textwrap.wrap(
        text,
        max(1, width),
        subsequent_indent=" " * indent,
        break_long_words=False,
        break_on_hyphens=False,
    ) or [""]


def first_words(text: str, width: int) -> str:
    """Return as many of the first words as fit, with an ellipsis where some do not.

    >>> first_words("one rounding mode", 12), first_words("one", 12)
    ('one …', 'one')
    """
    return textwrap.shorten(text, max(2, width), placeholder=" …")


_SINGLE_WORKER_CONTEXT = Context()
_MAX_DRY_RUN_CANDIDATES, _MAX_DRY_RUN_WINDOWS = 1000, 100
"""No dry run is made of a range with more candidates, or with more undone changes. Each of its steps looks at all of
them."""


def estimate_rest(bisection: Bisection, *, builds: bool = True) -> Estimate | None:
    """Return what is to come of a bisection whose range is open.

    Return None where that is unknown: where runs contradict each other, or under a perturbation. `builds` says that
    the stack has steps, which build something.
    """
    search = bisection.state.search
    if search is None or search.unperturbed is not None:
        return None
    posterior = search.posterior(bisection.known, _SINGLE_WORKER_CONTEXT)
    if posterior.certain is None:
        return None
    estimate = (
        _estimate_by_dry_run(bisection, search)
        if len(posterior.graph) <= _MAX_DRY_RUN_CANDIDATES
        and len(search.loaded.windows) <= _MAX_DRY_RUN_WINDOWS
        else _estimate_by_entropy(
            bisection,
            search,
            suspects=int(posterior.certain.suspects.sum()),
            likeliest=float(posterior.belief.commits.max()),
        )
    )
    return estimate if builds or estimate is None else replace(estimate, builds=0)


def next_build(bisection: Bisection, context: Context) -> Target | None:
    """Return what has probably to be built next, once the runs in flight have ended.

    Return None where it is built already, or where that is unknown.
    """
    search = bisection.state.search
    if search is None:
        return None
    try:
        wanted = DryRun(bisection, _middle_culprit_fails(bisection, search)).next_wanted_probe(context)
    except UserError:
        return None
    if wanted is None:
        return None
    log = bisection.known.log
    running = (probe.wanted.target.content for probe in log.running)
    available = available_builds(search.loaded, log, (*context.built, *running))
    return None if search.loaded.build_of(wanted.target.content) in available else wanted.target


def initial_bisection(question: BisectionQuestion, loaded: LoadedRange) -> Bisection | None:
    """Return the bisection before its first run. None where it ends before that."""
    bisection = Bisection.start(question).apply_event(
        QuestionAnswered(AskRange(ordinal=1, range=question.range), loaded)
    )
    try:
        bisection, needs = bisection.next(_SINGLE_WORKER_CONTEXT)
        if isinstance(needs, Needs) and needs.freeze is not None:
            bisection, _ = bisection.apply_event(DataFrozen()).next(_SINGLE_WORKER_CONTEXT)
    except UserError:
        return None
    return bisection


def _estimate_by_dry_run(bisection: Bisection, search: RangeSearch) -> Estimate | None:
    dry_run = DryRun(bisection, _middle_culprit_fails(bisection, search))
    try:
        if not dry_run.run_to_culprit():
            return None
    except UserError:
        return None
    builds = {*map(search.loaded.build_of, dry_run.contents)}
    unbuilt = builds - available_builds(search.loaded, bisection.known.log)
    return _estimate_seconds(bisection, search, dry_run.runs, builds=len(unbuilt))


def _estimate_by_entropy(
    bisection: Bisection, search: RangeSearch, *, suspects: int, likeliest: float
) -> Estimate:
    """Return what is to come without a dry run, whose time grows with the range.

    The search halves the suspects. Each run that confirms then halves the doubt in the likeliest of them, whose
    probability is `likeliest`.
    """
    known, loaded = bisection.known, search.loaded
    ends = {loaded.old_content, loaded.new_content} - {probe.content for probe in known.log.ended}
    doubt = (1 - likeliest) / (1 - known.question.confidence)
    runs = Counter(
        {
            Phase.ENDPOINT: len(ends),
            Phase.SEARCH: math.ceil(expected_steps(suspects)),
            Phase.CONFIRM: math.ceil(math.log2(max(1.0, doubt))),
        }
    )
    contents = [
        loaded.old_content,
        *(content for content in loaded.candidate_contents if content is not None),
    ]
    unbuilt = {*map(loaded.build_of, contents)} - available_builds(loaded, known.log)
    return _estimate_seconds(
        bisection, search, runs, builds=min(len(unbuilt), runs[Phase.ENDPOINT] + runs[Phase.SEARCH])
    )


def _estimate_seconds(
    bisection: Bisection, search: RangeSearch, runs: Mapping[Phase, int], *, builds: int
) -> Estimate:
    log = bisection.known.log
    if any(seen.times.run_seconds and not seen.times.was_built for seen in log.ended):
        builds = 0  # the stack has nothing to build
    return Estimate(
        ends=runs[Phase.ENDPOINT],
        search=runs[Phase.SEARCH],
        confirm=runs[Phase.CONFIRM],
        builds=builds,
        seconds=_expected_seconds(
            log, runs=sum(runs.values()), builds=builds, earlier=search.loaded.earlier_seconds
        ),
    )


def _middle_culprit_fails(bisection: Bisection, search: RangeSearch) -> Callable[[str], bool]:
    """Return a function that says which contents fail if one candidate is the culprit.

    That candidate is the one in the middle of the belief that is left, so that the estimate assumes neither good luck
    nor bad luck.
    """
    posterior = search.posterior(bisection.known, _SINGLE_WORKER_CONTEXT)
    belief = _nameable_belief(posterior)
    middle = int(np.argmax(np.cumsum(belief) >= belief.sum() / 2))
    culprit = min(middle, len(belief) - 1)
    evidence = search.evidence

    def fails(content: str) -> bool:
        nodes = [node for node in evidence.nodes_of(content) if node != GOOD_END]
        changed = bool(nodes) and bool(evidence.graph.ancestors(nodes[0])[culprit])
        return changed == (search.loaded.range.seeks is Seeks.REGRESSION)

    return fails


def _nameable_belief(posterior: Posterior) -> Floats:
    """Return the belief in each candidate that can still be named. Shape [n].

    No run so far speaks against these candidates. Commits beside a skipped one are left out, because none of them can
    be named alone.
    """
    belief = posterior.belief.commits
    if posterior.certain is not None:
        belief = np.where(posterior.certain.suspects, belief, 0.0)
    separable = belief.copy()
    separable[[*posterior.graph.with_children(posterior.skipped_commits)]] = 0.0
    return separable if separable.any() else belief


def _expected_seconds(log: ProbeLog, *, runs: int, builds: int, earlier: Sequence[float]) -> float | None:
    """Return the seconds that runs and builds take, judged by those so far. For builds, `earlier` bisections count
    too."""
    timings = Timings.from_probes((probe.times for probe in log.ended), earlier=earlier)
    if timings is not None:
        return runs * timings.run + builds * max(timings.full_build, timings.rebuild)
    run_seconds = [probe.times.run_seconds for probe in log.ended if probe.times.run_seconds]
    return runs * fmean(run_seconds) if run_seconds else None


NOT_RUN, PASSED, FAILED, SKIPPED, RUNNING = ".", "o", "x", "?", "*"
LEGEND = "o passes  x fails  ? skipped  * running  . not run"
_MARK_PRIORITY = (RUNNING, FAILED, PASSED, SKIPPED, NOT_RUN)
"""If several commits share a place of the picture, the first of these marks is shown."""


@dataclass(frozen=True, kw_only=True)
class RangePicture:
    """Candidates from the old end to the new one, each with a mark. `ends` are the words for the two ends."""

    ends: tuple[str, str]
    marks: str

    @classmethod
    def from_search(cls, search: RangeSearch, known: BisectionKnowledge) -> "RangePicture":
        """Return the picture of what the probes show so far, running ones included."""
        running = {probe.wanted.target.content for probe in known.log.running}
        marks = "".join(_marks(search.loaded.candidate_contents, known, running))
        regression = search.loaded.range.seeks is Seeks.REGRESSION
        return cls(ends=("good", "bad") if regression else ("bad", "good"), marks=marks)

    def line(self, width: int) -> str:
        """Return the picture in one line of at most `width` columns. Where they are too few, neighbours share a place.

        >>> RangePicture(ends=("good", "bad"), marks="..x.o.").line(60)
        'good ..x.o. bad'
        >>> RangePicture(ends=("good", "bad"), marks="..x.o.").line(12)
        'good .xo bad'
        """
        old, new = self.ends
        places = max(1, min(len(self.marks), width - len(old) - len(new) - 2))
        bounds = [place * len(self.marks) // places for place in range(places + 1)]
        shared = (self.marks[start:end] for start, end in pairwise(bounds))
        drawn = "".join(next(mark for mark in _MARK_PRIORITY if mark in group) for group in shared if group)
        return f"{old} {drawn} {new}"


def describe_ends(search: RangeSearch, known: BisectionKnowledge) -> str:
    """Say how often each end was seen so far. The number of runs that an end needs is not fixed."""
    seen = (
        f"{word} seen {len(known.log.probes_for(end.content))}"
        for word, end in (("good", passing_end(search.loaded)), ("bad", failing_end(search.loaded)))
    )
    return f"ends: {', '.join(seen)}"


def _marks(contents: Sequence[str | None], known: BisectionKnowledge, running: set[str]) -> Iterator[str]:
    tallies = {probe.content: known.log.tally(probe.content) for probe in known.log.ended}
    none = Counter[Judgement]()
    for content in contents:
        tally = tallies.get(content or "", none)
        if content in running:
            yield RUNNING
        elif tally[Judgement.BAD]:
            yield FAILED
        elif tally[Judgement.GOOD]:
            yield PASSED
        else:
            yield SKIPPED if content is None or tally[Judgement.SKIP] else NOT_RUN


_INDENT_COLUMNS = 8
"""Lines below a run's own are indented by this many columns."""


@dataclass
class _LiveRun:
    probe: StartedProbe
    begun: float
    where: str | None = None
    activity: str = "waiting for a worker"


class LiveProgress(Progress):
    """Lines for each verdict, which stay, above a picture that is redrawn.

    No line is wider than the terminal, and none is broken within a word.
    """

    def __init__(self, console: Console, *, builds: bool = True) -> None:
        self._builds = builds
        self._standing: Bisection | None = None
        self._stage = ""
        self._left = ""
        self._ends = ""
        self._picture: RangePicture | None = None
        self._estimate: Estimate | None = None
        self._foreseen_at = -1
        self._runs: dict[int, _LiveRun] = {}
        self._begun = time.monotonic()
        self._console = console
        self._live = Live(self, console=console, refresh_per_second=4, transient=True)

    def __enter__(self) -> Self:
        self._live.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._live.stop()

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        yield Group(*self._lines(options.max_width))

    def _lines(self, width: int) -> Iterator[Text]:
        yield from _picture_lines(self._stage, width, style="bold")
        if self._picture is not None:
            yield Text(self._picture.line(width), no_wrap=True)
            yield from _picture_lines(LEGEND, width, style="dim")
        yield from _picture_lines("; ".join(filter(None, (self._left, self._ends))), width)
        coming = [] if self._estimate is None else [describe_estimate(self._estimate)]
        yield from _picture_lines(
            "; ".join([*coming, f"{duration(time.monotonic() - self._begun)} so far"]), width
        )
        for run in [*self._runs.values()]:
            where = "" if run.where is None else f"{run.where}: "
            elapsed = duration(time.monotonic() - run.begun)
            yield from _picture_lines(f"{where}{describe_run(run.probe)}, {run.activity}, {elapsed}", width)
            if text := f"{describe_reason(run.probe)} {describe_commit(run.probe)}".strip():
                yield Text(
                    " " * _INDENT_COLUMNS + first_words(text, width - _INDENT_COLUMNS),
                    style="dim",
                    no_wrap=True,
                )

    @override
    def show_state(self, bisection: Bisection) -> None:
        self._standing = bisection
        search = bisection.state.search
        if search is None:
            return
        self._picture = RangePicture.from_search(search, bisection.known)
        self._ends = describe_ends(search, bisection.known)
        ended = len(bisection.known.log.ended)
        if self._estimate is None or ended != self._foreseen_at:
            self._estimate, self._foreseen_at = estimate_rest(bisection, builds=self._builds), ended

    @override
    def show_range(self, repository: str, *, commits: int, candidates: int) -> None:
        self._stage = describe_stage(repository, commits=commits, candidates=candidates)
        self._left = ""

    @override
    def show_remaining(self, left: SearchProgress) -> None:
        self._left = describe_remaining(left)

    @override
    def show_confirmation(self, left: ConfirmationProgress) -> None:
        self._left = describe_confidence(left)

    @override
    def probe_started(self, probe: StartedProbe) -> None:
        self._runs[probe.ordinal] = _LiveRun(probe, begun=time.monotonic())

    @override
    def show_activity(self, ordinal: int, where: str, text: str) -> None:
        self._runs[ordinal].where = where
        self._runs[ordinal].activity = text

    @override
    def probe_finished(self, ordinal: int, result: ProbeResult) -> None:
        probe = self._runs[ordinal].probe
        self._print_result(ordinal, describe_result(result), style=STYLES[result.judgement])
        if notice := unexpected_end_notice(self._standing, probe, result):
            *sentences, log = notice
            for sentence in sentences:
                for part in wrap_text(sentence, self._console.width):
                    self._print(Text(part))
            self._print(Text(log))

    @override
    def probe_cancelled(self, ordinal: int) -> None:
        self._print_result(ordinal, CANCELLED, style="dim")

    def _print_result(self, ordinal: int, text: str, *, style: str) -> None:
        """Print the run with its commit, and below it the result."""
        probe, width = self._runs.pop(ordinal).probe, self._console.width
        title, commit = describe_run(probe), describe_commit(probe)
        room = width - len(title) - 1
        line = Text(title, no_wrap=True)
        if commit and room > _INDENT_COLUMNS:
            line.append(f" {first_words(commit, room)}", style="dim")
        self._print(line)
        line = f"{text} {describe_reason(probe)}".rstrip()
        for part in wrap_text(f"{'':{_INDENT_COLUMNS}}{line}", width, indent=_INDENT_COLUMNS):
            self._print(Text(part, style=style, no_wrap=True))

    def _print(self, line: Text) -> None:
        # A path or a long word is not broken, so that it can be copied.
        self._console.print(line, soft_wrap=True)

    @override
    def notice(self, text: str) -> None:
        for part in wrap_text(f"note: {text}", self._console.width, indent=len("note: ")):
            self._print(Text(part, style="yellow", no_wrap=True))


def _picture_lines(text: str, width: int, *, style: str = "") -> Iterator[Text]:
    """Yield lines of the picture, broken between words.

    What is wider than the terminal is cut, because the height of the picture has to be known.
    """
    if text:
        for part in wrap_text(text, width, indent=2):
            yield Text(part, style=style, no_wrap=True, overflow="ellipsis")


REPORT_INTERVAL = 60.0
"""A run that is still going on gets a line each time this many seconds have passed. More lines would fill a log."""

_MAX_PICTURE_WIDTH = 100
"""The picture in a log has this many columns at most, because a log has no width of its own."""


@dataclass
class _Run:
    probe: StartedProbe
    reported: float = field(default_factory=time.monotonic)
    begun: float = field(default_factory=time.monotonic)
    activity: str = "waiting for a worker"


class PlainProgress(Progress):
    """Writes one line for each event."""

    def __init__(self, console: Console, *, builds: bool = True) -> None:
        self._console = console
        self._builds = builds
        self._runs: dict[int, _Run] = {}
        self._last: int | None = None
        self._standing: Bisection | None = None
        self._left: SearchProgress | None = None
        self._over = threading.Event()
        self._ticker: threading.Thread | None = None

    def __enter__(self) -> Self:
        self._ticker = threading.Thread(target=self._tick, daemon=True)
        self._ticker.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._over.set()
        if self._ticker is not None:
            self._ticker.join()

    def _tick(self) -> None:
        while not self._over.wait(REPORT_INTERVAL / 4):
            self.print_running(time.monotonic())

    def print_running(self, now: float) -> None:
        """Print a line for each run that had none for a minute. `now` is a time of `time.monotonic`."""
        for ordinal, run in [*self._runs.items()]:
            if now - run.reported >= REPORT_INTERVAL:
                run.reported = now
                self._print(f"run {ordinal:<3} {run.activity}, {duration(now - run.begun)} so far")
                self._last = None

    def _print(self, text: str) -> None:
        self._console.print(text, markup=False, highlight=False, soft_wrap=True)

    def _print_about_run(self, ordinal: int, text: str) -> None:
        """Print a line below the run's own, or with the run's number where other lines came between."""
        start = " " * 7 if self._last == ordinal else f"run {ordinal:<3}"
        self._print(f"{start} {text}")
        self._last = None

    @override
    def show_state(self, bisection: Bisection) -> None:
        self._standing = bisection

    @override
    def show_range(self, repository: str, *, commits: int, candidates: int) -> None:
        self._print(describe_stage(repository, commits=commits, candidates=candidates))

    @override
    def show_remaining(self, left: SearchProgress) -> None:
        if left == self._left:
            return  # no run has ended since
        self._left = left
        self._print(describe_remaining(left))
        search = None if self._standing is None else self._standing.state.search
        if self._standing is None or search is None:
            return
        known = self._standing.known
        self._print(f"        {RangePicture.from_search(search, known).line(_MAX_PICTURE_WIDTH)}")
        estimate = estimate_rest(self._standing, builds=self._builds)
        coming = "" if estimate is None else f"; {describe_estimate(estimate)}"
        self._print(f"        {describe_ends(search, known)}{coming}")

    @override
    def show_confirmation(self, left: ConfirmationProgress) -> None:
        self._print(describe_confidence(left))

    @override
    def probe_started(self, probe: StartedProbe) -> None:
        self._runs[probe.ordinal] = _Run(probe)
        parts = (describe_run(probe), describe_commit(probe), describe_reason(probe))
        self._print(" ".join(filter(None, parts)))
        self._last = probe.ordinal

    @override
    def show_activity(self, ordinal: int, where: str, text: str) -> None:
        self._runs[ordinal].activity = text

    @override
    def probe_finished(self, ordinal: int, result: ProbeResult) -> None:
        self._left = None
        run = self._runs.pop(ordinal)
        self._print_about_run(ordinal, describe_result(result))
        for line in unexpected_end_notice(self._standing, run.probe, result):
            self._print(line)

    @override
    def probe_cancelled(self, ordinal: int) -> None:
        self._runs.pop(ordinal, None)
        self._print_about_run(ordinal, CANCELLED)

    @override
    def notice(self, text: str) -> None:
        self._print(f"note: {text}")
        self._last = None
