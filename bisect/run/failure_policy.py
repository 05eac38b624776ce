"""What a failure counts as: another failure than the one that is searched for is a skip."""

from collections.abc import Iterable
from dataclasses import replace

from ...runner.probe.judgement import names_error
from ...runner.probe.records import ProbeResult
from ...runner.verdict.error_size import error_size
from ...store.vocabulary import Evidence, Judgement, Phase
from ..engine.bisection import Bisection
from ..engine.probes import FinishedProbe

_LEAST_TIMEOUT = 60.0
_TIMES_THE_ENDS = 10


def told_apart(bisection: Bisection, content: str, result: ProbeResult, *, is_predicate: bool) -> ProbeResult:
    """The result; a skip where it failed otherwise than the failing end: with an error of another size, or, of a
    predicate, with a compiler's error where that end has none, or the other way round."""
    if result.judgement is not Judgement.BAD:
        return result
    return (
        _other_error(bisection, content, result) if is_predicate else _other_size(bisection, content, result)
    )


def _other_error(bisection: Bisection, content: str, result: ProbeResult) -> ProbeResult:
    known = bisection.failing_signatures()
    if known is None or content == known[1]:
        return result
    at_end = {names_error(signature) for signature in known[0]}
    signature = result.classification.signature
    if names_error(signature) in at_end:
        return result
    return _skip(result, shown=signature or "", at_end=known[0][0], signature=signature)


def _other_size(bisection: Bisection, content: str, result: ProbeResult) -> ProbeResult:
    known = bisection.error_scale()
    if known is None or content == known[1]:
        return result
    scale = known[0]
    classification = result.classification
    size = error_size(classification.metrics, scale.measure)
    if size is None or not scale.is_other(classification.metrics):
        return result
    signature = f"{classification.signature or 'mismatch'}, {size}"
    return _skip(result, shown=str(size), at_end=str(scale), signature=signature)


def _skip(result: ProbeResult, *, shown: str, at_end: str, signature: str | None) -> ProbeResult:
    why = f"another failure: at the failing end it is {at_end}"
    evidence = Evidence(stream="ending", line=0, text=shown, why=why)
    classification = result.classification
    other = replace(classification, signature=signature, evidence=(evidence, *classification.evidence))
    return replace(result, classification=other, judgement=Judgement.SKIP)


def run_timeout(finished: Iterable[FinishedProbe], *, asked: float | None, at_most: float) -> float:
    """Seconds for the next run: what was asked, else ten times the longest run at an end, else `at_most`."""
    if asked is not None:
        return asked
    ends = [probe.times.run_seconds for probe in finished if probe.phase is Phase.ENDPOINT]
    return max(_LEAST_TIMEOUT, _TIMES_THE_ENDS * max(ends)) if any(ends) else at_most
