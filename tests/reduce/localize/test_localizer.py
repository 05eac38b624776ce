"""The search for first divergences where runs do not agree with each other, on builds that are simulated."""

from __future__ import annotations

import numpy as np

from precision_bisect.reduce.graph.dag import Dag
from precision_bisect.reduce.localize.search.evidence import Evidence


def test_a_task_that_diverged_in_any_run_is_divergent() -> None:
    evidence = Evidence(Dag(predecessors=((), (0,), (1,)), sizes=(1, 1, 1)))
    evidence.observe({0: False, 1: False, 2: True})
    assert evidence.firsts().tolist() == [False, False, True]
    evidence.observe({1: True})
    assert evidence.firsts().tolist() == [False, True, False]
    evidence.observe({1: False})
    assert evidence.firsts().tolist() == [False, True, False]
    assert not np.any(evidence.clean & evidence.divergent)
