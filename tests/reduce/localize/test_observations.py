"""The search for first divergences where runs do not agree with each other, on builds that are simulated."""

from __future__ import annotations

import numpy as np

from precision_bisect.reduce.graph.tasks import Dag
from precision_bisect.reduce.localize.first_divergence import Observations


def test_a_task_that_diverged_in_any_run_is_divergent() -> None:
    observations = Observations(Dag(predecessors=((), (0,), (1,)), sizes=(1, 1, 1)))
    observations.observe({0: False, 1: False, 2: True})
    assert observations.firsts().tolist() == [False, False, True]
    observations.observe({1: True})
    assert observations.firsts().tolist() == [False, True, False]
    observations.observe({1: False})
    assert observations.firsts().tolist() == [False, True, False]
    assert not np.any(observations.clean & observations.divergent)
