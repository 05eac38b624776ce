"""Decides which failures are the failing end's: each run is judged by what it shows beside that end.

Of a command (`judge_failures`): a failure that surely is the end's is bad. One that surely is another is a skip,
because it may hide the end's. One in between counts first as what is likelier. Once that has an answer, the search goes
on with the failures alone that surely are the end's. A commit that it then names is right whatever the others are: it
fails as the end does, and its parents pass. Where no commit can be named, each reading has its share in the answer.

Of a case (`ErrorScale`): two faults in one range may both end in a mismatch, but their errors seldom have one size. An
error that is many times larger or smaller than at the bad end is another failure.

The last functions judge one target by its runs, outside a search. `judge_target` and `passes_needed` say what the runs
of a commit make it. `require_pass` and `require_judged` raise the error of an end that cannot be judged.
`never_shown_error` is the error of an end that does not show what it stands for."""

import math
from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from enum import Enum
from functools import lru_cache
from itertools import groupby
from statistics import median
from typing import TypeVar

from ...runner.errors import EndsError, UserError
from ...runner.verdict.likeness import SURELY, differ_in_code_alone, likeness, passes_failing_test
from ...runner.verdict.rules import MEASURES, ErrorSize, Metrics, error_size
from ...runner.verdict.symptoms import Symptoms
from ...store.vocabulary import Judgement, Phase, Seeks, Verdict, VerdictSource, plural, verdict_words
from ..history.questions import AskRange, AskTarget
from ..history.range import LoadedRange, Target
from .runs import BisectionKnowledge, FinishedProbe, ProbeLog, failing_end

_LEAST_WIDTH = 1.0
"""A scale is at least this wide, in powers of ten. Unrelated commits reorder sums, which changes an error a little."""
_SPREADS = 3.0
"""The width is this many times the largest distance of the bad end's own runs from their median."""
_SMALLEST = 1e-300
"""A smaller error counts as this one, because 0 has no logarithm."""


@dataclass(frozen=True, kw_only=True)
class ErrorScale:
    """The size of the errors at the bad end: `centre` (None: not finite), times or over 10 ^ `width`.

    On a logarithmic scale, the width is three times the largest distance of the bad end's own runs from their median.
    It is at least a factor of 10, because unrelated commits reorder sums and move tiles, which changes an error a
    little. Where the scale errs, a commit is skipped that could have been judged. That costs runs and no truth.
    """

    measure: str
    centre: float | None
    width: float

    @classmethod
    def from_runs(cls, failing: Sequence[Metrics]) -> "ErrorScale | None":
        """From the failing runs of the bad end. None where they share no measure, or only some are finite."""
        for measure in MEASURES:
            sizes = [size.value for size in (error_size(run, measure) for run in failing) if size is not None]
            if not sizes or len(sizes) < len(failing):
                continue
            if all(map(math.isinf, sizes)):
                return cls(measure=measure, centre=None, width=0.0)
            if any(map(math.isinf, sizes)):
                return None
            logarithms = [math.log10(max(size, _SMALLEST)) for size in sizes]
            middle = median(logarithms)
            spread = max(abs(value - middle) for value in logarithms)
            return cls(measure=measure, centre=10**middle, width=max(_LEAST_WIDTH, _SPREADS * spread))
        return None

    def is_other(self, metrics: Metrics) -> bool:
        """Return whether a run failed in another way; never so where its error was not measured."""
        size = error_size(metrics, self.measure)
        if size is None:
            return False
        if self.centre is None or math.isinf(size.value):
            return (self.centre is None) != math.isinf(size.value)
        return abs(math.log10(max(size.value, _SMALLEST) / self.centre)) > self.width

    def __str__(self) -> str:
        if self.centre is None:
            return "not finite"
        return f"{ErrorSize(self.measure, self.centre)}, within a factor of {10**self.width:.0f}"


_T = TypeVar("_T")
_MANY_CODES = 3
"""Three exit codes or more, with nothing else to tell failures by, count what failed or are chance."""
_OTHER_VALUES = 0.98
"""A failure with the end's message and other values is the end's with this probability. It is less than `SURELY`, so
that the search looks whether the check passes in between. If it never does, the failure counts as the end's."""
_MANY_VALUES = 3
"""Three contents that fail, each with values of its own, show that values are random: two failures have two values."""
_SEEN_FAILURES, _MOST_RUNS = 6, 24
"""An exit code alone tells another failure once the failing end has failed 6 times, or was run 24 times. Of a failure
that ends with either of two codes equally often, 6 runs show both with 97 %."""


class Reading(Enum):
    """Which failures count: all that may be the failing end's, those that likely are, or those alone that surely
    are. The value is the least likeness of what counts."""

    ANY = 0.0
    LIKELY = 0.5
    SURE = SURELY


@dataclass(frozen=True)
class EndFailure:
    """What the ends show, and what passing runs show. Made by `end_failure`."""

    at_end: tuple[Symptoms, ...]
    passing: tuple[Symptoms, ...]
    passing_end: tuple[Symptoms, ...] = ()
    """What runs of the passing end showed."""

    def likeness(self, symptoms: Symptoms) -> float:
        """The chance that a failed run shows the end's failure."""
        return _likeness(symptoms, self.at_end, self.passing)

    def judge(self, symptoms: Symptoms, likeness: float) -> Judgement:
        """Return what a failed run counts as that shows the end's failure with this chance.

        Another failure is a skip, or good where other tests fail and the test that fails at the end passes."""
        if likeness > 1 - SURELY:
            return Judgement.BAD
        passes = passes_failing_test(symptoms, self.at_end, self.passing_end)
        return Judgement.GOOD if passes else Judgement.SKIP

    def may_leave_out_test(self, symptoms: Symptoms) -> bool:
        """Return whether a passing run may have left out the test that fails.

        It ran none, or fewer than both ends; it skipped more than both; or it says that it checked nothing. What the
        passing end does too is how passing looks."""
        if not self.passing_end or symptoms in self.passing_end:
            return False
        ends = (*self.passing_end, *self.at_end)
        ran = [each.tests for each in ends if each.tests is not None]
        fewer = symptoms.tests is not None and len(ran) == len(ends) and symptoms.tests < min(ran)
        more_skipped = symptoms.skipped_tests > max(each.skipped_tests for each in ends)
        return (
            fewer
            or more_skipped
            or (symptoms.ran_no_test and not any(each.ran_no_test for each in self.passing_end))
            or all(symptoms.leaves_out_checks(each) for each in self.passing_end)
        )


def end_failure(log: ProbeLog, content: str) -> EndFailure | None:
    """Return what the end of this content shows; None where it was not seen to fail yet.

    A run that does not get as far as the check counts only where the end shows nothing else. It may be a disturbance
    that comes and goes."""
    shown = _distinct_symptoms(probe for probe in log.probes_for(content) if probe.judgement is Judgement.BAD)
    checked = tuple(each for each in shown if not _is_unchecked(each))
    passing_end = _distinct_symptoms(
        probe for probe in log.ended if probe.phase is Phase.ENDPOINT and probe.judgement is Judgement.GOOD
    )
    return EndFailure(checked or shown, passing_symptoms(log), passing_end) if shown else None


def end_may_be_disturbed(log: ProbeLog, content: str) -> bool:
    """Return whether no failure of the failing end got as far as its check: another run tells more."""
    failure = end_failure(log, content)
    return failure is not None and all(map(_is_unchecked, failure.at_end))


def run_of_end(log: ProbeLog, content: str) -> FinishedProbe | None:
    """Return a run of the failing end that shows its failure: of a disturbance only where none shows more."""
    failure = end_failure(log, content)
    shown = () if failure is None else failure.at_end
    return next((probe for probe in log.probes_for(content) if probe.symptoms in shown), None)


def judge_failures(known: BisectionKnowledge) -> BisectionKnowledge:
    """Judge each failed run of a command by its likeness to the failing end's."""
    end = _failing_end(known)
    if not known.question.by_likeness or end is None:
        return known
    failure = end_failure(known.log, end.content)
    crash_is_bad = known.question.crash_is_bad
    codes_count = failure is not None and _codes_are_counts(known, failure, end)
    ended = (
        probe
        if crash_is_bad and probe.symptoms is not None and probe.symptoms.is_crash
        else _judge_failure(probe, failure, end, codes_count=codes_count)
        for probe in known.log.ended
    )
    runs = tuple(ended)
    if failure is not None:
        runs = _doubt_other_values(runs, failure, end.content, _asked_range(known))
    return replace(known, log=replace(known.log, ended=runs))


def _doubt_other_values(
    runs: Sequence[FinishedProbe], failure: EndFailure, end: str, loaded: LoadedRange | None
) -> tuple[FinishedProbe, ...]:
    """Make runs unsure that fail as the end does with other values, until it is known that no pass is between."""
    shown = {
        probe.number: probe.symptoms.values_without(failure.passing)
        for probe in runs
        if probe.judgement is Judgement.BAD and probe.likeness >= SURELY and probe.symptoms is not None
    }
    of_end = next(
        (shown[probe.number] for probe in runs if probe.content == end and probe.number in shown), None
    )
    if not of_end:
        return tuple(runs)
    # What else fails in a run, or does not, is no other value.
    values = {
        number: tuple(each.get(error, value) for error, value in of_end.items())
        for number, each in shown.items()
        if not each.keys().isdisjoint(of_end)
    }
    by_content: dict[str, set[tuple[str, ...]]] = {}
    for probe in runs:
        if probe.number in values:
            by_content.setdefault(probe.content, set()).add(values[probe.number])
    at_end = by_content[end]
    if {*values.values()} <= at_end or _are_random(by_content, loaded):
        return tuple(runs)
    known = _joined_values(by_content, at_end, loaded)
    return tuple(
        replace(probe, likeness=_OTHER_VALUES)
        if probe.number in values and values[probe.number] not in known
        else probe
        for probe in runs
    )


def _are_random(by_content: Mapping[str, set[tuple[str, ...]]], loaded: LoadedRange | None) -> bool:
    """Return whether the values of a failure change by themselves: within one content, or back and forth, or with each
    content."""
    if any(len(each) > 1 for each in by_content.values()):
        return True
    every = set[tuple[str, ...]]().union(*by_content.values())
    if len(by_content) >= _MANY_VALUES and len(every) == len(by_content):
        return True
    return loaded is not None and len(_stretches(by_content, loaded.candidate_contents)) > len(every)


def _joined_values(
    by_content: Mapping[str, set[tuple[str, ...]]], at_end: Set[tuple[str, ...]], loaded: LoadedRange | None
) -> set[tuple[str, ...]]:
    """Return the values of the end, and those that a commit turned into them: the check never passed in between."""
    joined = {*at_end}
    if loaded is None:
        return joined
    shown = [by_content.get(content or "", set()) for content in loaded.candidate_contents]
    edges = [
        (shown[parent], shown[node])
        for node, parents in enumerate(loaded.graph.parents)
        for parent in parents
    ]
    while more := {value for before, after in edges if after & joined for value in before - joined}:
        joined |= more
    return joined


def _judge_failure(
    probe: FinishedProbe, failure: EndFailure | None, end: Target, *, codes_count: bool
) -> FinishedProbe:
    shown = probe.symptoms
    if shown is None:
        return probe
    if probe.judgement is Judgement.GOOD and failure is not None:
        return replace(probe, judgement=Judgement.SKIP) if failure.may_leave_out_test(shown) else probe
    if probe.judgement is not Judgement.BAD:
        return probe
    if failure is None:
        is_other_crash = shown.is_crash and probe.content != end.content
        return replace(probe, judgement=Judgement.SKIP) if is_other_crash else probe
    if probe.content == end.content and shown in failure.at_end:
        return probe
    alike = failure.likeness(shown)
    if codes_count and differ_in_code_alone(shown, failure.at_end):
        alike = 1.0
    judgement = failure.judge(shown, alike)
    return replace(probe, judgement=judgement, likeness=alike, symptoms=shown.subtract_usual(failure.passing))


def skip_uncounted(log: ProbeLog, reading: Reading) -> ProbeLog:
    """Return the log, in which a run is a skip whose failure does not count."""
    ended = (
        replace(probe, judgement=Judgement.SKIP)
        if probe.judgement is Judgement.BAD and probe.likeness < reading.value
        else probe
        for probe in log.ended
    )
    return replace(log, ended=tuple(ended))


def drop_machine_failures(log: ProbeLog) -> ProbeLog:
    """Return the log without each skip that may be the machine's and not the commit's, where it is the only probe of
    its content. A second one that ends alike counts."""
    ended = tuple(
        probe
        for probe in log.ended
        if probe.judgement is not Judgement.SKIP
        or not probe.may_be_machine
        or len(log.probes_for(probe.content)) > 1
    )
    return replace(log, ended=ended)


def is_unsure(probe: FinishedProbe) -> bool:
    """Return whether a run failed, and it cannot be told whether for the end's reason."""
    return probe.judgement is Judgement.BAD and probe.likeness < SURELY


def fails_otherwise(log: ProbeLog, reading: Reading) -> tuple[int, ...]:
    """Return the numbers of the runs that failed and do not count: they show another failure, or may."""
    return tuple(
        sorted(
            probe.number
            for probe in log.ended
            if probe.likeness <= 1 - SURELY or probe.likeness < reading.value
        )
    )


def rerun_end(known: BisectionKnowledge, end: str) -> bool:
    """Return whether the failing end has to be run again before an exit code alone tells another failure."""
    failure = end_failure(known.log, end)
    unsure = (probe.symptoms for probe in known.log.ended if is_unsure(probe))
    by_code = failure is not None and any(
        shown is not None and differ_in_code_alone(shown, failure.at_end) for shown in unsure
    )
    tally = known.log.tally(end)
    return by_code and tally[Judgement.BAD] < _SEEN_FAILURES and tally.total() < _MOST_RUNS


def shares_of_readings(log: ProbeLog) -> Mapping[Reading, float]:
    """Return how probable it is that each reading is the right one. The least likely of the failures that a reading
    counts decides; what one reading counts, the wider ones count too."""
    unsure = [probe.likeness for probe in log.ended if is_unsure(probe)]
    of_any = min(unsure, default=1.0)
    of_likely = min((each for each in unsure if each >= Reading.LIKELY.value), default=1.0)
    return {Reading.ANY: of_any, Reading.LIKELY: of_likely - of_any, Reading.SURE: 1 - of_likely}


@lru_cache(maxsize=1 << 14)
def _likeness(symptoms: Symptoms, at_end: tuple[Symptoms, ...], passing: tuple[Symptoms, ...]) -> float:
    return likeness(symptoms, at_end, passing)


def passing_symptoms(log: ProbeLog) -> tuple[Symptoms, ...]:
    """Return what passing runs showed, each once."""
    return _distinct_symptoms(probe for probe in log.ended if probe.judgement is Judgement.GOOD)


def _distinct_symptoms(probes: Iterable[FinishedProbe]) -> tuple[Symptoms, ...]:
    return tuple(dict.fromkeys(probe.symptoms for probe in probes if probe.symptoms is not None))


def _is_unchecked(symptoms: Symptoms) -> bool:
    return bool(symptoms.causes) and all(each.family.prevents_check for each in symptoms.causes)


def _failing_end(known: BisectionKnowledge) -> Target | None:
    """Return the failing end of what was asked; None before it is known."""
    if (loaded := _asked_range(known)) is not None:
        return failing_end(loaded)
    where = known.question.range
    failing = where.repository, where.new if where.seeks is Seeks.REGRESSION else where.old
    for asked, answer in known.answers:
        if isinstance(asked, AskTarget) and (asked.repository, asked.commit) == failing:
            return answer if isinstance(answer, Target) else None
    return None


def _asked_range(known: BisectionKnowledge) -> LoadedRange | None:
    """Return the range that was asked about, not one of a pin; None before it is loaded."""
    for asked, answer in known.answers:
        if isinstance(asked, AskRange) and asked.ordinal == 1 and isinstance(answer, LoadedRange):
            return answer
    return None


def _codes_are_counts(known: BisectionKnowledge, failure: EndFailure, end: Target) -> bool:
    """Return whether exit codes that nothing else goes with count what failed, or are chance. There are many then, and
    not each of them in a stretch of its own."""
    codes: dict[str, set[int]] = {}
    for probe in known.log.ended:
        shown = probe.symptoms
        if probe.judgement is not Judgement.BAD or shown is None:
            continue
        if probe.content == end.content or differ_in_code_alone(shown, failure.at_end):
            codes.setdefault(probe.content, set()).add(shown.exit_code)
    every = set[int]().union(*codes.values())
    loaded = _asked_range(known)
    stretches = _stretches(codes, codes if loaded is None else loaded.candidate_contents)
    each_alone = len(stretches) == len(every) and all(len(shown) == 1 for shown in stretches)
    return len(every) >= _MANY_CODES and not each_alone


def _stretches(shown: Mapping[str, set[_T]], contents: Iterable[str | None]) -> list[set[_T]]:
    """Return what failing contents show, in the order of `contents`; neighbours that show the same count once."""
    return [
        each for each, _ in groupby(shown[content] for content in filter(None, contents) if content in shown)
    ]


_SURE = 0.99
"""An event is excluded with this confidence, the same that a culprit needs by default."""
HANG_ADVICE = "if to hang is the failure, -- timeout SECONDS COMMAND ends it with exit code 124, which is bad"
"""This advice says how to ask about a command that does not end."""
_MAX_LOST_RUNS = 3
"""An end is given up once its lost runs exceed its judged runs by this many. Until then what is flaky may have lost
them."""
_MISSED_FAILURE = 0.002
"""The chance, at most, to take a bad commit for a good one because its failure is flaky."""


def judge_target(log: ProbeLog, target: Target, *, passes: int = 1) -> Judgement | None:
    """Return the judgement of a target, or None where one more run has to tell.

    One failure makes it bad, and at least `passes` passes make it good (`passes_needed`). A run that neither passes nor
    fails makes it a skip.
    """
    tally = log.tally(target.content)
    if tally[Judgement.BAD]:
        return Judgement.BAD
    if tally[Judgement.GOOD] >= passes_needed(log, least=passes):
        return Judgement.GOOD
    return Judgement.SKIP if tally[Judgement.SKIP] else None


def passes_needed(log: ProbeLog, *, least: int = 1) -> int:
    """Return how many passes make a target good.

    That is `least` where bad targets have failed in every run so far. Where they fail now and then, it is as many as
    make a missed failure unlikely.
    """
    failures, runs = log.failures_where_bad()
    if failures == runs:
        return least
    misses = 1 - (failures + 0.5) / (runs + 1)
    return max(least, math.ceil(math.log(_MISSED_FAILURE) / math.log(misses)))


def judged_runs(log: ProbeLog, target: Target) -> list[FinishedProbe]:
    """Return the finished probes of a target that could be judged."""
    return [probe for probe in log.probes_for(target.content) if probe.judgement is not Judgement.SKIP]


def require_pass(probes: Sequence[FinishedProbe], good: Target, *, by_command: bool) -> None:
    """Raise `UserError` where probes of the good end could not be judged, and one more is not worth it.

    by_command: whether a command says what is bad.
    """
    for probe in probes:
        if probe.verdict is Verdict.NOT_VALIDATED:
            raise UserError(
                f"good {good.commit[:12]}: expected a validated pass, found {describe_probe(probe)}: nothing was "
                "compared, so it proves nothing; give the case a golden_fn, or --golden-data DIR"
            )
    if lost := _lost_probes(probes):
        advice = "mend that first, then resume, or name another good commit"
        if lost[-1].verdict_source is VerdictSource.PERSON or (
            by_command and lost[-1].verdict is Verdict.TIMEOUT
        ):
            advice = _end_advice(lost[-1], by_command=by_command)
        raise UserError(
            f"good {good.commit[:12]}: expected a validated pass, found {_describe_lost(lost)}; {advice}"
        )


def require_judged(probes: Sequence[FinishedProbe], bad: Target, *, by_command: bool) -> None:
    """Raise `UserError` where probes of the bad end are skips, and one more is not worth it.

    by_command: whether a command says what is bad.
    """
    if lost := _lost_probes(probes):
        raise UserError(
            f"bad {bad.commit[:12]}: expected a run that passes or fails as asked, found {_describe_lost(lost)}; "
            f"{_end_advice(lost[-1], by_command=by_command)}"
        )


def never_shown_error(end: Target, wanted: Judgement, runs: int) -> EndsError:
    """Return the error of an end that showed the other side in so many runs. It names the rate that these cannot
    exclude."""
    shown, verb = ("failure", "passes") if wanted is Judgement.GOOD else ("pass", "fails")
    return EndsError(
        f"{wanted.value} {end.commit[:12]}: expected a commit where the case {verb}, "
        f"found {plural(runs, shown)} in a row, of which one would have been otherwise if it {verb} in "
        f"{highest_rate(runs):.0%} of its runs or more (99 %); if it {verb} more seldom, have each run repeat the "
        "case, by a command behind --"
    )


def highest_rate(runs: int) -> float:
    """Return the highest rate of an event that none of so many runs showed, with 99 % confidence.

    It is 1 - 0.01^(1 / n) (Clopper and Pearson, 1934).

    >>> round(highest_rate(1), 2), round(highest_rate(24), 3)
    (0.99, 0.175)
    """
    return 1 - (1 - _SURE) ** (1 / runs)


def runs_excluding(rate: float) -> int:
    """Return how many runs in a row must not show an event of this rate, to exclude it with 99 %.

    >>> runs_excluding(0.5), runs_excluding(0.05)
    (7, 90)
    """
    return math.ceil(math.log(1 - _SURE) / math.log(1 - rate))


def describe_probe(probe: FinishedProbe) -> str:
    """Return a verdict with its signature, and the evidence that these do not repeat."""
    words = verdict_words(probe.verdict, probe.signature, probe.verdict_source)
    return words + "".join(f": {text[:300]}" for text in probe.evidence if text not in words)


def _lost_probes(probes: Sequence[FinishedProbe]) -> Sequence[FinishedProbe]:
    """Return the unjudged probes of an end if another run would not help; otherwise nothing.

    Another run may help after a crash, a device error, or a failure other than the searched one.
    """
    lost = [probe for probe in probes if probe.judgement is Judgement.SKIP]
    permanent = [probe for probe in lost if not _is_flaky(probe)]
    too_many = len(lost) >= _MAX_LOST_RUNS + len(probes) - len(lost)
    return permanent or (lost if too_many else ())


def _is_flaky(probe: FinishedProbe) -> bool:
    """Return whether another run may be judged although this one was not.

    The run crashed, its device failed, or it showed another failure.
    """
    return probe.verdict.traits.is_intermittent or probe.likeness < 1


def _describe_lost(lost: Sequence[FinishedProbe]) -> str:
    """Return a description of the last lost run, and how many there are."""
    return describe_probe(lost[-1]) + (
        f", {plural(len(lost), 'run')} could not be judged" if len(lost) > 1 else ""
    )


def _end_advice(probe: FinishedProbe, *, by_command: bool) -> str:
    """Return what to do about an end that cannot be judged."""
    verdict = probe.verdict
    if not verdict.traits.judges_commit:
        return "mend the environment, then resume: what could not be judged is run again"
    if probe.verdict_source is VerdictSource.PERSON:
        return "resume to be asked again, or name another end"
    if by_command and verdict is Verdict.TIMEOUT:
        return f"{HANG_ADVICE}; or give it longer: --timeout"
    if by_command or not verdict.traits.can_be_bad:
        return "mend it and resume, or name another end"
    return f"say what is bad with --bad-when (for instance --bad-when {verdict}), or mend it and resume"
