"""What a failure counts as: another failure than the one that is searched for is a skip."""

from collections.abc import Iterable
from dataclasses import replace

from ...runner.probe.records import ProbeResult
from ...store.vocabulary import Evidence, Judgement, Phase
from ..engine.bisection import Bisection
from ..engine.error_scale import error_size
from ..engine.probes import FinishedProbe

_LEAST_TIMEOUT = 60.0
_TIMES_THE_ENDS = 10


def told_apart(bisection: Bisection, content: str, result: ProbeResult) -> ProbeResult:
    """The result; a skip with a signature of its own where its error has not the size of the failing end's."""
    known = bisection.error_scale()
    if known is None or result.judgement is not Judgement.BAD:
        return result
    scale, failing_content = known
    if content == failing_content:
        return result
    classification = result.classification
    size = error_size(classification.metrics, scale.measure)
    if size is None or not scale.is_other(classification.metrics):
        return result
    why = f"another failure: at the failing end it is {scale}"
    evidence = Evidence(stream="ending", line=0, text=str(size), why=why)
    other = replace(
        classification,
        signature=f"{classification.signature or 'mismatch'}, {size}",
        evidence=(evidence, *classification.evidence),
    )
    return replace(result, classification=other, judgement=Judgement.SKIP)


def run_timeout(finished: Iterable[FinishedProbe], *, asked: float | None, at_most: float) -> float:
    """Seconds for the next run: what was asked, else ten times the longest run at an end, else `at_most`."""
    if asked is not None:
        return asked
    ends = [probe.times.run_seconds for probe in finished if probe.phase is Phase.ENDPOINT]
    return max(_LEAST_TIMEOUT, _TIMES_THE_ENDS * max(ends)) if any(ends) else at_most
