"""What is believed of the hypotheses, and what runs would show under each."""

from collections.abc import Mapping
from dataclasses import dataclass

from ..graph.graph import Floats, Integers


@dataclass(frozen=True)
class Reruns:
    """How one more run of a commit that ran before would end: its earlier outcomes may be its own.

    of_commit: the group of each commit; shape [n]. fails: for each commit that ran (or `GOOD_END`) the chance that one
    more run fails if the culprit is of each group; shape [g].
    """

    of_commit: Integers
    fails: Mapping[int, Floats]


@dataclass(frozen=True)
class Belief:
    """Probabilities of the hypotheses, and the chance that a further run fails under each.

    commits[c] is the probability that c is to blame; then a run of a commit that never ran fails with chance
    fail_if_bad[c] if it is c or a descendant, with fail_if_good[c] elsewhere; for a commit that ran, see `reruns`.
    Arrays have shape [n]; all probabilities sum to 1.
    """

    commits: Floats
    fail_if_bad: Floats
    fail_if_good: Floats
    no_culprit: float
    fail_if_no_culprit: float
    environment: float
    fail_if_environment: float
    reruns: Reruns | None = None
