"""Decides which failures are the failing end's, and what the runs of one target make it.

`judge_by_likeness` judges the failed runs of a command by their likeness to the failing end's. A failure that surely is
another one is a skip, because it may hide the end's. One that is unsure counts first as what is likelier. Before the
search names a commit, it goes on with only the failures that surely are the end's (`Reading`).

`ErrorScale` judges the mismatches of a case by the size of their errors. `judge_target` and `passes_needed` judge one
target outside a search. `require_pass`, `require_judged` and `require_test` raise the error of an end
that cannot be judged.
"""

import math
from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from enum import Enum
from functools import lru_cache
from itertools import groupby
from statistics import median
from typing import TypeVar

from ...runner.errors import EndsError, UserError
from ...runner.verdict.likeness import SURE_LIKENESS, differ_in_code_alone, likeness, passes_failing_test
from ...runner.verdict.rules import MEASURES, ErrorSize, Metrics, error_size
from ...runner.verdict.symptoms import Symptoms
from ...store.vocabulary import Judgement, Phase, Seeks, Verdict, VerdictSource, plural, verdict_phrase
from ..history.questions import AskRange, AskTarget
from ..history.range import LoadedRange, Target
from .runs import BisectionKnowledge, FinishedProbe, ProbeLog, failing_end

_MIN_WIDTH = 1.0
"""A scale is at least this wide, in powers of ten. Unrelated commits reorder sums and so change an error a little."""
_SPREADS = 3.0
"""The width is this many times the largest distance of the bad end's own runs from their median."""
_SMALLEST, _LARGEST = 1e-300, 1e300
"""A smaller or larger error counts as these. 0 has no logarithm, and that of the largest float may be rounded up."""
_MAX_PLAIN_WIDTH = 6.0
"""A wider scale is shown as a power of ten."""


def _logarithm(size: float) -> float:
    return math.log10(min(max(size, _SMALLEST), _LARGEST))


@dataclass(frozen=True, kw_only=True)
class ErrorScale:
    """The size of the errors at the bad end. An error of another size shows another fault.

    Where the scale errs, a commit is skipped that could have been judged. That costs runs, but names no wrong commit.
    """

    measure: str
    centre: float | None
    """The median of the errors. None where they are not finite."""
    width: float
    """An error has the same size within a factor of 10 to this power, which may be too large for a float."""

    @classmethod
    def from_runs(cls, failing: Sequence[Metrics]) -> "ErrorScale | None":
        """Return the scale of the bad end's failing runs.

        Return None where they share no measure, or where only some of their errors are finite.
        """
        for measure in MEASURES:
            sizes = [size.value for size in (error_size(run, measure) for run in failing) if size is not None]
            if not sizes or len(sizes) < len(failing):
                continue
            if all(map(math.isinf, sizes)):
                return cls(measure=measure, centre=None, width=0.0)
            if any(map(math.isinf, sizes)):
                return None
            logarithms = [*map(_logarithm, sizes)]
            middle = median(logarithms)
            spread = max(abs(value - middle) for value in logarithms)
            return cls(measure=measure, centre=10**middle, width=max(_MIN_WIDTH, _SPREADS * spread))
        return None

    def is_other(self, metrics: Metrics) -> bool:
        """Return whether the error of a run has another size. It has not where it was not measured."""
        size = error_size(metrics, self.measure)
        if size is None:
            return False
        if self.centre is None or math.isinf(size.value):
            return (self.centre is None) != math.isinf(size.value)
        # A quotient of the two may be too small for a float.
        return abs(_logarithm(size.value) - _logarithm(self.centre)) > self.width

    def __str__(self) -> str:
        if self.centre is None:
            return "not finite"
        factor = f"1e{self.width:.0f}" if self.width > _MAX_PLAIN_WIDTH else f"{10**self.width:.0f}"
        return f"{ErrorSize(self.measure, self.centre)}, within a factor of {factor}"


_T = TypeVar("_T")
_MANY_CODES = 3
"""From this many exit codes on, the codes may be counts of what failed, or chance."""
_OTHER_VALUES = 0.98
"""A failure with the end's message and other values is the end's with this probability.

It is below `SURE_LIKENESS`, so that the search looks for a pass between the two. Without one, the failure counts as the
end's."""
_MANY_VALUES = 3
"""This many contents that fail, each with values of its own, show that the values are random."""
_SEEN_FAILURES, _MAX_RUNS = 6, 24
"""A difference in nothing but the exit code counts once the failing end has failed, or was run, this often. Of two
equally likely codes, 6 failures show both with 97 %."""


class Reading(Enum):
    """Which failures count as the failing end's. The value is the least likeness of one that counts."""

    ANY = 0.0
    LIKELY = 0.5
    SURE = SURE_LIKENESS


@dataclass(frozen=True)
class EndFailure:
    """The failure of the failing end, and what passing runs show."""

    end_symptoms: tuple[Symptoms, ...]
    """What failed runs of the failing end showed."""
    passing: tuple[Symptoms, ...]
    """What all passing runs showed."""
    passing_end: tuple[Symptoms, ...] = ()
    """What passing runs of the passing end showed."""

    def likeness(self, symptoms: Symptoms) -> float:
        """Return the chance that a failed run shows the end's failure."""
        return _likeness(symptoms, self.end_symptoms, self.passing)

    def judge(self, symptoms: Symptoms, likeness: float) -> Judgement:
        """Return the judgement of a failed run from its likeness.

        Another failure is a skip. It is good where the test that fails at the end passes, and only other tests fail.
        """
        if likeness > 1 - SURE_LIKENESS:
            return Judgement.BAD
        passes = passes_failing_test(symptoms, self.end_symptoms, self.passing_end)
        return Judgement.GOOD if passes else Judgement.SKIP

    def may_leave_out_test(self, symptoms: Symptoms) -> bool:
        """Return whether a passing run may have left out the test that fails.

        It may where it ran fewer tests than both ends, skipped more, or says that it checked nothing. What the passing
        end shows too proves nothing.
        """
        if not self.passing_end or symptoms in self.passing_end:
            return False
        ends = (*self.passing_end, *self.end_symptoms)
        ran_at_ends = [each.tests for each in ends if each.tests is not None]
        ran_fewer = (
            symptoms.tests is not None and len(ran_at_ends) == len(ends) and symptoms.tests < min(ran_at_ends)
        )
        skipped_more = symptoms.skipped_tests > max(each.skipped_tests for each in ends)
        ran_none = symptoms.ran_no_test and not any(each.ran_no_test for each in self.passing_end)
        checked_less = all(symptoms.leaves_out_checks(each) for each in self.passing_end)
        return ran_fewer or skipped_more or ran_none or checked_less


def end_failure(log: ProbeLog, content: str) -> EndFailure | None:
    """Return the failure of the end with this content. Return None where it was not seen to fail yet.

    A run that does not get as far as the check may show a flaky disturbance. It counts only where no other run does.
    """
    shown = _distinct_symptoms(probe for probe in log.probes_for(content) if probe.judgement is Judgement.BAD)
    checked = tuple(each for each in shown if not _is_unchecked(each))
    passing_end = _distinct_symptoms(
        probe for probe in log.ended if probe.phase is Phase.ENDPOINT and probe.judgement is Judgement.GOOD
    )
    return EndFailure(checked or shown, passing_symptoms(log), passing_end) if shown else None


def end_may_be_disturbed(log: ProbeLog, content: str) -> bool:
    """Return whether the failing end has failed, but never as late as in its check."""
    failure = end_failure(log, content)
    return failure is not None and all(map(_is_unchecked, failure.end_symptoms))


def run_of_end(log: ProbeLog, content: str) -> FinishedProbe | None:
    """Return a run of the failing end that shows its failure, as of `end_failure`."""
    failure = end_failure(log, content)
    shown = () if failure is None else failure.end_symptoms
    return next((probe for probe in log.probes_for(content) if probe.symptoms in shown), None)


def judge_by_likeness(known: BisectionKnowledge) -> BisectionKnowledge:
    """Return the knowledge, with each failed run of a command judged by its likeness to the failing end's."""
    end = _failing_end(known)
    if not known.question.compares_failures or end is None:
        return known
    failure = end_failure(known.log, end.content)
    ignores_codes = failure is not None and _codes_are_counts(known, failure, end)
    runs = tuple(
        _judge_failure(
            probe,
            failure,
            end,
            ignores_codes=ignores_codes,
            crash_is_bad=known.question.crash_is_bad,
        )
        for probe in known.log.ended
    )
    if failure is not None:
        runs = _doubt_other_values(runs, failure, end.content, _question_range(known))
    return replace(known, log=replace(known.log, ended=runs))


def _doubt_other_values(
    runs: Sequence[FinishedProbe], failure: EndFailure, end: str, loaded: LoadedRange | None
) -> tuple[FinishedProbe, ...]:
    """Return the runs, of which those are unsure that fail as the end does, but with unexplained other values."""
    shown = {
        probe.number: probe.symptoms.unusual_values(failure.passing)
        for probe in runs
        if probe.judgement is Judgement.BAD and probe.likeness >= SURE_LIKENESS and probe.symptoms is not None
    }
    end_values = next(
        (shown[probe.number] for probe in runs if probe.content == end and probe.number in shown), None
    )
    if not end_values:
        return tuple(runs)
    # An error that only one of two runs shows is no other value.
    values = {
        number: tuple(each.get(error, value) for error, value in end_values.items())
        for number, each in shown.items()
        if not each.keys().isdisjoint(end_values)
    }
    by_content: dict[str, set[tuple[str, ...]]] = {}
    for probe in runs:
        if probe.number in values:
            by_content.setdefault(probe.content, set()).add(values[probe.number])
    at_end = by_content[end]
    if {*values.values()} <= at_end or _are_random(by_content, loaded):
        return tuple(runs)
    explained = _explained_values(by_content, at_end, loaded)
    return tuple(
        replace(probe, likeness=_OTHER_VALUES)
        if probe.number in values and values[probe.number] not in explained
        else probe
        for probe in runs
    )


def _are_random(by_content: Mapping[str, set[tuple[str, ...]]], loaded: LoadedRange | None) -> bool:
    """Return whether the values of a failure change by themselves.

    They do where they change within one content, with each content, or back and forth between commits.
    """
    if any(len(each) > 1 for each in by_content.values()):
        return True
    every = set[tuple[str, ...]]().union(*by_content.values())
    if len(by_content) >= _MANY_VALUES and len(every) == len(by_content):
        return True
    return loaded is not None and len(_stretches(by_content, loaded.candidate_contents)) > len(every)


def _explained_values(
    by_content: Mapping[str, set[tuple[str, ...]]], at_end: Set[tuple[str, ...]], loaded: LoadedRange | None
) -> set[tuple[str, ...]]:
    """Return the values of the end, and those that changed into them from one commit to the next, without a pass."""
    explained = {*at_end}
    if loaded is None:
        return explained
    shown = [by_content.get(content or "", set()) for content in loaded.candidate_contents]
    edges = [
        (shown[parent], shown[node])
        for node, parents in enumerate(loaded.graph.parents)
        for parent in parents
    ]
    while more := {value for before, after in edges if after & explained for value in before - explained}:
        explained |= more
    return explained


def _judge_failure(
    probe: FinishedProbe,
    failure: EndFailure | None,
    end: Target,
    *,
    ignores_codes: bool,
    crash_is_bad: bool,
) -> FinishedProbe:
    """Return a run, judged by its likeness to the end's failure. `ignores_codes` is as of `_codes_are_counts`."""
    shown = probe.symptoms
    if shown is None or (crash_is_bad and shown.is_crash):
        return probe
    is_pass = probe.judgement is Judgement.GOOD
    if is_pass and failure is not None and failure.may_leave_out_test(shown):
        return replace(probe, judgement=Judgement.SKIP)
    if probe.judgement is not Judgement.BAD:
        return probe
    if failure is None:
        is_other_crash = shown.is_crash and probe.content != end.content
        return replace(probe, judgement=Judgement.SKIP) if is_other_crash else probe
    if probe.content == end.content and shown in failure.end_symptoms:
        return probe
    likeness = failure.likeness(shown)
    if ignores_codes and differ_in_code_alone(shown, failure.end_symptoms):
        likeness = 1.0
    return replace(
        probe,
        judgement=failure.judge(shown, likeness),
        likeness=likeness,
        symptoms=shown.subtract_usual(failure.passing),
    )


def skip_uncounted(log: ProbeLog, reading: Reading) -> ProbeLog:
    """Return the log, in which each failure that a reading does not count is a skip."""
    ended = (
        replace(probe, judgement=Judgement.SKIP)
        if probe.judgement is Judgement.BAD and probe.likeness < reading.value
        else probe
        for probe in log.ended
    )
    return replace(log, ended=tuple(ended))


def drop_machine_failures(log: ProbeLog) -> ProbeLog:
    """Return the log without skips that the machine may have caused. A second probe of the same content counts."""
    ended = tuple(
        probe
        for probe in log.ended
        if probe.judgement is not Judgement.SKIP
        or not probe.may_be_machine
        or len(log.probes_for(probe.content)) > 1
    )
    return replace(log, ended=ended)


def is_unsure(probe: FinishedProbe) -> bool:
    """Return whether a run failed in a way that may be the failing end's or another one."""
    return probe.judgement is Judgement.BAD and probe.likeness < SURE_LIKENESS


def uncounted_failures(log: ProbeLog, reading: Reading) -> tuple[int, ...]:
    """Return the numbers, in ascending order, of the failed runs that a reading does not count."""
    return tuple(
        sorted(
            probe.number
            for probe in log.ended
            if probe.likeness <= 1 - SURE_LIKENESS or probe.likeness < reading.value
        )
    )


def rerun_end(known: BisectionKnowledge, end: str) -> bool:
    """Return whether the failing end has to be run again before a difference in the exit code alone counts."""
    failure = end_failure(known.log, end)
    unsure = (probe.symptoms for probe in known.log.ended if is_unsure(probe))
    differs_in_code = failure is not None and any(
        shown is not None and differ_in_code_alone(shown, failure.end_symptoms) for shown in unsure
    )
    tally = known.log.tally(end)
    return differs_in_code and tally[Judgement.BAD] < _SEEN_FAILURES and tally.total() < _MAX_RUNS


def shares_of_readings(log: ProbeLog) -> Mapping[Reading, float]:
    """Return the probability that each reading is the right one.

    A reading is as likely as the least likely failure that it counts. A wider reading counts all that a narrower one
    does, so its share is subtracted.
    """
    unsure = [probe.likeness for probe in log.ended if is_unsure(probe)]
    any_share = min(unsure, default=1.0)
    likely_share = min((each for each in unsure if each >= Reading.LIKELY.value), default=1.0)
    return {Reading.ANY: any_share, Reading.LIKELY: likely_share - any_share, Reading.SURE: 1 - likely_share}


@lru_cache(maxsize=1 << 14)
def _likeness(symptoms: Symptoms, at_end: tuple[Symptoms, ...], passing: tuple[Symptoms, ...]) -> float:
    return likeness(symptoms, at_end, passing)


def passing_symptoms(log: ProbeLog) -> tuple[Symptoms, ...]:
    """Return the distinct symptoms of passing runs."""
    return _distinct_symptoms(probe for probe in log.ended if probe.judgement is Judgement.GOOD)


def _distinct_symptoms(probes: Iterable[FinishedProbe]) -> tuple[Symptoms, ...]:
    return tuple(dict.fromkeys(probe.symptoms for probe in probes if probe.symptoms is not None))


def _is_unchecked(symptoms: Symptoms) -> bool:
    return bool(symptoms.causes) and all(each.family.prevents_check for each in symptoms.causes)


def _failing_end(known: BisectionKnowledge) -> Target | None:
    """Return the failing end of the question. Return None before its target is known."""
    if (loaded := _question_range(known)) is not None:
        return failing_end(loaded)
    search_range = known.question.range
    failing = (
        search_range.repository,
        search_range.new if search_range.seeks is Seeks.REGRESSION else search_range.old,
    )
    for question, answer in known.answers:
        if isinstance(question, AskTarget) and (question.repository, question.commit) == failing:
            return answer if isinstance(answer, Target) else None
    return None


def _question_range(known: BisectionKnowledge) -> LoadedRange | None:
    """Return the range of the question, as it was read last. Return None before it is loaded."""
    for question, answer in reversed(known.answers):
        if isinstance(question, AskRange) and question.ordinal == 1 and isinstance(answer, LoadedRange):
            return answer
    return None


def _codes_are_counts(known: BisectionKnowledge, failure: EndFailure, end: Target) -> bool:
    """Return whether exit codes count what failed, or are chance, so that they do not distinguish failures.

    They do where failures differ in nothing else, there are many codes, and not each has a stretch of its own.
    """
    codes: dict[str, set[int]] = {}
    for probe in known.log.ended:
        shown = probe.symptoms
        if probe.judgement is not Judgement.BAD or shown is None:
            continue
        if probe.content == end.content or differ_in_code_alone(shown, failure.end_symptoms):
            codes.setdefault(probe.content, set()).add(shown.exit_code)
    every = set[int]().union(*codes.values())
    loaded = _question_range(known)
    stretches = _stretches(codes, codes if loaded is None else loaded.candidate_contents)
    each_alone = len(stretches) == len(every) and all(len(shown) == 1 for shown in stretches)
    return len(every) >= _MANY_CODES and not each_alone


def _stretches(shown: Mapping[str, set[_T]], contents: Iterable[str | None]) -> list[set[_T]]:
    """Return what failing contents show, in the order of `contents`. Neighbours that show the same have one entry."""
    return [
        each for each, _ in groupby(shown[content] for content in filter(None, contents) if content in shown)
    ]


_SURE = 0.99
"""An event is excluded with this confidence, the same that a culprit needs by default."""
HANG_ADVICE = "if to hang is the failure, -- timeout SECONDS COMMAND ends it with exit code 124, which is bad"
"""The advice for a command that does not end."""
_MAX_LOST_RUNS = 3
"""An end is given up once its lost runs exceed its judged runs by this many. Fewer may be lost to something flaky."""
_MISSED_FAILURE = 0.002
"""The chance, at most, that a bad commit counts as good because its failure is flaky."""


def judge_target(log: ProbeLog, target: Target, *, passes: int = 1) -> Judgement | None:
    """Return the judgement of a target. Return None where one more run has to decide.

    One failure makes it bad, and enough passes make it good: `passes_needed`, and at least `passes`. A run that neither
    passes nor fails makes it a skip.
    """
    tally = log.tally(target.content)
    if tally[Judgement.BAD]:
        return Judgement.BAD
    if tally[Judgement.GOOD] >= passes_needed(log, least=passes):
        return Judgement.GOOD
    return Judgement.SKIP if tally[Judgement.SKIP] else None


def passes_needed(log: ProbeLog, *, least: int = 1) -> int:
    """Return how many passes make a target good.

    They are `least` if bad targets have failed in every run so far. Where the failure is flaky, they are as many as
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

    `by_command` says that a command or a person judges.
    """
    require_test(probes, "good", good)
    for probe in probes:
        if probe.verdict is Verdict.NOT_VALIDATED:
            raise UserError(
                f"good {good.commit[:12]}: expected a validated pass, found {describe_probe(probe)}: nothing was "
                "compared, so it proves nothing; give the case a golden_fn, or --golden-data DIR"
            )
    if lost := _lost_probes(probes):
        last = lost[-1]
        advice = "fix that first, then resume, or name another good commit"
        is_hang = by_command and last.verdict is Verdict.TIMEOUT
        if is_hang or last.verdict.traits.remedy is not None or last.verdict_source is VerdictSource.PERSON:
            advice = _end_advice(last, by_command=by_command)
        raise UserError(
            f"good {good.commit[:12]}: expected a validated pass, found {_describe_lost(lost)}; {advice}"
        )


def require_judged(probes: Sequence[FinishedProbe], bad: Target, *, by_command: bool) -> None:
    """Raise `UserError` where probes of the bad end could not be judged, and one more is not worth it.

    `by_command` is as of `require_pass`.
    """
    if lost := _lost_probes(probes):
        raise UserError(
            f"bad {bad.commit[:12]}: expected a run that passes or fails as asked, found {_describe_lost(lost)}; "
            f"{_end_advice(lost[-1], by_command=by_command)}"
        )


def require_test(probes: Sequence[FinishedProbe], end: str, target: Target) -> None:
    """Raise `EndsError` where pytest did not find the test at an end, because another run would not find it either."""
    for probe in probes:
        if probe.judgement is Judgement.BAD and probe.symptoms is not None and probe.symptoms.missing_test:
            hint = next((text for text in probe.evidence if text.startswith("did you mean")), None)
            advice = (
                hint
                or "if it is younger than this commit, lay its file over every commit with --overlay FILE"
            )
            raise EndsError(
                f"{end} {target.commit[:12]}: expected the test {probe.symptoms.missing_test}, found none by that "
                f"name; {advice}"
            )


def never_shown_error(end: Target, wanted: Judgement, runs: int) -> EndsError:
    """Return the error of an end that never showed `wanted` in so many runs. It names the rate that these exclude."""
    shown, verb = ("failure", "passes") if wanted is Judgement.GOOD else ("pass", "fails")
    return EndsError(
        f"{wanted.value} {end.commit[:12]}: expected a commit where the case {verb}, "
        f"found {plural(runs, shown)} in a row; name another commit, or if it {verb} in fewer than "
        f"{round(100 * highest_rate(runs))} % of its runs, let one command behind -- repeat the case"
    )


def highest_rate(runs: int) -> float:
    """Return the highest rate that an event can have which none of so many runs showed, with 99 % confidence.

    It is 1 - 0.01^(1 / n) (Clopper and Pearson, 1934).

    >>> round(highest_rate(1), 2), round(highest_rate(24), 3)
    (0.99, 0.175)
    """
    return 1 - (1 - _SURE) ** (1 / runs)


def runs_excluding(rate: float) -> int:
    """Return how many runs without an event exclude that it has this rate, with 99 % confidence.

    >>> runs_excluding(0.5), runs_excluding(0.05)
    (7, 90)
    """
    return math.ceil(math.log(1 - _SURE) / math.log(1 - rate))


def describe_probe(probe: FinishedProbe) -> str:
    """Return a verdict with its signature, and evidence that adds to them."""
    words = verdict_phrase(probe.verdict, probe.signature, probe.verdict_source)
    return words + "".join(f": {text[:300]}" for text in probe.evidence if text not in words)


def _lost_probes(probes: Sequence[FinishedProbe]) -> Sequence[FinishedProbe]:
    """Return the unjudged probes of an end if another run is not worth it. Return none elsewhere."""
    lost = [probe for probe in probes if probe.judgement is Judgement.SKIP]
    permanent = [probe for probe in lost if not _is_flaky(probe)]
    too_many = len(lost) >= _MAX_LOST_RUNS + len(probes) - len(lost)
    return permanent or (lost if too_many else ())


def _is_flaky(probe: FinishedProbe) -> bool:
    """Return whether another run may be judged, as after a crash, a device error, or another failure."""
    return probe.verdict.traits.is_intermittent or probe.likeness < 1


def _describe_lost(lost: Sequence[FinishedProbe]) -> str:
    """Return the last lost run in words, and how many there are."""
    return describe_probe(lost[-1]) + (
        f", {plural(len(lost), 'run')} could not be judged" if len(lost) > 1 else ""
    )


def _end_advice(probe: FinishedProbe, *, by_command: bool) -> str:
    """Return the advice for an end that cannot be judged. `probe` is its last one."""
    verdict = probe.verdict
    if verdict.traits.remedy is not None:
        return f"{verdict.traits.remedy}, then resume: what could not be judged is run again"
    if probe.verdict_source is VerdictSource.PERSON:
        return "resume to be asked again, or name another end"
    if by_command and verdict is Verdict.TIMEOUT:
        return f"{HANG_ADVICE}; or give it longer: --timeout"
    if by_command or not verdict.traits.can_be_bad:
        return "fix it and resume, or name another end"
    return f"say what is bad with --bad-when (for instance --bad-when {verdict}), or fix it and resume"
