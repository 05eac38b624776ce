"""Beliefs about who is to blame, and the information that a run gives about it.

`Belief` holds the probability of each hypothesis, and what runs would show under each. `information_gain` and
`JointInformation` measure the information of one run, and of several together, in bits. `Knowledge` is the counterpart
for outcomes without noise: it holds the suspects that are left. `shared_build_rates` and `shared_build_costs` divide
the cost of a build among several searches. `LayerMatrix` and `next_cell` find which of several layers that moved at
once make the case fail.
"""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from itertools import combinations, permutations
from math import log, log2
from typing import TypeAlias

import numpy as np

from .graph import CommitGraph, Floats, Integers, Mask
from .hypotheses import GOOD_END
from .testability import Cause


@dataclass(frozen=True)
class Reruns:
    """The chance that one more run fails of a commit that ran before. Its earlier outcomes may be its own.

    of_commit: the group of each commit; shape [n].
    fails: for each commit that ran (or `GOOD_END`), the chance to fail if the culprit is in each group; shape [g].
    """

    of_commit: Integers
    fails: Mapping[int, Floats]


@dataclass(frozen=True)
class Belief:
    """Probabilities of the hypotheses, and the chance that a further run fails under each.

    commits[c] is the probability that commit c is to blame. If it is, a commit that never ran fails with chance
    fail_if_bad[c] where it is c or a descendant of c. Any other commit that never ran fails with chance
    fail_if_good[c]. `reruns` has the chances of commits that ran. Arrays have shape [n], and all probabilities sum to
    1.
    """

    commits: Floats
    fail_if_bad: Floats
    fail_if_good: Floats
    no_culprit: float
    fail_if_no_culprit: float
    environment: float
    fail_if_environment: float
    reruns: Reruns | None = None

    def apply_prior(self, prior: "Prior") -> "Belief":
        """Return the belief that would hold if the hypotheses had had the probabilities of `prior` beforehand."""
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
    """The probabilities that runs of another kind give the hypotheses beforehand.

    commits: the probability that each commit is to blame, if any is; shape [n], of sum 1.
    others: the factor by which it is less probable that no commit is to blame.
    """

    commits: Floats
    others: float


def prior_by_size(sizes: Floats) -> Prior | None:
    """Return the prior where commit i stands for `sizes[i]` commits, of which each is as likely to blame.

    None where each stands for itself alone.
    """
    return None if (sizes == 1).all() else Prior(sizes / sizes.sum(), others=1.0)


def credible_set(belief: Belief, confidence: float) -> tuple[int, ...]:
    """Return the fewest commits whose probabilities sum to `confidence`, most probable first.

    Returns all commits if their probabilities do not reach it.
    """
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

    place: what a rerun may share with other runs of its commit, such as board and slot. None if nothing is shared.
    blamed: the causes that the errors of a skip name.
    commit_count: the number of commits with the content that ran. The run counts as one, divided equally among them.
    """

    commit: int
    outcome: Outcome
    place: str | None = None
    blamed: tuple[Cause, ...] = ()
    commit_count: int = 1


@dataclass(frozen=True, eq=False)
class Knowledge:
    """The suspects that are left, given observations without noise. Made by `start` and `observe`.

    The ends count as tested: the bad end failed, and the good end, which is not in the graph, passed. A pass clears a
    commit and its ancestors. A failure leaves only the ancestors of its commit as suspects, as in git.

    A failure may have no suspect left, because a descendant of its commit passed. Then the failure was fixed and came
    back. The search is for the latest change, so such failures are set aside in `unexplained_fails`.

    suspects: mask of the commits that may have introduced the failure; never empty.
    outcomes: the last outcome of each tested commit. A skip does not replace a pass or a failure.
    unexplained_fails: commits whose failure no suspect explains, ascending.
    blamed: the causes that the errors of skipped commits name.
    """

    graph: CommitGraph
    suspects: Mask
    outcomes: dict[int, Outcome]
    unexplained_fails: tuple[int, ...]
    blamed: dict[int, tuple[Cause, ...]]

    @classmethod
    def start(cls, graph: CommitGraph, observations: Iterable[Observation] = ()) -> "Knowledge":
        """Return what is known after the ends and `observations` were tested.

        Raises `ValueError` if two observations of one commit disagree, or if the bad end passed.
        """
        outcomes = {graph.bad: Outcome.BAD}
        blamed: dict[int, tuple[Cause, ...]] = {}
        for observation in observations:
            _record(outcomes, observation)
            blamed |= {observation.commit: observation.blamed} if observation.blamed else {}
        return cls._from_outcomes(graph, outcomes, blamed)

    def observe(self, observation: Observation) -> "Knowledge":
        """Return what is known after one more observation. The order of observations does not matter.

        Raises `ValueError` if it disagrees with an earlier observation of the same commit, the bad end included.
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
    """Return the commits with an outcome, latest first."""
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


_MAX_WEIGHT = 8.0
"""The commit whose paths fit best weighs this many times as much as one that shares no word. Words are a hint, not a
proof."""
_WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[0-9]+[a-z]+")
_MIN_LETTERS = 3
"""Shorter words do not count, because two letters occur in too many paths."""


def prior_weights(files: Iterable[Iterable[str]], near: Iterable[str]) -> Floats | None:
    """Return a weight for each commit, from 1 to 8, by the words that its paths share with the names in `near`.

    files: the paths that each commit changes.
    near: names of the case and its kernels.

    A word counts the more, the fewer commits touch it (inverse document frequency; Sparck Jones, 1972). A word that all
    commits touch says nothing. The weight is 8 to the power of the sum of a commit's words, divided by the largest sum.
    Returns None where no commit shares a word.

    >>> prior_weights([["docs/index.md"], ["ops/rms_norm.py", "setup.py"], ["ops/add.py"]], ["test_rms_norm.py::small"])
    array([1., 8., 1.])
    """
    wanted = _words(near)
    if not wanted:
        return None
    shared = [_words(paths) & wanted for paths in files]
    commits = Counter(word for words in shared for word in words)
    scores = np.array([sum(log(len(shared) / commits[word]) for word in words) for words in shared])
    if not scores.any():
        return None
    return _MAX_WEIGHT ** (scores / scores.max())


def _words(names: Iterable[str]) -> set[str]:
    """Return the words of some names, however they are joined."""
    return {word.lower() for name in names for word in _WORD.findall(name) if len(word) >= _MIN_LETTERS}


_SHARED_CULPRIT_SHARE = 0.5
"""This share of a search's prior goes to the commits that other searches suspect, because one culprit may cause several
failures."""


def shared_build_rates(builds: Floats, bits: Floats, runs: Floats) -> Floats:
    """Return the most information per cost that each build promises, if the searches that gain by it share the build.

    Shape [n].

    builds: the cost of each build; shape [n].
    bits: the information that a run of each build gives each search; shape [m, n].
    runs: the cost of that run; shape [m, n].

    The build is paid once, and each search pays for its own run. The best set of searches is a prefix of the searches
    sorted by information per cost of their run. Adding a search helps as long as its own quotient is above that of the
    set. The result is 0 where no run gives information.
    """
    order = np.argsort(-bits / runs, axis=0, kind="stable")
    gained = np.cumsum(np.take_along_axis(bits, order, axis=0), axis=0)
    paid = builds + np.cumsum(np.take_along_axis(runs, order, axis=0), axis=0)
    return np.max(gained / paid, axis=0)


def shared_build_costs(rates: Floats, bits: Floats, runs: Floats, builds: Floats) -> Floats:
    """Return the cost of each run to one search: its own cost and a part of the build. All arrays have shape [n].

    The parts are such that all who share the build get the information `rates` (of `shared_build_rates`) per cost.
    Together they pay the build once. Where a run gives a search too little to share the build, the search pays for the
    run alone. Its information per cost is then below the rate. Where a run gives no information, the search would pay
    for both.
    """
    informative = (bits > 0) & (rates > 0)
    return np.where(informative, np.maximum(runs, bits / np.where(informative, rates, 1.0)), runs + builds)


def blend_suspicions(weights: Floats | None, suspicions: Sequence[Floats], *, commits: int) -> Floats | None:
    """Return prior weights of a search's commits, given how strongly other searches suspect each. Shape [commits].

    weights: the search's own weights, in any unit; None if equal.
    suspicions: the probabilities of the commits in each other search; shape [commits] each.
    """
    if not suspicions:
        return weights
    own = np.ones(commits) if weights is None else weights
    return (1 - _SHARED_CULPRIT_SHARE) * own / own.sum() + _SHARED_CULPRIT_SHARE * np.mean(suspicions, axis=0)


def entropy(probability: Floats) -> Floats:
    """Return the entropy of yes-or-no outcomes in bits, elementwise: 1 at 1/2, 0 at 0 and 1."""
    yes = np.clip(probability, 0.0, 1.0)
    no = 1.0 - yes
    return -(yes * np.log2(yes, where=yes > 0, out=np.zeros_like(yes))) - (
        no * np.log2(no, where=no > 0, out=np.zeros_like(no))
    )


def scalar_entropy(probability: float) -> float:
    """Return the entropy of one yes-or-no outcome in bits."""
    return -sum(part * log2(part) for part in (probability, 1 - probability) if part > 0)


def information_gain(graph: CommitGraph, belief: Belief) -> Floats:
    """Return the information of one run of each commit and, last, of `GOOD_END` about the hypotheses, in bits.

    Shape [n + 1].

    Let r(c) and a(c) be the chance to fail of a bad and of a good commit if c is to blame. A run of v fails with chance
    m. It is the sum of P(c) r(c) over the ancestors c of v, plus the sum of P(c) a(c) over all other c. The other
    hypotheses add what they predict. The mutual information is H(m) - H(run | hypothesis), where the second term is the
    same sum over H(r) and H(a).

    For a commit that ran before, `Belief.reruns` replaces r and a. A rerun gives less information where outcomes may
    belong to commits.
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


_MIN_MASS = 1e-3
"""Combinations of outcomes that are less probable than this are left out. Their number doubles with each run."""


@dataclass(frozen=True, eq=False)
class JointInformation:
    """The information of runs of several commits, given that the others are run too.

    Hypotheses under which each of these runs fails with the same chance are joined into one of h groups.

    probability: of each group; shape [h].
    fails: the chance that a run of each of `commits` fails under each group; shape [k, h].
    """

    commits: tuple[int, ...]
    probability: Floats
    fails: Floats

    @classmethod
    def from_belief(cls, graph: CommitGraph, belief: Belief, commits: Sequence[int]) -> "JointInformation":
        """Return the joint information of runs of `commits`, which are distinct. One of them may be `GOOD_END`."""
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

        def fail_chances(place: int, commit: int) -> list[float]:
            if commit in again:
                return [float(again[commit][group]) for _, group, _, _ in groups]
            return [if_bad if reached >> place & 1 else if_good for reached, _, if_bad, if_good in groups]

        others = [belief.fail_if_no_culprit, belief.fail_if_environment]
        fails = np.array([fail_chances(place, commit) + others for place, commit in enumerate(commits)])
        return cls(tuple(commits), np.append(mass, [belief.no_culprit, belief.environment]), fails)

    def added_information(self, others: Iterable[int]) -> Floats:
        """Return the bits that one more run of each of `commits` adds to runs of `others`, which are among them.

        Shape [k].

        This is the entropy of the run, averaged over the outcomes of the others, minus its entropy when the hypothesis
        is known. Combinations of outcomes that hardly occur are left out.
        """
        cases = self.probability[None, :]
        for other in others:
            fails = self.fails[self.commits.index(other)]
            cases = np.concatenate([cases * fails, cases * (1 - fails)])
            cases = cases[cases.sum(axis=1) > _MIN_MASS]
        mass = cases.sum(axis=1)
        uncertain = mass @ entropy((cases @ self.fails.T) / mass[:, None])
        return np.maximum(uncertain - entropy(self.fails) @ self.probability, 0)


def _descendants(graph: CommitGraph, commits: Sequence[int]) -> list[int]:
    """Return for each commit of the graph a bit mask: bit i says whether it leads to `commits[i]`, itself included."""
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
"""A combination of old and new layers, named by the set of those that are new."""


@dataclass(frozen=True)
class LayerMatrix:
    """The outcomes of combinations ("cells") of old and new layers.

    A layer is a pin that a commit moves, or the commit's own change. With all layers old the case is good, and with all
    new it is bad. The matrix assumes that a new layer fixes nothing: where the case is bad, it stays bad when more
    layers are new. So one outcome settles other cells too, and these are not run. A skipped cell is unknown, and never
    evidence.
    """

    layers: tuple[str, ...]
    outcomes: Mapping[Cell, Outcome]
    """The outcomes of the cells that were run, both ends among them."""

    @classmethod
    def from_layers(cls, layers: tuple[str, ...]) -> "LayerMatrix":
        """Return the matrix in which only the two ends are known."""
        return cls(layers, {frozenset(): Outcome.GOOD, frozenset(layers): Outcome.BAD})

    def add_outcome(self, cell: Cell, outcome: Outcome) -> "LayerMatrix":
        """Return the matrix with one more outcome."""
        return LayerMatrix(self.layers, {**self.outcomes, cell: outcome})

    def cells(self) -> list[Cell]:
        """Return all cells, those with few new layers first."""
        counts = range(len(self.layers) + 1)
        return [frozenset(chosen) for count in counts for chosen in combinations(self.layers, count)]

    def known_outcome(self, cell: Cell) -> Outcome | None:
        """Return the outcome of a cell by its own run, or by the runs of other cells. None where neither decides it."""
        if cell in self.outcomes:
            return self.outcomes[cell]
        if any(cell < other for other in self.cells_with(Outcome.GOOD)):
            return Outcome.GOOD
        if any(cell > other for other in self.cells_with(Outcome.BAD)):
            return Outcome.BAD
        return None

    def open_cells(self) -> list[Cell]:
        """Return the cells whose outcome is not known. Without any, `minimal_bad_cells` is proven."""
        return [cell for cell in self.cells() if self.known_outcome(cell) is None]

    def minimal_bad_cells(self) -> list[Cell]:
        """Return the cells that were seen bad and contain no smaller bad cell. Several cells are alternatives."""
        bad = self.cells_with(Outcome.BAD)
        return [cell for cell in bad if not any(other < cell for other in bad)]

    def has_untested_part(self, cell: Cell) -> bool:
        """Return whether a part of this bad cell is not known to be good.

        A part has one new layer fewer, and may suffice alone.
        """
        parts = (frozenset(part) for part in combinations(sorted(cell), len(cell) - 1))
        return any(self.known_outcome(part) is not Outcome.GOOD for part in parts)

    def cells_with(self, outcome: Outcome) -> list[Cell]:
        """Return the cells whose own run had an outcome, those with few new layers first."""
        return sorted((cell for cell, found in self.outcomes.items() if found is outcome), key=self._order)

    def _order(self, cell: Cell) -> tuple[int, list[int]]:
        return len(cell), sorted(map(self.layers.index, cell))


_EXTRA_LAYER_FACTOR = 0.1
"""Each further layer that has to be new makes an explanation less likely by this factor. One layer is almost always
enough."""

_TWO_CAUSES_FACTOR = 0.05
"""Two alternative causes are less likely than one by this factor."""

_MAX_ALTERNATIVE_LAYERS = 2
"""Each of two alternative causes has at most this many layers. Larger pairs are many, and nearly impossible."""
_COUPLING_CHANCE = 0.1
"""The new version of a layer fails to work with the old version of another one with this prior chance."""

_MAX_COUPLED_PAIRS = 2
"""At most this many pairs of layers are assumed not to work together. Each further pair multiplies the explanations."""
_LUCK_CHANCE = 0.1
"""With this prior chance, cells cannot be tested for reasons of their own, which couplings do not explain."""

_TESTABLE_CHANCE = 0.7
"""A cell can be tested with this chance where reasons of its own decide."""

_MIN_CHANCE = 0.05
"""A cell that is less likely to be testable than this is not run, because its run would most likely give no
information."""

_Causes = tuple[Cell, ...]
"""An explanation of a bad case: one or two sets of layers, each enough by itself when its layers are new."""
_Coupling = tuple[str, str]
"""A new and an old layer that do not work together."""


def next_cell(matrix: LayerMatrix) -> Cell | None:
    """Return the cell whose run gives most information. None where no cell is open, or none is likely to be testable.

    The explanations are that one layer suffices, that several do together, or that either of two sets does. The
    information of a run is the entropy of its outcome under the explanations that agree with the known outcomes. It is
    multiplied by the chance that the cell can be tested.
    """
    couplings = _possible_couplings(matrix)
    chances = {cell: _testable_chance(cell, matrix, couplings) for cell in matrix.open_cells()}
    agreeing = [
        (causes, weight) for causes, weight in _explanations(matrix.layers) if _agrees(causes, matrix)
    ]
    total = sum(weight for _, weight in agreeing)

    def rank(cell: Cell) -> tuple[float, int]:
        bad = sum(weight for causes, weight in agreeing if _predicts_bad(causes, cell))
        information = scalar_entropy(bad / total) * chances[cell] if total else 0.0
        # Of equally informative cells, the one nearest to an end differs least from what was built.
        return round(information, 9), abs(2 * len(cell) - len(matrix.layers))

    likely_testable = [cell for cell, chance in chances.items() if chance >= _MIN_CHANCE]
    return max(likely_testable, key=rank, default=None)


def _explanations(layers: tuple[str, ...]) -> Iterator[tuple[_Causes, float]]:
    """Yield each explanation with its prior weight."""
    counts = range(1, len(layers) + 1)
    sets = [frozenset(chosen) for count in counts for chosen in combinations(layers, count)]
    for cause in sets:
        yield (cause,), _weight(cause)
    small = [cause for cause in sets if len(cause) <= _MAX_ALTERNATIVE_LAYERS]
    for one, other in combinations(small, 2):
        if not one <= other and not other <= one:
            yield (one, other), _TWO_CAUSES_FACTOR * _weight(one) * _weight(other)


def _weight(cause: Cell) -> float:
    return _EXTRA_LAYER_FACTOR ** (len(cause) - 1)


def _predicts_bad(causes: Iterable[Cell], cell: Cell) -> bool:
    return any(cause <= cell for cause in causes)


def _agrees(causes: _Causes, matrix: LayerMatrix) -> bool:
    return all(
        _predicts_bad(causes, cell) is (outcome is Outcome.BAD)
        for cell, outcome in matrix.outcomes.items()
        if outcome is not Outcome.SKIP
    )


def _possible_couplings(matrix: LayerMatrix) -> list[tuple[frozenset[_Coupling], float]]:
    """Return the sets of at most two couplings that explain all untestable cells, each with its prior weight.

    A pair of layers that occurs in a tested cell works.
    """
    untestable = matrix.cells_with(Outcome.SKIP)
    tested = [cell for cell in matrix.outcomes if cell not in untestable]
    working = {pair for cell in tested for pair in _version_pairs(matrix, cell)}
    pairs = [pair for pair in permutations(matrix.layers, 2) if pair not in working]
    broken = [_version_pairs(matrix, cell) for cell in untestable]
    return [
        (frozenset(chosen), _COUPLING_CHANCE**count)
        for count in range(_MAX_COUPLED_PAIRS + 1)
        for chosen in combinations(pairs, count)
        if all(not seen.isdisjoint(chosen) for seen in broken)
    ]


def _testable_chance(
    cell: Cell, matrix: LayerMatrix, couplings: Sequence[tuple[frozenset[_Coupling], float]]
) -> float:
    """Return the chance that a cell can be tested. Couplings decide it, or reasons of each cell's own."""
    outcomes = [outcome for end, outcome in matrix.outcomes.items() if 0 < len(end) < len(matrix.layers)]
    untested = outcomes.count(Outcome.SKIP)
    by_luck = (
        _LUCK_CHANCE * (1 - _TESTABLE_CHANCE) ** untested * _TESTABLE_CHANCE ** (len(outcomes) - untested)
    )
    pairs = _version_pairs(matrix, cell)
    works = sum(weight for coupled, weight in couplings if coupled.isdisjoint(pairs))
    return (works + by_luck * _TESTABLE_CHANCE) / (sum(weight for _, weight in couplings) + by_luck)


def _version_pairs(matrix: LayerMatrix, cell: Cell) -> set[_Coupling]:
    return {(new, old) for new in cell for old in matrix.layers if old not in cell}
