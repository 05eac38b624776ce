"""A range that is being searched: its evidence, and the posterior that follows from it."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from ...runner.verdict.compiler_errors import CompilerError
from ...store.vocabulary import Phase
from ..commits.perturbed import OfferedPerturbation, range_under
from ..commits.range import LoadedRange
from ..search.evidence.belief import Prior
from ..search.evidence.blamed_file import BlamedFile
from ..search.evidence.knowledge import Observation, Outcome
from ..search.evidence.posterior import Posterior
from ..search.graph.graph import Floats
from ..search.model.rates import Rates
from .evidence import RangeEvidence, failing_end, target_at
from .failures.exit_codes import Failures, counting_only
from .history import AskBlamedFile
from .known import Known
from .log import ProbeLog
from .priority.circumstances import Circumstances
from .priority.forecast import commit_weights, kernels_of, promise_of
from .priority.promise import Promise
from .probes import Target, WantedProbe

_SURE_ENOUGH = 0.9
"""The confidence of a search under a perturbation."""
_REST = 0.1
"""What all candidates together weigh, alike, beside those that the runs without a perturbation make likely."""


@dataclass
class PosteriorCache:
    """Remembers the last posterior and the last weights: both follow from what is asked, and one more observation
    then costs one more step."""

    posterior: Posterior | None = None
    weighed_by: tuple[Sequence[str], Sequence[Mapping[str, float]]] | None = None
    weights: Floats | None = None

    def after(
        self,
        loaded: LoadedRange,
        observations: Sequence[Observation],
        *,
        weights: Floats | None,
        prior: Prior | None,
        rates: Rates,
    ) -> Posterior:
        """The posterior after some observations, with prior weights of shape [n] and a prior, and `rates` before any of
        them."""
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
class Blame:
    """What an error blames that made some content untestable."""

    content: str
    error: CompilerError
    file: BlamedFile


@dataclass(frozen=True, kw_only=True)
class FoundUnder:
    """What the search of a range under a perturbation tells of the range as it is. culprit: the candidate that it
    names; None where it names none."""

    perturbation: str
    prior: Prior
    culprit: int | None


@dataclass(frozen=True, kw_only=True)
class RangeSearch:
    """A loaded range, its place among the ranges of the bisection, from 1, and what probes tell of it."""

    ordinal: int
    loaded: LoadedRange
    evidence: RangeEvidence
    confidence: float
    case: str | None
    natural: "RangeSearch | None" = None
    """The search of the range as it is, where this one searches it under a perturbation."""
    failures: Failures | None = None
    """The failures that are searched for, where others were told from them; None: any."""
    perturbations_tried: bool = False
    """Whether perturbations had their turn."""
    found_under: FoundUnder | None = field(default=None, compare=False)
    """What came of the one under which the range was searched."""
    _cache: PosteriorCache = field(default_factory=PosteriorCache, compare=False, repr=False)

    @property
    def failing(self) -> Target:
        """The end at which the case fails."""
        return failing_end(self.loaded)

    def log(self, known: Known) -> ProbeLog:
        """The probes as this search takes them: those that fail otherwise than what is searched for tell nothing."""
        return known.log if self.failures is None else counting_only(known.log, self.failures)

    def weights(self, known: Known, around: Circumstances) -> Floats | None:
        """How likely each candidate is to blame beforehand; shape [n]; None if equally. Under a perturbation by what
        the runs without it tell."""
        if self.natural is not None:
            if self._cache.weights is None:
                guess = self.natural.posterior(known, around).guess.commits
                self._cache.weights = guess / guess.sum() + _REST / len(guess)
            return self._cache.weights
        kernels = kernels_of(known.log, self.failing.content)
        suspicions = around.suspicions.get(self.loaded.range.repository, ())
        if self._cache.weighed_by != (kernels, suspicions):
            self._cache.weights = commit_weights(
                self.loaded, case=self.case, kernels=kernels, suspicions=suspicions
            )
            self._cache.weighed_by = (kernels, suspicions)
        return self._cache.weights

    def blamed_files(self, known: Known) -> tuple[AskBlamedFile, ...]:
        """What has to be asked about the errors that made candidates untestable."""
        return tuple(dict.fromkeys(question for _, question in self._questions(known)))

    def _questions(self, known: Known) -> Iterator[tuple[str, AskBlamedFile]]:
        """A question about each error of each untestable content of this range; equal errors blame alike."""
        errors = {probe.content: probe.errors for probe in known.log.ended} | self._earlier_skips(known)
        asked: dict[CompilerError, AskBlamedFile] = {}
        for content in errors:
            for node in self.evidence.nodes_of(content)[:1]:
                commit, candidates = target_at(self.loaded, node).commit, self.loaded.candidates
                for error in errors[content]:
                    question = AskBlamedFile(
                        ordinal=self.ordinal, candidates=candidates, commit=commit, error=error
                    )
                    yield content, asked.setdefault(error, question)

    def _earlier_skips(self, known: Known) -> dict[str, tuple[CompilerError, ...]]:
        """What other bisections could not build, of what this one has not tried."""
        ends = {self.loaded.old_content, self.loaded.new_content}
        return {
            content: errors
            for content, errors in self.loaded.earlier_skips.items()
            if content not in ends and not known.log.of(content)
        }

    def blames(self, known: Known) -> tuple[Blame, ...]:
        """What errors blame, as far as it was asked, the first error of each content first."""
        return tuple(
            Blame(content, question.error, file)
            for content, question in self._questions(known)
            if known.has(question) and (file := known.answer(question)) is not None
        )

    def posterior(self, known: Known, around: Circumstances, *, earlier: bool = True) -> Posterior:
        """What the probes say. `earlier`: what other bisections could not build is untestable."""
        blamed: dict[str, tuple[BlamedFile, ...]] = {}
        for blame in self.blames(known):
            blamed[blame.content] = (*blamed.get(blame.content, ()), blame.file)
        observations = [
            Observation(node, Outcome.SKIP, blamed=blamed.get(content, ()))
            for content in (self._earlier_skips(known) if earlier else ())
            for node in self.evidence.nodes_of(content)
        ]
        observations += self.evidence.observations(self.log(known), blamed)
        return self._cache.after(
            self.loaded,
            observations,
            weights=self.weights(known, around),
            prior=None if self.found_under is None else self.found_under.prior,
            rates=known.question.rates,
        )

    def promise(
        self, posterior: Posterior, known: Known, around: Circumstances, *, before: int = 0
    ) -> Promise:
        """What a further probe promises. `before` is how many probes come before the first one."""
        return promise_of(
            self.loaded,
            posterior,
            log=known.log,
            around=around,
            confidence=self.confidence,
            in_flight=self.in_flight(known),
            before=before,
        )

    def in_flight(self, known: Known) -> list[int]:
        """The candidates, or the good end, that are being probed, in the order of the starts."""
        return [probe.wanted.node for probe in known.log.running if probe.wanted.node is not None]

    def under(self, perturbation: OfferedPerturbation) -> "RangeSearch":
        """The search of the range under a perturbation: its answer is where the search without it begins, and need not
        be sure."""
        loaded = range_under(self.loaded, perturbation)
        return replace(
            self,
            loaded=loaded,
            evidence=RangeEvidence.of(loaded),
            confidence=min(self.confidence, _SURE_ENOUGH),
            natural=self,
            _cache=PosteriorCache(),
        )

    def after_perturbations(self, found: FoundUnder | None) -> "RangeSearch":
        """The search of the range as it is, once perturbations had their turn."""
        return replace(self, perturbations_tried=True, found_under=found, _cache=PosteriorCache())

    def of_failures(self, failures: Failures | None) -> "RangeSearch":
        """The search of the range for some failures alone; None: for any."""
        return replace(self, failures=failures, _cache=PosteriorCache())

    def wanted(self, node: int, phase: Phase) -> WantedProbe:
        """A probe of a candidate, or of the good end."""
        phase = phase if self.natural is None else Phase.PERTURBED
        return WantedProbe(target=target_at(self.loaded, node), phase=phase, range=self.ordinal, node=node)


def failing_end_before_measured(known: Known, search: RangeSearch) -> Target | None:
    """The failing end where it was measured before the ends are, because the good one had to be looked for."""
    return None if known.question.gallop is None else search.failing
