"""A range that is being searched: its evidence, its posterior, and what one more probe would tell and cost.

`RangeSearch` holds the loaded range, and derives its posterior from what is known. `ExpectedGain` is what one more
probe of a bisection would tell, and what it would take. By it several bisections are served in turn, and `probe_costs`
splits a shared build between them. `build_seconds` forecasts a build by how much has to be compiled again.
`commit_weights` says which commits are suspect before any run.
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
    shared_build_costs,
    shared_build_rates,
)
from ..search.decision import best_information_rate, expected_bits, next_run
from ..search.graph import Floats, Mask
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
"""A search under a perturbation ends at this confidence. Its answer is only a prior and need not be sure."""
_UNIFORM_WEIGHT = 0.1
"""All candidates share this weight evenly under a perturbation. The runs without it decide the weight of 1."""


@dataclass
class PosteriorCache:
    """The last posterior and the last weights of a search. With them, one more observation costs one more step."""

    posterior: Posterior | None = None
    weights: Floats | None = None
    """The prior weights of the candidates. Shape [n]."""
    weights_key: tuple[Sequence[str], Sequence[Mapping[str, float]]] | None = None
    """The kernels and the suspicions from which the weights follow."""

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

        `weights` are the prior weights of the candidates, of shape [n]. `rates` are the fail rates that are expected
        before any observation.
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
    """The file that a compiler's error blames. The error made some content untestable."""

    content: str
    error: CompilerError
    file: BlamedFile


@dataclass(frozen=True, kw_only=True)
class PerturbedAnswer:
    """The answer of the search of a range under a perturbation. It is a prior for the search without one."""

    perturbation: str
    prior: Prior
    culprit: int | None
    """The candidate that it names. None where it names none."""


@dataclass(frozen=True, kw_only=True)
class RangeSearch:
    """A loaded range that is searched."""

    ordinal: int
    """Its place among the ranges of the bisection, from 1."""
    loaded: LoadedRange
    evidence: RangeEvidence
    confidence: float
    case: str | None
    """The name of the case. None where the stack's command is the whole case."""
    unperturbed_search: RangeSearch | None = None
    """The search of the range without a perturbation. Set only where this one searches it under one."""
    reading: Reading = Reading.LIKELY
    """Which failures count."""
    perturbations_tried: bool = False
    """Whether perturbations had their turn."""
    found_under: PerturbedAnswer | None = field(default=None, compare=False)
    """The answer of the search under a perturbation."""
    _cache: PosteriorCache = field(default_factory=PosteriorCache, compare=False, repr=False)

    @property
    def failing_target(self) -> Target:
        """Return the end at which the case fails."""
        return failing_end(self.loaded)

    def log(self, known: BisectionKnowledge) -> ProbeLog:
        """Return the probes as this search counts them. Failures that its reading leaves out are skips."""
        return skip_uncounted(known.log, self.reading)

    def weights(self, known: BisectionKnowledge, context: Context) -> Floats | None:
        """Return how likely each candidate is to blame before any run. Shape [n]. Return None if all weigh the same.

        Under a perturbation, the runs without it decide.
        """
        if self.unperturbed_search is not None:
            if self._cache.weights is None:
                belief = self.unperturbed_search.posterior(known, context).guess.commits
                self._cache.weights = belief / belief.sum() + _UNIFORM_WEIGHT / len(belief)
            return self._cache.weights
        kernels = kernel_names(known.log, self.failing_target.content)
        suspicions = context.suspicions.get(self.loaded.range.repository, ())
        if self._cache.weights_key != (kernels, suspicions):
            self._cache.weights = commit_weights(
                self.loaded, case=self.case, kernels=kernels, suspicions=suspicions
            )
            self._cache.weights_key = (kernels, suspicions)
        return self._cache.weights

    def blame_questions(self, known: BisectionKnowledge) -> tuple[AskBlamedFile, ...]:
        """Return the questions about the errors that made candidates untestable."""
        return tuple(dict.fromkeys(question for _, question in self._questions_by_content(known)))

    def _questions_by_content(self, known: BisectionKnowledge) -> Iterator[tuple[str, AskBlamedFile]]:
        """Yield each untestable content of this range with a question about each of its errors.

        Equal errors share one question.
        """
        errors = {probe.content: probe.errors for probe in known.log.ended} | self._earlier_skips(known)
        asked: dict[CompilerError, AskBlamedFile] = {}
        for content in errors:
            nodes = self.evidence.nodes_of(content)
            if not nodes:
                continue
            commit = find_target(self.loaded, nodes[0]).commit
            for error in errors[content]:
                question = AskBlamedFile(
                    ordinal=self.ordinal, candidates=self.loaded.candidates, commit=commit, error=error
                )
                yield content, asked.setdefault(error, question)

    def _earlier_skips(self, known: BisectionKnowledge) -> dict[str, tuple[CompilerError, ...]]:
        """Return the errors of the contents that other bisections could not build and this one has not tried."""
        ends = {self.loaded.old_content, self.loaded.new_content}
        return {
            content: errors
            for content, errors in self.loaded.earlier_skips.items()
            if content not in ends and not known.log.probes_for(content)
        }

    def blames(self, known: BisectionKnowledge) -> tuple[ErrorBlame, ...]:
        """Return the files that errors blame, as far as git was asked. The errors of a content keep their order."""
        return tuple(
            ErrorBlame(content, question.error, file)
            for content, question in self._questions_by_content(known)
            if known.has_answer(question) and (file := known.answer(question)) is not None
        )

    def posterior(
        self, known: BisectionKnowledge, context: Context, *, last_resort: bool = False
    ) -> Posterior:
        """Return the posterior after the probes so far.

        With `last_resort`, a candidate counts as untried that only other bisections could not build. The same holds for
        one whose only probe the machine may have failed.
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
            prior=self.loaded.prior if self.found_under is None else self.found_under.prior,
            rates=known.question.rates,
        )

    def expected_gain(
        self, posterior: Posterior, known: BisectionKnowledge, context: Context, *, before: int = 0
    ) -> ExpectedGain:
        """Return the gain of a further probe. `before` probes have to be made first."""
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
        """Return the candidates that are being probed, in the order of the starts. The good end may be among them."""
        return [probe.wanted.node for probe in known.log.running if probe.wanted.node is not None]

    def perturb(self, perturbation: OfferedPerturbation) -> RangeSearch:
        """Return the search of the range under a perturbation."""
        loaded = perturb_range(self.loaded, perturbation)
        return replace(
            self,
            loaded=loaded,
            evidence=RangeEvidence.from_range(loaded),
            confidence=min(self.confidence, _PERTURBED_CONFIDENCE),
            unperturbed_search=self,
            _cache=PosteriorCache(),
        )

    def end_perturbations(self, found: PerturbedAnswer | None) -> RangeSearch:
        """Return the search of the range after perturbations were tried. `found` is their answer, if there is one."""
        return replace(self, perturbations_tried=True, found_under=found, _cache=PosteriorCache())

    def replace_range(self, loaded: LoadedRange) -> RangeSearch:
        """Return the search of the range with other candidates. Observations of its ends stay."""
        renumbered = {self.loaded.graph.bad: loaded.graph.bad}
        inherited = (
            replace(seen, commit=renumbered.get(seen.commit, seen.commit)) for seen in self.evidence.inherited
        )
        return RangeSearch(
            ordinal=self.ordinal,
            loaded=loaded,
            evidence=RangeEvidence.from_range(loaded, inherited=tuple(inherited)),
            confidence=self.confidence,
            case=self.case,
            reading=self.reading,
        )

    def with_reading(self, reading: Reading) -> RangeSearch:
        """Return the search of the range for the failures of this reading."""
        return replace(self, reading=reading, _cache=PosteriorCache())

    def make_probe(self, node: int, phase: Phase) -> WantedProbe:
        """Return a probe of a candidate, or of the good end."""
        phase = phase if self.unperturbed_search is None else Phase.PERTURBED
        return WantedProbe(target=find_target(self.loaded, node), phase=phase, range=self.ordinal, node=node)


def early_failing_end(known: BisectionKnowledge, search: RangeSearch) -> Target | None:
    """Return the failing end of a range whose ends are not measured yet. Return None where it has not failed yet.

    It has failed already where the bisection had to look for the good end.
    """
    return search.failing_target if known.question.gallop else None


_MIN_SUSPICION = 1e-6
"""A candidate that is less probable than this is no suspect. Almost every candidate keeps a trace of belief."""


@dataclass(frozen=True, eq=False, kw_only=True)
class ExpectedGain:
    """The gain of one more probe of a range, by the commit that is probed.

    Arrays and sequences of length n + 1 have an entry for each candidate and, last, one for the good end.
    """

    repository: str
    commits: Sequence[str]
    """The candidates. Length n."""
    posterior: Posterior
    confidence: float
    in_flight: Sequence[int]
    """The entries that are being probed."""
    contents: Sequence[str | None]
    """What is built. None where a commit pins nothing that can be had. Length n + 1."""
    runs: float
    """The seconds of a run, and of the runs that have to be made first."""
    builds: Floats
    """The seconds of a build. Shape [n + 1]."""
    ends_differ: bool
    """Whether the ends are known to differ."""

    @cached_property
    def bits(self) -> Floats:
        """Return the information of each probe, in bits. Shape [n + 1]."""
        return expected_bits(self.posterior)

    @cached_property
    def bits_by_content(self) -> Mapping[str, float]:
        """Return the information of a probe by its content, in bits. Contents without information are left out."""
        return {
            content: float(bits)
            for content, bits in zip(self.contents, self.bits, strict=True)
            if content is not None and bits > 0
        }

    @cached_property
    def suspects(self) -> Mapping[str, float]:
        """Return the probability that each commit is to blame, by this bisection's probes alone."""
        probabilities = self.posterior.belief.commits.tolist()
        return {
            sha: probability
            for sha, probability in zip(self.commits, probabilities, strict=True)
            if probability > _MIN_SUSPICION
        }

    def rate(self, costs: Floats) -> float:
        """Return the information of the best probe by its cost, in bits a second. `costs` has shape [n + 1].

        The rate is infinite where only the answer has to be confirmed. That answer then tells other bisections where to
        look.
        """
        certain = self.posterior.certain
        if certain is not None and certain.suspects.sum() == 1:
            return inf
        step = next_run(self.posterior, confidence=self.confidence, costs=costs)
        if not isinstance(step, Probe):
            return inf
        return best_information_rate(self.posterior, costs=costs, in_flight=self.in_flight)


_MIN_SECONDS = 0.01
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

        `earlier` are seconds of builds by other bisections. They count as long as none of `probes` made a build.
        """
        with_build = [times for times in probes if times.was_built]
        runs = [times.run_seconds for times in with_build if times.run_seconds]
        full = [times.build_seconds for times in with_build if times.build_source is BuildSource.BUILT]
        reused = [times.build_seconds for times in with_build if times.build_source is not BuildSource.BUILT]
        full = full or [*earlier]
        if not runs or not full:
            return None
        return cls(max(_MIN_SECONDS, fmean(runs)), fmean(full), fmean(reused) if reused else 0.0)

    def builds(self, is_built: Mask, *, forecast: Floats | None = None) -> Floats:
        """Return the seconds of each build. Those that are built are only reused. Shape as of `is_built`.

        `forecast` gives the seconds of each as a new build. The default is the mean.
        """
        # A reused build never costs more than a new one, even if a busy machine measured it so.
        new = np.maximum(self.rebuild, self.full_build if forecast is None else forecast)
        return np.where(is_built, self.rebuild, new)


def probe_costs(gain: ExpectedGain, cost_sharers: Sequence[ExpectedGain] | None) -> Floats:
    """Return the seconds that a probe of each candidate and, last, of the good end costs a bisection. Shape [n + 1].

    `cost_sharers` are as of `Context`. Those for which a build is worth it pay for it together
    (`belief.shared_build_costs`).
    """
    if cost_sharers is None:
        return gain.runs + gain.builds
    everyone = [*cost_sharers, gain]
    bits = np.array(
        [[each.bits_by_content.get(content or "", 0.0) for content in gain.contents] for each in everyone]
    )
    runs = np.array([[each.runs] * len(gain.contents) for each in everyone])
    rates = shared_build_rates(gain.builds, bits, runs)
    return shared_build_costs(rates, bits[-1], runs[-1], gain.builds)


Suspicion: TypeAlias = Mapping[str, float]
"""The probability that each commit is to blame, by its hash."""


@dataclass(frozen=True, kw_only=True)
class Context:
    """The circumstances of a bisection when it is asked what it needs."""

    workers: int = 1
    """How many probes of this bisection may run at once."""
    timings: Timings | None = None
    """What probes are expected to take before this bisection has timed any."""
    built: Collection[str] = frozenset()
    """The contents that were built, for any bisection."""
    suspicions: Mapping[str, Sequence[Suspicion]] = field(default_factory=dict[str, Sequence[Suspicion]])
    """What each of the other bisections suspects, by repository."""
    cost_sharers: Sequence[ExpectedGain] | None = None
    """The gains of the other bisections that want a worker now. None where bisections do not share the cost of a
    build."""


_EMPTY_BUILD_SHARE = 0.5
"""A build that compiles nothing again is assumed to cost this part of the mean. It costs about a quarter where builds
keep what the one before compiled, and all of it where they keep nothing (`benchmarks/builds`)."""


@dataclass(frozen=True)
class BuildLine:
    """The seconds of a build as a line: `fixed + each * objects`, where it compiles so many objects again.

    Both numbers are at least zero. The fit minimizes the squares of the relative errors. It starts from one assumed
    build, which compiled nothing again and took `_EMPTY_BUILD_SHARE` of the mean.
    """

    base_seconds: float
    seconds_per_object: float

    @classmethod
    def fit(cls, objects: Sequence[float], seconds: Sequence[float]) -> BuildLine:
        """Return the line that fits the builds, of which there is at least one."""
        mean = float(np.mean(seconds))
        count, took = np.array([0.0, *objects]), np.array([_EMPTY_BUILD_SHARE * mean, *seconds])
        weight = 1.0 / np.array([mean, *seconds]) ** 2
        middle, height = np.average(count, weights=weight), np.average(took, weights=weight)
        spread = weight @ (count - middle) ** 2
        slope = weight @ ((count - middle) * (took - height)) / spread if spread > 0 else 0.0
        if slope <= 0:
            return cls(base_seconds=float(height), seconds_per_object=0.0)
        if slope * middle > height:
            return cls(
                base_seconds=0.0, seconds_per_object=float(weight @ (count * took) / (weight @ count**2))
            )
        return cls(base_seconds=float(height - slope * middle), seconds_per_object=float(slope))

    def seconds(self, objects: Floats) -> Floats:
        """Return the seconds of builds by the objects that they compile again."""
        return self.base_seconds + self.seconds_per_object * objects

    def squared_error(self, objects: Sequence[float], seconds: Sequence[float]) -> float:
        """Return the sum of the squares of the relative errors."""
        took = np.array(seconds)
        return float((((self.seconds(np.array(objects)) - took) / took) ** 2).sum())


@dataclass(frozen=True)
class _TimedBuild:
    """A build that was timed, and how many objects it compiled again.

    Their number depends on what the build went on from: the last build in its slot, or the nearest of all earlier
    builds.
    """

    from_slot: float
    from_nearest: float
    seconds: float


def build_seconds(loaded: LoadedRange, log: ProbeLog) -> Floats | None:
    """Return the seconds of a new build of each candidate and, last, of the good end. Shape [n + 1].

    Return None where no build was timed, in this bisection or another, or where it is unknown what builds compile.

    A slot goes on from what stands in it. A compiler cache, or a stack that keeps objects by content, goes on from all
    that was built. The forecast uses whichever fits the timed builds better.
    """
    recompiled = loaded.recompiled_objects
    if recompiled is None:
        return None
    own = _history(loaded, recompiled, _slot_builds(log))
    earlier = [_history(loaded, recompiled, builds) for builds in loaded.earlier_builds]
    timed = [each for history in (*earlier, own) for each in history.timed_builds]
    if not timed or not own.last_builds:
        return None
    seconds = [each.seconds for each in timed]
    from_slot, from_nearest = [each.from_slot for each in timed], [each.from_nearest for each in timed]
    slot_line, nearest_line = BuildLine.fit(from_slot, seconds), BuildLine.fit(from_nearest, seconds)
    if nearest_line.squared_error(from_nearest, seconds) < slot_line.squared_error(from_slot, seconds):
        return nearest_line.seconds(recompiled.objects_after(own.built))
    # It is not known yet in which slot a probe will be made.
    return np.mean(
        [slot_line.seconds(recompiled.objects_from(node)) for node in own.last_builds.values()], axis=0
    )


@dataclass
class _History:
    """The builds of candidates, or of the good end, by one bisection."""

    timed_builds: list[_TimedBuild] = field(default_factory=list[_TimedBuild])
    last_builds: dict[str, int] = field(default_factory=dict[str, int])
    """The last build in each slot."""
    built: list[int] = field(default_factory=list[int])


def _history(loaded: LoadedRange, recompiled: RecompiledObjects, builds: Iterable[SlotBuild]) -> _History:
    history = _History()
    for build in builds:
        node = loaded.node_of_content.get(build.content)
        if node is None:
            history.last_builds.pop(build.place, None)
            continue
        if build.seconds is not None:
            # A slot's first build is assumed to compile everything. Where it did not, objects seem cheaper than they
            # are.
            from_slot = from_nearest = float(recompiled.objects)
            if build.place in history.last_builds:
                from_slot = float(recompiled.objects_from(history.last_builds[build.place])[node])
            if history.built:
                from_nearest = float(recompiled.objects_after(history.built)[node])
            history.timed_builds.append(_TimedBuild(from_slot, from_nearest, build.seconds))
        history.last_builds[build.place] = node
        history.built.append(node)
    return history


def _slot_builds(log: ProbeLog) -> Iterator[SlotBuild]:
    """Yield the builds of the probes, in the order of the starts."""
    for probe in sorted(log.ended, key=lambda probe: probe.number):
        if (build := slot_build(probe.content, probe.place, probe.times)) is not None:
            yield build


_EQUAL_TIMINGS = Timings(run=1.0, full_build=0.0, rebuild=0.0)
"""Before anything was timed, all runs take the same, and builds take nothing."""


def kernel_names(log: ProbeLog, failing_content: str) -> tuple[str, ...]:
    """Return the names of the kernels in the failing end's build. There are none before it was built."""
    return next((probe.kernels for probe in log.probes_for(failing_content) if probe.kernels), ())


def commit_weights(
    loaded: LoadedRange,
    *,
    case: str | None,
    kernels: Sequence[str],
    suspicions: Sequence[Mapping[str, float]],
) -> Floats | None:
    """Return the prior weight of each candidate, in any unit. Shape [n]. Return None if all weigh the same.

    A candidate weighs more if its files share words with the names of the case or the kernels. It also weighs more if
    other bisections suspect it.
    """
    nodes = loaded.commit_range.nodes
    names = [*kernels, *filter(None, [case])]
    own = prior_weights((node.commit.files for node in nodes), names)
    rows = [
        row for row in (_candidate_probabilities(loaded, suspicion) for suspicion in suspicions) if row.any()
    ]
    return blend_suspicions(own, rows, commits=len(nodes))


def _candidate_probabilities(loaded: LoadedRange, suspicion: Mapping[str, float]) -> Floats:
    """Return the probability of each candidate: the sum over the commits that it stands for. Shape [n]."""
    nodes = loaded.commit_range.nodes
    node_of = {member.sha: place for place, node in enumerate(nodes) for member in node.members}
    probabilities = np.zeros(len(nodes))
    for sha, probability in suspicion.items():
        if sha in node_of:
            probabilities[node_of[sha]] += probability
    return probabilities


def available_builds(loaded: LoadedRange, log: ProbeLog, others: Iterable[str] = ()) -> set[str]:
    """Return the builds that need not be made any more. They are of earlier bisections, of this one, or of `others`."""
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
    """Return the gain of a further probe of a range. `before` probes have to be made first."""
    own = Timings.from_probes((probe.times for probe in log.ended), earlier=loaded.earlier_seconds)
    timings = own or context.timings or _EQUAL_TIMINGS
    return ExpectedGain(
        repository=loaded.range.repository,
        commits=loaded.candidates,
        posterior=posterior,
        confidence=confidence,
        in_flight=in_flight,
        contents=(*loaded.candidate_contents, loaded.old_content),
        runs=timings.run * (1 + before),
        builds=timings.builds(
            loaded.places_with_build(available_builds(loaded, log, context.built)),
            forecast=None if timings is _EQUAL_TIMINGS else build_seconds(loaded, log),
        ),
        ends_differ=not before,
    )
