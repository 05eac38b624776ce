"""A range that is being searched: its evidence, and the posterior that follows from it."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from ...runner.verdict.rules import CompilerError
from ...store.vocabulary import Phase
from ..history.questions import AskBlamedFile, OfferedPerturbation, perturb_range
from ..history.range import LoadedRange, Target
from ..search.belief import Observation, Outcome, Prior
from ..search.graph import Floats
from ..search.posterior import Posterior
from ..search.rates import Rates
from ..search.testability import BlamedFile
from .costs import Context, ExpectedGain, commit_weights, compute_expected_gain, kernel_names
from .failures import Reading, drop_machine_failures, skip_uncounted
from .runs import BisectionKnowledge, ProbeLog, RangeEvidence, WantedProbe, failing_end, find_target

_PERTURBED_CONFIDENCE = 0.9
"""The confidence of a search under a perturbation. Its answer is only a prior and need not be sure."""
_UNIFORM_WEIGHT = 0.1
"""The weight of all candidates together that is spread evenly. It stands beside the candidates that the runs without a
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
    """What the search of a range under a perturbation tells of the range without it. culprit: the candidate that it
    names; None where it names none."""

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
    unperturbed: "RangeSearch | None" = None
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

    def perturb(self, perturbation: OfferedPerturbation) -> "RangeSearch":
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

    def finish_perturbations(self, found: PerturbedAnswer | None) -> "RangeSearch":
        """Return the search of the range without a perturbation, once perturbations had their turn."""
        return replace(self, perturbations_tried=True, found_under=found, _cache=PosteriorCache())

    def with_reading(self, reading: Reading) -> "RangeSearch":
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
