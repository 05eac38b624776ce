"""Whether a case that failed passes again. One pass proves nothing where a failure comes and goes."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from ....store.vocabulary import Judgement
from ...engine.log import ProbeLog
from ...engine.probes import FinishedProbe, Target
from ...engine.states.judging import judged, passes_needed
from ...search.model.rates import Rates, fit


@dataclass(frozen=True, kw_only=True)
class Recovery:
    """What the runs of a cell say of its open regression.

    judgement: good where it has recovered, bad where it still fails, None where one more run has to tell. passes: how
    often it has passed since it last failed, of `needed` passes that make it recovered.
    """

    judgement: Judgement | None
    passes: int
    needed: int


def judge_recovery(
    runs: Sequence[FinishedProbe], target: Target, *, bad_end: tuple[int, int] = (0, 0), confidence: float
) -> Recovery:
    """Judge a target by all runs of its cell since the regression was opened, in order.

    bad_end: failures and judged runs of the failing end that the regression's bisection measured. A regression that
    is not fixed is judged to have recovered with a chance of at most 1 - `confidence`, over all nights together and
    over all rates of failing as their prior has them (`fewest_passes`).

    While the regression stands, every commit behind its first failure is bad. So passes before the last run of
    a content that failed are missed failures, and tell the rate; those behind it, whatever their content, are
    what such a commit would show by chance alone. Behind each content that failed there is one chance to err: behind
    the k-th it may be (1 - confidence) / (k (k + 1)), and the sum over all k is 1 - confidence.
    """
    told = [run for run in runs if run.judgement is not Judgement.SKIP]
    failed = {run.content for run in told if run.judgement is Judgement.BAD}
    bad = max((place for place, run in enumerate(told, 1) if run.content in failed), default=0)
    failing, passing = told[:bad], told[bad:]
    failures = bad_end[0] + sum(run.judgement is Judgement.BAD for run in failing)
    attempt = max(1, len(failed))
    least = fewest_passes(
        failures=failures,
        runs=bad_end[1] + len(failing),
        error=(1 - confidence) / (attempt * (attempt + 1)),
    )
    # A fix lies before all of these passes, or there is none.
    log = ProbeLog((*failing, *(replace(run, content=target.content) for run in passing)))
    return Recovery(
        judgement=judged(log, target, passes=least),
        passes=len(passing),
        needed=passes_needed(log, least=least),
    )


def fewest_passes(*, failures: int, runs: int, error: float) -> int:
    """The fewest passes in a row that a commit which still fails shows with a chance of at most `error`.

    failures: of `runs` judged runs of bad commits. The chance of k passes is the posterior predictive probability
    E[(1 - r)^k | failures, runs] (Gelman et al., Bayesian Data Analysis, 3rd ed., section 1.3), with r = P(fail | bad),
    under a prior (`Rates.cautious`) by which r is 1 with probability 1/5, else it is of Beta(1/2, 1/2). So a
    commit that failed in all of its runs may still pass.

    >>> [fewest_passes(failures=n, runs=n, error=0.002) for n in (1, 3, 8, 30)]
    [18, 5, 3, 2]
    >>> fewest_passes(failures=4, runs=8, error=0.002)
    17
    """
    most = 16
    while True:
        passes = np.arange(most + 1.0)
        none = np.zeros_like(passes)
        evidence = fit(
            Rates.cautious(),
            good_fails=none,
            good_passes=none,
            bad_fails=none + failures,
            bad_passes=passes + (runs - failures),
        ).log_evidence
        rare = np.flatnonzero(np.exp(evidence - evidence[0]) <= error)
        if rare.size:
            return int(rare[0])
        most *= 4
