"""A range that is being searched: its evidence, its posterior, and what one more probe would tell and cost.

The cost of a probe is its run and its build. `Timings` hold means of what builds and runs took. `BuildLine` forecasts a
build by how much has to be compiled again. `ExpectedGain` is what one more probe of a bisection offers, by which
several bisections are served in turn. `probe_costs` splits a shared build between them. `commit_weights` says which
commits are suspect before any run.

A build takes a fixed time and a time for each object that it compiles again: seconds = fixed + each * objects. Both are
at least zero and minimize the squares of the relative errors. The fit starts from one assumed build, which compiled
nothing and took a part of the mean (`_EMPTY_BUILD_SHARE`). It gives the forecast until two builds of unlike sizes were
timed.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from math import inf
from statistics import fmean
from typing import Self, TypeAlias

import numpy as np

from ...runner.verdict.rules import CompilerError
from ...store.vocabulary import BuildSource, Phase
from ..history.questions import AskBlamedFile, OfferedPerturbation, perturb_range
from ..history.range import LoadedRange, RecompiledObjects, SlotBuild, Target
from ..search.belief import (
    Observation,
    Outcome,
    Prior,
    blend_suspicions,
    prior_weights,
    shared_costs,
    shared_rates,
)
from ..search.decision import best_rate, expected_bits, next_run
from ..search.graph import Floats
from ..search.halving import Probe
from ..search.posterior import Posterior
from ..search.rates import Rates
from ..search.testability import BlamedFile
from .failures import Reading, drop_machine_failures, skip_uncounted
from .runs import (
    BisectionKnowledge,
    ProbeLog,
    ProbeTimes,
    RangeEvidence,
    WantedProbe,
    failing_end,
    find_target,
    slot_build,
)

_PERTURBED_CONFIDENCE = 0.9
"""A search under a perturbation needs this confidence. Its answer is only a prior and need not be sure."""
_UNIFORM_WEIGHT = 0.1
"""This weight is spread evenly over all candidates together. It stands beside the candidates that the runs without a
perturbation make likely."""


@dataclass
class PosteriorCache:
    """Keeps the last posterior and the last weights. Both follow from what is asked, so one more observation costs one
    more step."""

    posterior: Posterior | None = None
    weighed_by: tuple[Sequence[str], Sequence[Mapping[str, float]]] | None = None
    weights: Floats | None = None

    def update(
        self,
        loaded: LoadedRange,
        observations: Sequence[Observation],
        *,
        weights: Floats | None,
        prior: Prior | None,
        rates: Rates,
    ) -> Posterior:
        """Return the posterior after some observations.

        weights: prior weights of the candidates, of shape [n]. rates: what is expected of the rates before any
        observation.
        """
        known = self.posterior
        if known is None or known.observations != tuple(observations[: len(known.observations)]):
            known = Posterior.start(loaded.graph, rates, weights=weights, prior=prior, windows=loaded.windows)
        elif known.weights is not weights:
            known = replace(known, weights=weights)
        for seen in observations[len(known.observations) :]:
            known = known.observe(seen)
        self.posterior = known
        return known


@dataclass(frozen=True)
class ErrorBlame:
    """What an error that made some content untestable blames."""

    content: str
    error: CompilerError
    file: BlamedFile


@dataclass(frozen=True, kw_only=True)
class PerturbedAnswer:
    """What the search of a range under a perturbation tells of the range without it. culprit: the candidate that
    it names; None where it names none."""

    perturbation: str
    prior: Prior
    culprit: int | None


@dataclass(frozen=True, kw_only=True)
class RangeSearch:
    """A loaded range, its place among the ranges of the bisection (from 1), and what probes tell of it."""

    ordinal: int
    loaded: LoadedRange
    evidence: RangeEvidence
    confidence: float
    case: str | None
    unperturbed: RangeSearch | None = None
    """The search of the range without a perturbation, where this one searches it under one."""
    reading: Reading = Reading.LIKELY
    """Which failures count."""
    perturbations_tried: bool = False
    """Whether perturbations had their turn."""
    found_under: PerturbedAnswer | None = field(default=None, compare=False)
    """The result of the search under a perturbation."""
    _cache: PosteriorCache = field(default_factory=PosteriorCache, compare=False, repr=False)

    @property
    def failing_target(self) -> Target:
        """Return the end at which the case fails."""
        return failing_end(self.loaded)

    def log(self, known: BisectionKnowledge) -> ProbeLog:
        """Return the probes as this search counts them. Those that fail in another way than the searched failure tell
        nothing."""
        return skip_uncounted(known.log, self.reading)

    def weights(self, known: BisectionKnowledge, context: Context) -> Floats | None:
        """Return how likely each candidate is to blame beforehand. Shape [n]. Return None if all are equally likely.

        Under a perturbation, the runs without it decide.
        """
        if self.unperturbed is not None:
            if self._cache.weights is None:
                guess = self.unperturbed.posterior(known, context).guess.commits
                self._cache.weights = guess / guess.sum() + _UNIFORM_WEIGHT / len(guess)
            return self._cache.weights
        kernels = kernel_names(known.log, self.failing_target.content)
        suspicions = context.suspicions.get(self.loaded.range.repository, ())
        if self._cache.weighed_by != (kernels, suspicions):
            self._cache.weights = commit_weights(
                self.loaded, case=self.case, kernels=kernels, suspicions=suspicions
            )
            self._cache.weighed_by = (kernels, suspicions)
        return self._cache.weights

    def blame_questions(self, known: BisectionKnowledge) -> tuple[AskBlamedFile, ...]:
        """Return what has to be asked about the errors that made candidates untestable."""
        return tuple(dict.fromkeys(question for _, question in self._questions(known)))

    def _questions(self, known: BisectionKnowledge) -> Iterator[tuple[str, AskBlamedFile]]:
        """Yield a question about each error of each untestable content of this range. Equal errors blame alike."""
        errors = {probe.content: probe.errors for probe in known.log.ended} | self._earlier_skips(known)
        asked: dict[CompilerError, AskBlamedFile] = {}
        for content in errors:
            for node in self.evidence.nodes_of(content)[:1]:
                commit, candidates = find_target(self.loaded, node).commit, self.loaded.candidates
                for error in errors[content]:
                    question = AskBlamedFile(
                        ordinal=self.ordinal, candidates=candidates, commit=commit, error=error
                    )
                    yield content, asked.setdefault(error, question)

    def _earlier_skips(self, known: BisectionKnowledge) -> dict[str, tuple[CompilerError, ...]]:
        """Return the contents that other bisections could not build and this one has not tried."""
        ends = {self.loaded.old_content, self.loaded.new_content}
        return {
            content: errors
            for content, errors in self.loaded.earlier_skips.items()
            if content not in ends and not known.log.probes_for(content)
        }

    def blames(self, known: BisectionKnowledge) -> tuple[ErrorBlame, ...]:
        """Return what errors blame, as far as it was asked, the first error of each content first."""
        return tuple(
            ErrorBlame(content, question.error, file)
            for content, question in self._questions(known)
            if known.has_answer(question) and (file := known.answer(question)) is not None
        )

    def posterior(
        self, known: BisectionKnowledge, context: Context, *, last_resort: bool = False
    ) -> Posterior:
        """Return the posterior after the probes so far.

        last_resort: whether candidates count as untried that may be testable now. Other bisections could not build
        them, or the machine may have failed in their only probe.
        """
        log = self.log(known)
        blamed: dict[str, tuple[BlamedFile, ...]] = {}
        for blame in self.blames(known):
            blamed[blame.content] = (*blamed.get(blame.content, ()), blame.file)
        observations = [
            Observation(node, Outcome.SKIP, blamed=blamed.get(content, ()))
            for content in (() if last_resort else self._earlier_skips(known))
            for node in self.evidence.nodes_of(content)
        ]
        observations += self.evidence.observations(drop_machine_failures(log) if last_resort else log, blamed)
        return self._cache.update(
            self.loaded,
            observations,
            weights=self.weights(known, context),
            prior=None if self.found_under is None else self.found_under.prior,
            rates=known.question.rates,
        )

    def expected_gain(
        self, posterior: Posterior, known: BisectionKnowledge, context: Context, *, before: int = 0
    ) -> ExpectedGain:
        """Return what a further probe promises. `before` is how many probes come before the first one."""
        return compute_expected_gain(
            self.loaded,
            posterior,
            log=known.log,
            context=context,
            confidence=self.confidence,
            in_flight=self.nodes_in_flight(known),
            before=before,
        )

    def nodes_in_flight(self, known: BisectionKnowledge) -> list[int]:
        """Return the candidates, or the good end, that are being probed, in the order of the starts."""
        return [probe.wanted.node for probe in known.log.running if probe.wanted.node is not None]

    def perturb(self, perturbation: OfferedPerturbation) -> RangeSearch:
        """Return the search of the range under a perturbation. The search without it begins from its answer, which need
        not be sure."""
        loaded = perturb_range(self.loaded, perturbation)
        return replace(
            self,
            loaded=loaded,
            evidence=RangeEvidence.from_range(loaded),
            confidence=min(self.confidence, _PERTURBED_CONFIDENCE),
            unperturbed=self,
            _cache=PosteriorCache(),
        )

    def finish_perturbations(self, found: PerturbedAnswer | None) -> RangeSearch:
        """Return the search of the range without a perturbation, once perturbations had their turn."""
        return replace(self, perturbations_tried=True, found_under=found, _cache=PosteriorCache())

    def with_reading(self, reading: Reading) -> RangeSearch:
        """Return the search of the range for the failures of this reading."""
        return replace(self, reading=reading, _cache=PosteriorCache())

    def make_probe(self, node: int, phase: Phase) -> WantedProbe:
        """Return a probe of a candidate, or of the good end."""
        phase = phase if self.unperturbed is None else Phase.PERTURBED
        return WantedProbe(target=find_target(self.loaded, node), phase=phase, range=self.ordinal, node=node)


def early_failing_end(known: BisectionKnowledge, search: RangeSearch) -> Target | None:
    """Return the failing end of a range whose ends are not measured yet, where it has failed already.

    That is so where the bisection had to look for the good end.
    """
    return search.failing_target if known.question.gallop else None


_LEAST_SUSPICION = 1e-6
"""A candidate that is less probable than this is not listed as a suspect. Almost every candidate keeps a trace of
belief."""


@dataclass(frozen=True, eq=False, kw_only=True)
class ExpectedGain:
    """What one more probe of each candidate of a range and, last, of its good end promises, and takes. Arrays
    have shape [n + 1].

    commits: the candidates. in_flight: the candidates (or the good end) that are being probed. contents: what is built
    for each; None where it pins nothing that can be had. runs: seconds of a run, and of what has to be run before the
    first one. builds: seconds until each is there to be run. ends_differ: whether the ends are known to differ.
    """

    repository: str
    commits: Sequence[str]
    posterior: Posterior
    confidence: float
    in_flight: Sequence[int]
    contents: Sequence[str | None]
    runs: float
    builds: Floats
    ends_differ: bool

    @cached_property
    def bits(self) -> Floats:
        """Return the information of each probe, in bits. Shape [n + 1]."""
        return expected_bits(self.posterior)

    @cached_property
    def bits_by_content(self) -> Mapping[str, float]:
        """Return the information of a probe by its content, for contents where there is any."""
        return {
            content: float(bits)
            for content, bits in zip(self.contents, self.bits, strict=True)
            if content is not None and bits > 0
        }

    @cached_property
    def suspects(self) -> Mapping[str, float]:
        """Return how probable it is that each candidate is to blame, by this bisection's probes alone."""
        probabilities = self.posterior.belief.commits.tolist()
        return {
            sha: probability
            for sha, probability in zip(self.commits, probabilities, strict=True)
            if probability > _LEAST_SUSPICION
        }

    def rate(self, costs: Floats) -> float:
        """Return the information by cost of the best probe. `costs` has shape [n + 1].

        The rate is infinite where the search is over and its answer is to be confirmed. Then the answer is soon known
        and tells other bisections where to look.
        """
        certain = self.posterior.certain
        if certain is not None and certain.suspects.sum() == 1:
            return inf
        step = next_run(self.posterior, confidence=self.confidence, costs=costs)
        if not isinstance(step, Probe):
            return inf
        return best_rate(self.posterior, costs=costs, in_flight=self.in_flight)


_LEAST_SECONDS = 0.01
"""A run costs at least this many seconds. Costs are divided by it, and a clock may measure 0."""


@dataclass(frozen=True)
class Timings:
    """Mean seconds of a run, of a build that is really made, and of a build that is reused."""

    run: float
    full_build: float
    rebuild: float

    @classmethod
    def from_probes(cls, probes: Iterable[ProbeTimes], *, earlier: Iterable[float] = ()) -> Self | None:
        """Return the means over finished probes. Return None before anything was built and run.

        `earlier` are seconds of builds that others made. They count as long as none of `probes` made one.
        """
        built = [times for times in probes if times.was_built]
        runs = [times.run_seconds for times in built if times.run_seconds]
        anew = [times.build_seconds for times in built if times.build_source is BuildSource.BUILT] or [
            *earlier
        ]
        again = [times.build_seconds for times in built if times.build_source is not BuildSource.BUILT]
        if not runs or not anew:
            return None
        return cls(max(_LEAST_SECONDS, fmean(runs)), fmean(anew), fmean(again) if again else 0.0)

    def builds(
        self, builds: Sequence[str | None], built: Collection[str], *, forecast: Floats | None = None
    ) -> Floats:
        """Return the seconds until each of `builds` is there to be run. Those in `built` are there. Shape
        [len(builds)].

        `forecast` gives the seconds that each takes to be built; the default is the mean.
        """
        there = np.array([build in built for build in builds])
        # A reused build never costs more than a new one, even if a busy machine measured it so.
        anew = np.maximum(self.rebuild, self.full_build if forecast is None else forecast)
        return np.where(there, self.rebuild, anew)


def probe_costs(promise: ExpectedGain, rivals: Sequence[ExpectedGain] | None) -> Floats:
    """Return what a probe of each candidate and, last, of the good end costs a bisection, in seconds. Shape [n + 1].

    `rivals` are what the other bisections promise that want a worker now. Those for which a build is worth it pay for
    it together (`belief.shared_costs`). None where there can be no other.
    """
    if rivals is None:
        return promise.runs + promise.builds
    everyone = [*rivals, promise]
    bits = np.array(
        [[each.bits_by_content.get(content or "", 0.0) for content in promise.contents] for each in everyone]
    )
    runs = np.array([[each.runs] * len(promise.contents) for each in everyone])
    rates = shared_rates(promise.builds, bits, runs)
    return shared_costs(rates, bits[-1], runs[-1], promise.builds)


Suspicion: TypeAlias = Mapping[str, float]
"""Each commit, by its hash, has its probability to be to blame."""


@dataclass(frozen=True, kw_only=True)
class Context:
    """What a choice depends on beside the bisection itself, as it is when the bisection is asked what it needs.

    workers: how many probes of this bisection may run at once. timings: what probes are expected to take before any of
    its own was timed. built: contents that were built, for whomever. suspicions: for each repository what other
    bisections know, as rows: how probable each takes its commits to be to blame. rivals: what the other bisections that
    want a worker now promise; a build is paid for together. None where there can be no other.
    """

    workers: int = 1
    timings: Timings | None = None
    built: Collection[str] = frozenset()
    suspicions: Mapping[str, Sequence[Suspicion]] = field(default_factory=dict[str, Sequence[Suspicion]])
    rivals: Sequence[ExpectedGain] | None = None


_EMPTY_BUILD_SHARE = 0.5
"""A build that compiles nothing again is assumed to cost this part of the mean. It lies between a quarter and all.
About a quarter is left where nothing has to be compiled. All is left where no build keeps anything from the one before.
A few timed builds show which of the two holds (`benchmarks/builds`)."""


@dataclass(frozen=True)
class BuildLine:
    """The seconds of a build that compiles nothing again, and the seconds that each object adds."""

    fixed: float
    each: float

    @classmethod
    def fit(cls, objects: Sequence[float], seconds: Sequence[float]) -> BuildLine:
        """Return the line that fits some builds, at least one."""
        mean = float(np.mean(seconds))
        count, took = np.array([0.0, *objects]), np.array([_EMPTY_BUILD_SHARE * mean, *seconds])
        weight = 1.0 / np.array([mean, *seconds]) ** 2
        middle, height = np.average(count, weights=weight), np.average(took, weights=weight)
        spread = weight @ (count - middle) ** 2
        slope = weight @ ((count - middle) * (took - height)) / spread if spread > 0 else 0.0
        if slope <= 0:
            return cls(fixed=float(height), each=0.0)
        if slope * middle > height:
            return cls(fixed=0.0, each=float(weight @ (count * took) / (weight @ count**2)))
        return cls(fixed=float(height - slope * middle), each=float(slope))

    def seconds(self, objects: Floats) -> Floats:
        """Return the seconds of builds that compile so many objects again."""
        return self.fixed + self.each * objects

    def squared_error(self, objects: Sequence[float], seconds: Sequence[float]) -> float:
        """Return the sum of the squares of the relative errors."""
        took = np.array(seconds)
        return float((((self.seconds(np.array(objects)) - took) / took) ** 2).sum())


@dataclass(frozen=True)
class _TimedBuild:
    """A build that was timed. in_slot: the objects that were compiled again after what stood in its slot. of_all: the
    objects after the nearest of all that had been built."""

    in_slot: float
    of_all: float
    seconds: float


def build_seconds(loaded: LoadedRange, log: ProbeLog) -> Floats | None:
    """Return the seconds that a new build of each candidate and, last, of the good end will take. Shape [n + 1].

    Return None where nothing tells them apart. Then no build was made in this bisection or timed in any, or nothing is
    known of what builds compile.

    A slot goes on from what stands in it. A compiler cache, or a stack that keeps objects by content, goes on from all
    that was built. The forecast uses whichever fits the timed builds better.
    """
    again = loaded.recompiled_objects
    if again is None:
        return None
    own = _history(loaded, again, _slot_builds(log))
    earlier = [_history(loaded, again, builds) for builds in loaded.earlier_builds]
    timed = [each for history in (*earlier, own) for each in history.timed]
    if not timed or not own.standing:
        return None
    seconds = [each.seconds for each in timed]
    in_slot, of_all = [each.in_slot for each in timed], [each.of_all for each in timed]
    by_slot, by_all = BuildLine.fit(in_slot, seconds), BuildLine.fit(of_all, seconds)
    if by_all.squared_error(of_all, seconds) < by_slot.squared_error(in_slot, seconds):
        return by_all.seconds(again.objects_after(own.built))
    # Nothing tells yet in which slot a probe will be made.
    return np.mean([by_slot.seconds(again.objects_from(node)) for node in own.standing.values()], axis=0)


@dataclass
class _History:
    """The timed builds of a bisection, what stands in each place, and all that was built. The builds are of candidates
    or of the good end."""

    timed: list[_TimedBuild] = field(default_factory=list[_TimedBuild])
    standing: dict[str, int] = field(default_factory=dict[str, int])
    built: list[int] = field(default_factory=list[int])


def _history(loaded: LoadedRange, again: RecompiledObjects, builds: Iterable[SlotBuild]) -> _History:
    history = _History()
    for build in builds:
        node = loaded.node_of_content.get(build.content)
        if node is None:
            history.standing.pop(build.place, None)
            continue
        if build.seconds is not None:
            # A slot's first build is assumed to compile everything. Where it did not, objects seem cheaper than they
            # are, and builds more alike.
            in_slot = of_all = float(again.objects)
            if build.place in history.standing:
                in_slot = float(again.objects_from(history.standing[build.place])[node])
            if history.built:
                of_all = float(again.objects_after(history.built)[node])
            history.timed.append(_TimedBuild(in_slot=in_slot, of_all=of_all, seconds=build.seconds))
        history.standing[build.place] = node
        history.built.append(node)
    return history


def _slot_builds(log: ProbeLog) -> Iterator[SlotBuild]:
    """Yield what came to stand in slots, in the order of the starts."""
    for probe in sorted(log.ended, key=lambda probe: probe.number):
        if (build := slot_build(probe.content, probe.place, probe.times)) is not None:
            yield build


_EQUAL_TIMINGS = Timings(run=1.0, full_build=0.0, rebuild=0.0)
"""Before anything was timed, all runs take the same, and builds take nothing."""


def kernel_names(log: ProbeLog, failing_content: str) -> tuple[str, ...]:
    """Return the names of the kernels that the failing end's build holds. They are empty before it was built."""
    return next((probe.kernels for probe in log.probes_for(failing_content) if probe.kernels), ())


def commit_weights(
    loaded: LoadedRange,
    *,
    case: str | None,
    kernels: Sequence[str],
    suspicions: Sequence[Mapping[str, float]],
) -> Floats | None:
    """Return how likely each candidate is to blame beforehand, in any unit. Shape [n]. Return None if all are equally
    likely.

    A candidate weighs by what it touches, and by what other bisections suspect. What it touches is compared with the
    words of the case's name and of the kernels' names.
    """
    nodes = loaded.collapsed.nodes
    names = [*kernels, *filter(None, [case])]
    own = prior_weights([node.commit.files for node in nodes], names)
    rows = [
        row for row in (_candidate_probabilities(loaded, suspicion) for suspicion in suspicions) if row.any()
    ]
    return blend_suspicions(own, rows, commits=len(nodes))


def _candidate_probabilities(loaded: LoadedRange, suspicion: Mapping[str, float]) -> Floats:
    """Return the probabilities of commits as those of the candidates that stand for them. Shape [n]."""
    nodes = loaded.collapsed.nodes
    node_of = {member.sha: place for place, node in enumerate(nodes) for member in node.members}
    row = np.zeros(len(nodes))
    for sha, probability in suspicion.items():
        if sha in node_of:
            row[node_of[sha]] += probability
    return row


def available_builds(loaded: LoadedRange, log: ProbeLog, others: Iterable[str] = ()) -> set[str]:
    """Return the builds that need not be made any more: those of earlier bisections, of this one, and of other
    contents."""
    own = (probe.content for probe in log.ended if probe.times.was_built)
    return {*loaded.known_builds, *map(loaded.build_of, (*own, *others))}


def compute_expected_gain(
    loaded: LoadedRange,
    posterior: Posterior,
    *,
    log: ProbeLog,
    context: Context,
    confidence: float,
    in_flight: Sequence[int],
    before: int,
) -> ExpectedGain:
    """Return what a further probe of a range promises, and takes. `before` is how many probes come before the first
    one."""
    own = Timings.from_probes((probe.times for probe in log.ended), earlier=loaded.earlier_seconds)
    timings = own or context.timings or _EQUAL_TIMINGS
    contents = [*loaded.candidate_contents, loaded.old_content]
    return ExpectedGain(
        repository=loaded.range.repository,
        commits=loaded.candidates,
        posterior=posterior,
        confidence=confidence,
        in_flight=in_flight,
        contents=contents,
        runs=timings.run * (1 + before),
        builds=timings.builds(
            [None if content is None else loaded.build_of(content) for content in contents],
            available_builds(loaded, log, context.built),
            forecast=None if timings is _EQUAL_TIMINGS else build_seconds(loaded, log),
        ),
        ends_differ=not before,
    )
