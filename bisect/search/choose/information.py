"""Information, in bits."""

import numpy as np

from ..evidence.belief import Belief
from ..graph.graph import CommitGraph, Floats


def entropy(probability: Floats) -> Floats:
    """The entropy of a yes-or-no outcome, elementwise: 1 at 1/2, 0 at 0 and 1."""
    yes = np.clip(probability, 0.0, 1.0)
    no = 1.0 - yes
    return -(yes * np.log2(yes, where=yes > 0, out=np.zeros_like(yes))) - (
        no * np.log2(no, where=no > 0, out=np.zeros_like(no))
    )


def information_gain(graph: CommitGraph, belief: Belief) -> Floats:
    """What one run of each commit, the last being `GOOD_END`, tells of the hypothesis. Shape [n + 1].

    With b(v) the ancestors of v, a run of v fails with chance m, the sum of P(c) r(c) over c in b(v), of
    P(c) a(c) over the others, and of what the other hypotheses predict. The mutual information is
    H(m) - H(run | hypothesis), where the second term is the same sum over H(r) and H(a). Of a commit that ran
    before, r and a are what its reruns show: where outcomes may belong to commits, less is to be had there.
    """
    commits, bad, good = belief.commits, belief.fail_if_bad, belief.fail_if_good
    others = np.array([belief.no_culprit, belief.environment])
    rates = np.array([belief.fail_if_no_culprit, belief.fail_if_environment])
    other_fails, other_inherent = float(others @ rates), float(others @ entropy(rates))
    fails = np.append(graph.ancestor_sums(commits * (bad - good)), 0.0) + commits @ good
    inherent = np.append(graph.ancestor_sums(commits * (entropy(bad) - entropy(good))), 0.0)
    inherent += commits @ entropy(good)
    if belief.reruns is not None and belief.reruns.fails:
        run = [*belief.reruns.fails]
        again = np.array([*belief.reruns.fails.values()])
        groups = np.bincount(belief.reruns.of_commit, weights=commits, minlength=again.shape[1])
        fails[run], inherent[run] = again @ groups, entropy(again) @ groups
    return np.maximum(entropy(fails + other_fails) - inherent - other_inherent, 0)
