"""Whether one commit is bad: asked of a single commit, outside of a search."""

import math

from ...store.vocabulary import Judgement, Phase
from .experiments import Experiment, Experiments

_MISSED_FAILURE = 0.002
"""Chance, at most, that a bad commit of a failure that comes and goes is taken for a good one."""


def judge(experiments: Experiments, experiment: Experiment, phase: Phase, *, passes: int = 1) -> Judgement:
    """One failure makes it bad. `passes` make it good where bad commits have failed in every run so far; where they
    fail now and then, as many as make a missed failure unlikely. A run that tells neither makes it a skip."""
    failures, runs = experiments.failures_where_bad()
    if failures < runs:
        misses = 1 - (failures + 0.5) / (runs + 1)
        passes = max(passes, math.ceil(math.log(_MISSED_FAILURE) / math.log(misses)))
    while True:
        tally = experiments.tally(experiment.content)
        if tally[Judgement.BAD]:
            return Judgement.BAD
        if tally[Judgement.GOOD] >= passes:
            return Judgement.GOOD
        if tally[Judgement.SKIP]:
            return Judgement.SKIP
        experiments.run(experiment, phase)
