"""The phrases of the view: what plain lines and the live picture say alike."""

import math
import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ....runner.probe.records import ProbeResult
from ....runner.verdict.error_size import error_size
from ....store.vocabulary import BuildSource, Judgement, Phase, Seeks
from ....store.words import build_words, duration, plural, verdict_words
from ...engine.bisection import Bisection
from ...engine.known import Known
from ...engine.needs import Confirming, Narrowed
from ...engine.probes import WantedProbe
from ...engine.range_search import RangeSearch
from ...engine.states.judging import highest_rate
from .ends_in_vain import describe_wait
from .progress import StartedProbe

STYLES: Mapping[Judgement, str] = {Judgement.GOOD: "green", Judgement.BAD: "red", Judgement.SKIP: "yellow"}

CANCELLED = "stopped: its result is not waited for any more"


@dataclass(frozen=True, kw_only=True)
class Estimate:
    """How many runs and builds are still to come where every run tells the truth. seconds: what they take; None where
    nothing was timed yet."""

    ends: int
    search: int
    confirm: int
    builds: int
    seconds: float | None

    @property
    def runs(self) -> int:
        """All runs together."""
        return self.ends + self.search + self.confirm


def describe_stage(repository: str, *, commits: int, candidates: int) -> str:
    """The range in one line."""
    text = f"{repository}: {plural(commits, 'commit')} in the range"
    return text if candidates == commits else f"{text}, {candidates} that can change the result"


def describe_run(probe: StartedProbe) -> str:
    """Which run of which commit, and why."""
    return f"run {probe.ordinal:<3} {probe.phase.value:<9} {probe.repository} {probe.commit[:12]}"


def describe_commit(probe: StartedProbe) -> str:
    """When a commit was made and what it says of itself; empty where nothing is known."""
    day = "" if probe.date is None else f"{probe.date:%Y-%m-%d}"
    subject = "".join(letter if letter.isprintable() else " " for letter in probe.subject or "")
    return " ".join(filter(None, (day, subject)))


def describe_reason(probe: StartedProbe) -> str:
    """Why it is run again, or in place of an end, in brackets; empty where it is neither."""
    if probe.again:
        return f"({probe.again})"
    return f"(for {probe.stands_for[:12]}, which reads the same)" if probe.stands_for else ""


def describe_remaining(left: Narrowed) -> str:
    """How much of the search is left."""
    steps = "" if left.expected_steps is None else f", about {plural(math.ceil(left.expected_steps), 'step')}"
    return f"{plural(left.candidates, 'commit')} left{steps}{_more_runs(left.runs)}"


def _more_runs(runs: tuple[int, int] | None) -> str:
    """How long a search goes on whose runs contradict each other."""
    if runs is None:
        return ""
    least, most = runs
    return f", mostly {plural(most, 'more run') if least == most else f'{least} to {most} more runs'}"


def describe_estimate(estimate: Estimate) -> str:
    """What is still to be run, and for how long."""
    kinds = ((estimate.ends, "of the ends"), (estimate.search, "to search"), (estimate.confirm, "to confirm"))
    if not estimate.runs:
        return "no more runs to come"
    parts = ", ".join(f"{count} {what}" for count, what in kinds if count)
    built = f", {plural(estimate.builds, 'build')}" if estimate.builds else ""
    left = "" if estimate.seconds is None else f": {duration(estimate.seconds)}"
    return f"about {plural(estimate.runs, 'run')} to come ({parts}){built}{left}"


def describe_confidence(left: Confirming) -> str:
    """How sure the search is of the one commit that is left."""
    sure = f"confidence {left.confidence:.4f}, asked {left.wanted:g}"
    return f"1 commit left, confirming it beside its parent: {sure}{_more_runs(left.runs)}"


def describe_result(result: ProbeResult) -> str:
    """A verdict with its signature and what it took."""
    found = result.classification
    verdict = verdict_words(found.verdict, found.signature)
    size = error_size(found.metrics)
    error = f"{size}, " if size else ""
    built = result.build_source is not BuildSource.NONE
    build = f"{build_words(result.build_source, result.build_seconds)}, " if built else ""
    return f"{result.judgement.value}: {verdict}, {error}{build}run {result.run_seconds:.1f} s"


def told_of_end(bisection: Bisection | None, probe: StartedProbe, result: ProbeResult) -> Sequence[str]:
    """That an end does not do as it was said to, how long it is waited for, and at last the log on a line of its own,
    where its first run shows that: whoever reads it need not wait for the runs that make it sure."""
    if bisection is None or probe.phase is not Phase.ENDPOINT or probe.again or result.left is not None:
        return ()
    question = bisection.known.question
    regression = question.range.seeks is Seeks.REGRESSION
    good, bad = (question.range.old, question.range.new)[:: 1 if regression else -1]
    end = probe.stands_for or probe.commit
    if end == good and result.judgement is Judgement.BAD and question.gallop is None:
        told, wanted = "the good end fails", Judgement.GOOD
    elif end == bad and result.judgement is Judgement.GOOD:
        told, wanted = "the bad end passes", Judgement.BAD
    else:
        return ()
    if question.parted and end == question.range.old:
        told = f"the merge base {'fails' if regression else 'passes'} too"
    wait = describe_wait(bisection, wanted)
    told = told if wait is None else f"{told}, and {wait}"
    return told, "if that is not as you meant it, stop here and see", str(result.log)


def end_stood_for(search: RangeSearch | None, wanted: WantedProbe) -> str | None:
    """The end of the range that a target is run for, where its commit is another one with the same content."""
    if search is None or wanted.phase is not Phase.ENDPOINT:
        return None
    loaded, target = search.loaded, wanted.target
    ends = ((loaded.old_content, loaded.range.old), (loaded.new_content, loaded.range.new))
    return next((end for content, end in ends if content == target.content and end != target.commit), None)


def why_again(known: Known, wanted: WantedProbe) -> str | None:
    """Why a target that ran before is run once more; None where it did not."""
    earlier = known.log.of(wanted.target.content)
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
        case Phase.ENDPOINT if known.question.end_runs is None:
            done, rare = ("failed", "pass") if always == "fails" else ("passed", "failure")
            rate = f"a {rare} in fewer than {highest_rate(runs):.0%} of its runs is possible"
            return f"again: {plural(runs, 'run')} of this end {done}, {rate}"
        case Phase.ENDPOINT:
            return f"again: to see how surely it {always}"
        case Phase.CONFIRM:
            return f"again: to be sure that it {always}"
        case _:
            many = "one run" if runs == 1 else f"all {runs} runs"
            return f"again: {many} in which it {always} may be chance"


def fitted(text: str, width: int, *, indent: int = 0) -> list[str]:
    """The text in lines of at most `width` columns, broken between words; a longer word stands alone."""
    return textwrap.wrap(
        text,
        max(1, width),
        subsequent_indent=" " * indent,
        break_long_words=False,
        break_on_hyphens=False,
    ) or [""]


def first_words(text: str, width: int) -> str:
    """As many of the first words as fit, with an ellipsis where some do not.

    >>> first_words("one rounding mode", 12), first_words("one", 12)
    ('one …', 'one')
    """
    return textwrap.shorten(text, max(2, width), placeholder=" …")
