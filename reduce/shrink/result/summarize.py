"""What a reduction has come to, summed up in the document that is written."""

from __future__ import annotations

from collections.abc import Sequence

from ..minimize.answer import Answer
from ..program.pair import BuildPair
from ..request import ShrinkRequest
from ..shrinker import Shrinker
from .reduction import Baseline, ReductionResult, Size, Substituted
from .verify import VerifiedCandidate


def summarize(
    *,
    request: ShrinkRequest,
    pair: BuildPair,
    differing: Sequence[str],
    shrinker: Shrinker,
    baseline: Baseline,
    failure: str,
    chosen: VerifiedCandidate,
) -> ReductionResult:
    """The result of a search that has ended with `chosen`. `differing` are the kernels whose sources differ in the
    reference, and `failure` is what was looked for, in words."""
    best = chosen.candidate
    kept = pair.submitted(best)
    left = pair.order.kernels(best)
    answers = list(shrinker.journal.answers.values())
    return ReductionResult(
        failing_build=str(request.failing),
        reference=str(request.reference) if request.reference is not None else None,
        stopped="budget" if shrinker.stopped else "done",
        failure=failure,
        signature=chosen.signature,
        extents=best.extents,
        blocks=best.blocks,
        plain_inputs=best.plain,
        statements_dropped=len(best.statements),
        rewritten_kernels=tuple(name for name, _ in best.rewritten),
        kept_tasks=tuple(f"{task}: {pair.tasks[task].name}" for task in kept),
        missing_tasks=tuple(
            f"{pair.both.in_reference[task]}: {pair.tasks[task].name}"
            for task in best.tasks
            if task in pair.missing
        ),
        kernels_of_failing_build=tuple(sorted(left.intersection(differing).difference(best.collapsed))),
        tasks=Size(before=len(pair.submitted(pair.order.whole)), after=len(kept)),
        kernels=Size(before=len(pair.both.failing.config.kernels), after=len(left)),
        bytes=Size(before=pair.failing_cut(pair.order.whole).bytes, after=chosen.failing.cut.bytes),
        baseline=baseline,
        oracle_calls=shrinker.calls,
        cached=shrinker.cached,
        invalid=answers.count(Answer.INVALID),
        slipped=answers.count(Answer.SLIPPED),
        preloaded=request.failing_toolchain.preloaded,
        substituted=tuple(Substituted(**vars(boundary)) for boundary in chosen.failing.cut.boundaries),
        verified=chosen.verified,
    )
