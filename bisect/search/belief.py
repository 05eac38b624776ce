"""What is believed of each hypothesis, and how much a run would tell.

`Belief` holds the probability of each hypothesis and what runs would show under it. `information_gain` and
`JointInformation` are the information of one run, and of several together, in bits. `Knowledge` is what observations
say when they are taken as certain. `prior_weights` judges each commit beforehand by the names of what it touches.
`shared_rates` and `shared_costs` serve several searches beside each other: a build serves all of them, and one culprit
may explain several failures.

`LayerMatrix` is about layers that move at once, and what their old and new versions do together. A layer is a pin that
a commit moves, or what the commit changes itself. A cell says for each layer whether it is old or new. With all of them
old the case is good, with all of them new it is bad. The result is the least sets of layers that make it bad when they
are new.

The matrix assumes that a new layer fixes nothing: where the case is bad, it stays bad when more layers are new. So one
outcome tells of other cells too, and these are not run any more. A cell that does not build, or whose run neither
passes nor fails, is unknown, and never evidence.

`next_cell` chooses the cell that tells most for one run, over all layers at once. It weighs explanations: one layer
does it, or several do together, or either of two sets does. The information of a run is the entropy of its outcome
under the explanations that fit what is known. It counts by the chance that the cell can be tested at all.
"""

import math
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from itertools import combinations, permutations
from math import log
from typing import TypeAlias

import numpy as np

from .graph import CommitGraph, Floats, Integers, Mask
from .hypotheses import GOOD_END
from .testability import Cause


@dataclass(frozen=True)
class Reruns:
    """The chance that one more run of a commit that ran before fails. Its earlier outcomes may be its own.

    of_commit: the group of each commit; shape [n]. fails: for each commit that ran (or `GOOD_END`) the chance that one
    more run fails if the culprit is of each group; shape [g].
    """

    of_commit: Integers
    fails: Mapping[int, Floats]


@dataclass(frozen=True)
class Belief:
    """Probabilities of the hypotheses, and the chance that a further run fails under each.

    commits[c] is the probability that c is to blame. Then a run of a commit that never ran fails with chance
    fail_if_bad[c] if it is c or a descendant, with fail_if_good[c] elsewhere. For a commit that ran, see `reruns`.
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

    def with_prior(self, prior: "Prior") -> "Belief":
        """Return the belief that would hold if the hypotheses had been as probable beforehand as `prior` says."""
        commits = self.commits * prior.commits * len(self.commits)
        others = np.array([self.no_culprit, self.environment]) * prior.others
        total = float(commits.sum() + others.sum())
        return replace(
            self,
            commits=commits / total,
            no_culprit=float(others[0]) / total,
            environment=float(others[1]) / total,
        )


@dataclass(frozen=True, eq=False)
class Prior:
    """What runs of another kind tell of the hypotheses beforehand.

    commits: how probable it is that each is to blame, if any is; shape [n], of sum 1. others: the factor by which it is
    less probable that none is.
    """

    commits: Floats
    others: float


def credible_set(belief: Belief, confidence: float) -> tuple[int, ...]:
    """Return the fewest commits, most probable first, whose probabilities sum to `confidence`. Return all if none
    do."""
    order = np.argsort(-belief.commits, kind="stable")
    enough = int(np.searchsorted(np.cumsum(belief.commits[order]), confidence)) + 1
    return tuple(order[:enough].tolist())


class Outcome(Enum):
    """The outcome of one test of a commit."""

    GOOD = "good"
    BAD = "bad"
    SKIP = "skip"


@dataclass(frozen=True)
class Observation:
    """The outcome of one test of one commit of a graph.

    place: what a rerun may share with others of its commit, such as board and slot; None if nothing. blamed: what the
    errors of a skip blame. alike: for how many commits, all of one content, the one run speaks; each has its part of
    it.
    """

    commit: int
    outcome: Outcome
    place: str | None = None
    blamed: tuple[Cause, ...] = ()
    alike: int = 1


@dataclass(frozen=True, eq=False)
class Knowledge:
    """The suspects that are left, given observations without noise. Made by `start` and `observe`.

    The ends count as tested: the bad end failed, and the good end, outside the graph, passed. A pass clears a commit
    and its ancestors. A fail leaves only its ancestors, as with git. If none of these is left, because a descendant
    passed, the failure was fixed there and came back. Such fails are not explained by the latest change, which is being
    searched, and are kept aside.

    suspects: mask of the commits that may have introduced the failure; never empty.
    outcomes: the last outcome of each tested commit; a skip does not displace a pass or a fail.
    unexplained_fails: commits whose fail no suspect explains, ascending.
    blamed: the files that the errors of skipped commits name.
    """

    graph: CommitGraph
    suspects: Mask
    outcomes: dict[int, Outcome]
    unexplained_fails: tuple[int, ...]
    blamed: dict[int, tuple[Cause, ...]]

    @classmethod
    def start(cls, graph: CommitGraph, observations: Iterable[Observation] = ()) -> "Knowledge":
        """Return what is known when only the ends, and `observations`, have been tested.

        Raises ValueError if two observations of one commit disagree, or the bad end passed.
        """
        outcomes = {graph.bad: Outcome.BAD}
        blamed: dict[int, tuple[Cause, ...]] = {}
        for observation in observations:
            _record(outcomes, observation)
            blamed |= {observation.commit: observation.blamed} if observation.blamed else {}
        return cls._from_outcomes(graph, outcomes, blamed)

    def observe(self, observation: Observation) -> "Knowledge":
        """Return what is known after one more observation. Their order does not matter.

        Raises ValueError if it disagrees with an earlier one of the same commit, the bad end included.
        """
        outcomes = dict(self.outcomes)
        _record(outcomes, observation)
        blamed = {observation.commit: observation.blamed} if observation.blamed else {}
        return self._from_outcomes(self.graph, outcomes, self.blamed | blamed)

    @classmethod
    def _from_outcomes(
        cls, graph: CommitGraph, outcomes: dict[int, Outcome], blamed: dict[int, tuple[Cause, ...]]
    ) -> "Knowledge":
        suspects = np.ones(len(graph), dtype=np.bool_)
        for commit in _commits_with(Outcome.GOOD, outcomes):
            if suspects[commit]:
                suspects &= ~graph.ancestors(commit)
        unexplained: list[int] = []
        for commit in _commits_with(Outcome.BAD, outcomes):
            remaining = suspects & graph.ancestors(commit)
            if remaining.any():
                suspects = remaining
            else:
                unexplained.append(commit)
        return cls(graph, suspects, outcomes, tuple(reversed(unexplained)), blamed)

    @property
    def skipped_commits(self) -> frozenset[int]:
        """Return the commits that could not be tested, suspects or not."""
        return frozenset(_commits_with(Outcome.SKIP, self.outcomes))


def _commits_with(outcome: Outcome, outcomes: dict[int, Outcome]) -> list[int]:
    """Return the commits of that outcome, latest first."""
    return sorted((commit for commit, found in outcomes.items() if found is outcome), reverse=True)


def _record(outcomes: dict[int, Outcome], observation: Observation) -> None:
    commit, outcome = observation.commit, observation.outcome
    earlier = outcomes.get(commit, Outcome.SKIP)
    if earlier is Outcome.SKIP:
        outcomes[commit] = outcome
    elif outcome not in (earlier, Outcome.SKIP):
        raise ValueError(
            f"commit {commit}: expected {earlier.value} as observed before, found {outcome.value}: "
            "the failure is not deterministic, or the environment changed"
        )


_MOST_WEIGHT = 8.0
"""The commit whose paths fit best weighs this many times as much as one that shares no word. Words are a hint, no
proof."""
_WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[0-9]+[a-z]+")
_LEAST_LETTERS = 3
"""Shorter words do not count: two letters occur in too many paths."""


def prior_weights(files: Sequence[Iterable[str]], near: Iterable[str]) -> Floats | None:
    """Return a weight for each commit, from 1 to 8, by the words that its paths share with the names in `near`.

    files: for each commit the paths that it changes. near: names of the case, its kernels. A word counts for more the
    fewer commits touch it (inverse document frequency; Sparck Jones, 1972). A word that all of them touch says nothing.
    The commit with the largest sum weighs 8, and one without a word in common 1. Those between have their sum in the
    exponent. None where no commit has a word in common: then nothing is known.

    >>> prior_weights([["docs/index.md"], ["ops/rms_norm.py", "setup.py"], ["ops/add.py"]], ["test_rms_norm.py::small"])
    array([1., 8., 1.])
    """
    wanted = _words(near)
    shared = [_words(paths) & wanted for paths in files]
    commits = Counter(word for words in shared for word in words)
    scores = np.array([sum(log(len(files) / commits[word]) for word in words) for words in shared])
    if not scores.any():
        return None
    return _MOST_WEIGHT ** (scores / scores.max())


def _words(names: Iterable[str]) -> set[str]:
    """Return the words of some names, whichever way they are joined."""
    return {word.lower() for name in names for word in _WORD.findall(name) if len(word) >= _LEAST_LETTERS}


_SHARED_CULPRIT_SHARE = 0.5
"""This share of a search's prior goes to a culprit in common: a commit that other searches suspect is to blame here
too."""


def shared_rates(builds: Floats, bits: Floats, runs: Floats) -> Floats:
    """Return the most information by cost that a build promises, with runs of it for whichever searches are worth it.

    builds: the cost of each build; shape [n]. bits: what a run of each build tells each search; runs: what it costs
    that search; shapes [m, n]. The result has shape [n] and is 0 where nothing is told.

    The build is paid once. The searches are sorted by the information for the cost of their run, and the first few are
    the best set. One more is worth it as long as it tells more for its run than the set does for all it costs.
    """
    order = np.argsort(-bits / runs, axis=0, kind="stable")
    told = np.cumsum(np.take_along_axis(bits, order, axis=0), axis=0)
    paid = builds + np.cumsum(np.take_along_axis(runs, order, axis=0), axis=0)
    return np.max(told / paid, axis=0)


def shared_costs(rates: Floats, bits: Floats, runs: Floats, builds: Floats) -> Floats:
    """Return what a run costs one search: its own cost, and a part of the build. All arrays have shape [n].

    The part is such that all who share the build get the information of `rates` (of `shared_rates`) for what they pay.
    Together they pay the build once. Where a run tells a search too little to share the build, the search pays for the
    run alone. Its information for that is less than the rate. Where a run tells nothing, the search would pay both.
    """
    told = (bits > 0) & (rates > 0)
    return np.where(told, np.maximum(runs, bits / np.where(told, rates, 1.0)), runs + builds)


def blend_suspicions(weights: Floats | None, suspicions: Sequence[Floats], *, commits: int) -> Floats | None:
    """Return prior weights of a search's commits, given how probable other searches take them to be to blame.

    weights: the search's own, in any unit; None if equal. suspicions: a row for each other search; shapes [commits].
    """
    if not suspicions:
        return weights
    own = np.ones(commits) if weights is None else weights
    return (1 - _SHARED_CULPRIT_SHARE) * own / own.sum() + _SHARED_CULPRIT_SHARE * np.mean(suspicions, axis=0)


def entropy(probability: Floats) -> Floats:
    """Return the entropy of a yes-or-no outcome in bits, elementwise: 1 at 1/2, 0 at 0 and 1."""
    yes = np.clip(probability, 0.0, 1.0)
    no = 1.0 - yes
    return -(yes * np.log2(yes, where=yes > 0, out=np.zeros_like(yes))) - (
        no * np.log2(no, where=no > 0, out=np.zeros_like(no))
    )


def information_gain(graph: CommitGraph, belief: Belief) -> Floats:
    """Return what one run of each commit, the last being `GOOD_END`, tells of the hypothesis. Shape [n + 1].

    With b(v) the ancestors of v, a run of v fails with chance m. This is the sum of P(c) r(c) over c in b(v), of P(c)
    a(c) over the others, and of what the other hypotheses predict. The mutual information is H(m) - H(run |
    hypothesis), where the second term is the same sum over H(r) and H(a). For a commit that ran before, r and a are
    what its reruns show. Where outcomes may belong to commits, reruns tell less.
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


_LEAST_MASS = 1e-3
"""Combinations of outcomes that are less probable than this are left out. Their number doubles with each run."""


@dataclass(frozen=True, eq=False)
class JointInformation:
    """What runs of some commits tell beside each other.

    probability: of the hypotheses, those that no run of `commits` tells apart as one; shape [h]. fails: the chance that
    a run of each of `commits` fails under each of them; shape [k, h].
    """

    commits: tuple[int, ...]
    probability: Floats
    fails: Floats

    @classmethod
    def from_belief(cls, graph: CommitGraph, belief: Belief, commits: Sequence[int]) -> "JointInformation":
        """Return the information of runs of `commits`, of which one may be `GOOD_END`. None may occur twice."""
        below = _descendants(graph, commits)
        again: Mapping[int, Floats] = {} if belief.reruns is None else belief.reruns.fails
        of_group = [0] * len(graph) if belief.reruns is None else belief.reruns.of_commit.tolist()
        groups: dict[tuple[int, int, float, float], int] = {}
        possible = np.flatnonzero(belief.commits > 0).tolist()
        bad, good = belief.fail_if_bad.tolist(), belief.fail_if_good.tolist()
        of_commit = [
            groups.setdefault((below[commit], of_group[commit], bad[commit], good[commit]), len(groups))
            for commit in possible
        ]
        mass = np.bincount(of_commit, weights=belief.commits[possible], minlength=len(groups))
        fails = np.array(
            [
                [
                    again[commit][group]
                    if commit in again
                    else rates[0]
                    if reached >> place & 1
                    else rates[1]
                    for reached, group, *rates in groups
                ]
                + [belief.fail_if_no_culprit, belief.fail_if_environment]
                for place, commit in enumerate(commits)
            ]
        )
        return cls(tuple(commits), np.append(mass, [belief.no_culprit, belief.environment]), fails)

    def added_information(self, others: Iterable[int]) -> Floats:
        """Return what one more run of each of `commits` adds to runs of `others`, all of them among `commits`. Shape
        [k].

        This is the entropy of the run, averaged over the outcomes of the others, less what is left of it when the
        hypothesis is known. (Combinations of outcomes that hardly occur are left out.)
        """
        cases = self.probability[None, :]
        for other in others:
            fails = self.fails[self.commits.index(other)]
            cases = np.concatenate([cases * fails, cases * (1 - fails)])
            cases = cases[cases.sum(axis=1) > _LEAST_MASS]
        mass = cases.sum(axis=1)
        uncertain = mass @ entropy((cases @ self.fails.T) / mass[:, None])
        return np.maximum(uncertain - entropy(self.fails) @ self.probability, 0)


def _descendants(graph: CommitGraph, commits: Sequence[int]) -> list[int]:
    """Return for each commit of the graph a bit for each of `commits` that it leads to, itself included."""
    reached = [0] * len(graph)
    for place, commit in enumerate(commits):
        if commit != GOOD_END:
            reached[commit] |= 1 << place
    for commit in range(len(graph) - 1, -1, -1):
        if bits := reached[commit]:
            for parent in graph.parents[commit]:
                reached[parent] |= bits
    return reached


Cell: TypeAlias = frozenset[str]
"""A cell is named by the layers that are new in it. The others are old."""


@dataclass(frozen=True)
class LayerMatrix:
    """What is known of the cells of some layers. A new matrix knows the two ends; each outcome makes another
    matrix."""

    layers: tuple[str, ...]
    told: Mapping[Cell, Outcome]
    """The outcomes of the cells that were run, both ends among them."""

    @classmethod
    def from_layers(cls, layers: tuple[str, ...]) -> "LayerMatrix":
        """Return the matrix for which only the ends have been run."""
        return cls(layers, {frozenset(): Outcome.GOOD, frozenset(layers): Outcome.BAD})

    def with_outcome(self, cell: Cell, outcome: Outcome) -> "LayerMatrix":
        """Return the matrix with one more outcome."""
        return LayerMatrix(self.layers, {**self.told, cell: outcome})

    def cells(self) -> list[Cell]:
        """Return all cells, those with few new layers first."""
        counts = range(len(self.layers) + 1)
        return [frozenset(chosen) for count in counts for chosen in combinations(self.layers, count)]

    def outcome(self, cell: Cell) -> Outcome | None:
        """Return what is known of a cell, by its own run or by those of others. Return None where nothing is."""
        if cell in self.told:
            return self.told[cell]
        if any(cell < other for other in self._known_cells(Outcome.GOOD)):
            return Outcome.GOOD
        if any(cell > other for other in self._known_cells(Outcome.BAD)):
            return Outcome.BAD
        return None

    def open_cells(self) -> list[Cell]:
        """Return the cells of which nothing is known. Where there are none, `least` is proven."""
        return [cell for cell in self.cells() if self.outcome(cell) is None]

    def least(self) -> list[Cell]:
        """Return the sets of layers that were seen to make the case bad, without those that hold a smaller one.

        Several of them are alternatives: each does it without the others.
        """
        bad = self._known_cells(Outcome.BAD)
        return [cell for cell in bad if not any(other < cell for other in bad)]

    def inseparable(self, cell: Cell) -> bool:
        """Return whether a part of this set could not be tested, so that fewer layers than these may do it too."""
        parts = (frozenset(part) for part in combinations(sorted(cell), len(cell) - 1))
        return any(self.outcome(part) is not Outcome.GOOD for part in parts)

    def _known_cells(self, outcome: Outcome) -> list[Cell]:
        return sorted((cell for cell, told in self.told.items() if told is outcome), key=self._order)

    def _order(self, cell: Cell) -> tuple[int, list[int]]:
        return len(cell), sorted(map(self.layers.index, cell))


_EXTRA_LAYER_FACTOR = 0.1
"""Each further layer that has to be new makes an explanation less likely by this factor. One layer is almost always
enough."""

_TWO_CAUSES_FACTOR = 0.05
"""Two causes are less likely than one by this factor."""

_MOST_LAYERS_OF_EITHER = 2
"""Two causes have at most this many layers each. Larger pairs are many, and nearly impossible."""
_COUPLING_CHANCE = 0.1
"""One layer's new version is assumed to fail with another one's old version with this chance."""

_MOST_COUPLED = 2
"""At most this many pairs of layers are assumed not to work together. Each more multiplies the explanations."""
_LUCK_CHANCE = 0.1
"""Cells cannot be tested for reasons of their own with this chance. Couplings do not explain these."""

_TESTABLE_CHANCE = 0.7
"""A cell can be tested with this chance where its testability is a matter of luck."""

_LEAST_CHANCE = 0.05
"""A cell that is less likely to be testable than this is not run, because its run would most likely tell nothing."""

_Causes = tuple[Cell, ...]
_Pair = tuple[str, str]
"""A pair is a new layer and an old one."""


def next_cell(matrix: LayerMatrix) -> Cell | None:
    """Return the cell to run next. Return None where no cell is open, or none has a chance to be testable."""
    couplings = _possible_couplings(matrix)
    chances = {cell: _chance(cell, matrix, couplings) for cell in matrix.open_cells()}
    fitting = [(causes, weight) for causes, weight in _explanations(matrix.layers) if _fits(causes, matrix)]
    total = sum(weight for _, weight in fitting)

    def value(cell: Cell) -> tuple[float, int]:
        """Return how much a cell tells. Of cells that tell as much, the one nearest to an end wins: it differs least
        from what was built."""
        bad = sum(weight for causes, weight in fitting if _predicts_bad(causes, cell))
        information = _entropy(bad / total) * chances[cell] if total else 0.0
        return round(information, 9), abs(2 * len(cell) - len(matrix.layers))

    worth_it = [cell for cell, chance in chances.items() if chance >= _LEAST_CHANCE]
    return max(worth_it, key=value, default=None)


def _explanations(layers: tuple[str, ...]) -> Iterator[tuple[_Causes, float]]:
    """Yield the sets of layers that may be to blame, each enough by itself, with the weight of all of them together."""
    counts = range(1, len(layers) + 1)
    sets = [frozenset(chosen) for count in counts for chosen in combinations(layers, count)]
    for cause in sets:
        yield (cause,), _weight(cause)
    small = [cause for cause in sets if len(cause) <= _MOST_LAYERS_OF_EITHER]
    for one, other in combinations(small, 2):
        if not one <= other and not other <= one:
            yield (one, other), _TWO_CAUSES_FACTOR * _weight(one) * _weight(other)


def _weight(cause: Cell) -> float:
    return _EXTRA_LAYER_FACTOR ** (len(cause) - 1)


def _predicts_bad(causes: Iterable[Cell], cell: Cell) -> bool:
    return any(cause <= cell for cause in causes)


def _fits(causes: _Causes, matrix: LayerMatrix) -> bool:
    return all(
        _predicts_bad(causes, cell) is (outcome is Outcome.BAD)
        for cell, outcome in matrix.told.items()
        if outcome is not Outcome.SKIP
    )


def _possible_couplings(matrix: LayerMatrix) -> list[tuple[frozenset[_Pair], float]]:
    """Return what may keep cells from being tested: at most two pairs of a new and an old layer that do not work
    together.

    They are weighed as explanations are.
    """
    tested = [_pairs(matrix, cell) for cell, outcome in matrix.told.items() if outcome is not Outcome.SKIP]
    untested = [_pairs(matrix, cell) for cell, outcome in matrix.told.items() if outcome is Outcome.SKIP]
    pairs = [pair for pair in permutations(matrix.layers, 2) if not any(pair in works for works in tested)]
    return [
        (frozenset(coupled), _COUPLING_CHANCE**count)
        for count in range(_MOST_COUPLED + 1)
        for coupled in combinations(pairs, count)
        if all(not seen.isdisjoint(coupled) for seen in untested)
    ]


def _chance(cell: Cell, matrix: LayerMatrix, couplings: Sequence[tuple[frozenset[_Pair], float]]) -> float:
    """Return the chance that a cell can be tested.

    Couplings decide it. Where the untestable cells have nothing in common, luck does.
    """
    outcomes = [outcome for end, outcome in matrix.told.items() if 0 < len(end) < len(matrix.layers)]
    untested = outcomes.count(Outcome.SKIP)
    by_luck = (
        _LUCK_CHANCE * (1 - _TESTABLE_CHANCE) ** untested * _TESTABLE_CHANCE ** (len(outcomes) - untested)
    )
    pairs = _pairs(matrix, cell)
    works = sum(weight for coupled, weight in couplings if coupled.isdisjoint(pairs))
    return (works + by_luck * _TESTABLE_CHANCE) / (sum(weight for _, weight in couplings) + by_luck)


def _pairs(matrix: LayerMatrix, cell: Cell) -> set[_Pair]:
    return {(new, old) for new in cell for old in matrix.layers if old not in cell}


def _entropy(chance: float) -> float:
    """Return the entropy of a yes-or-no outcome, in bits."""
    return -sum(part * math.log2(part) for part in (chance, 1 - chance) if part > 0)
