"""Finds a good end where none was named: gallops back along first parents until the case passes."""

from pathlib import Path
from typing import Literal

from ...runner.errors import EndsError
from ...runner.git.repository import GitRepository
from ...runner.git.revisions import NoPinError
from ...runner.workspace.workspace import MissingCommitError
from ...store.journal import Journal
from ...store.vocabulary import Judgement, Phase
from ..plan.request import BisectRequest
from ..search.choose.gallop import gallop
from ..search.evidence.calibration import FEWEST_RUNS
from ..search.evidence.knowledge import Outcome
from .ends import prepare_golden, run_until
from .experiments import Experiment, Experiments
from .judging import judge
from .progress import Progress, plural

_OUTCOMES = {Judgement.GOOD: Outcome.GOOD, Judgement.BAD: Outcome.BAD, Judgement.SKIP: Outcome.SKIP}
_DAY = 24 * 3600.0


def gallop_distances(
    repository: GitRepository, bad: str, by: Literal["commits", "days"]
) -> tuple[list[str], list[float]]:
    """The first parents of a commit, itself first, and how far each lies behind it."""
    line = repository.first_parents(bad)
    shas = [sha for sha, _ in line]
    if by == "commits":
        return shas, [float(place) for place in range(len(line))]
    distances: list[float] = []
    for _, seconds in line:
        # Dates may go backwards; distances do not.
        distances.append(max(*distances[-1:], (line[0][1] - seconds) / _DAY, 0.0))
    return shas, distances


class GoodEndSearch:
    """Looks for a good end behind the bad one. All runs go through the journal, so that a resume repeats none."""

    def __init__(
        self,
        request: BisectRequest,
        *,
        journal: Journal,
        experiments: Experiments,
        repository: GitRepository,
        golden_store: Path,
        progress: Progress,
    ) -> None:
        self._request = request
        self._journal = journal
        self._experiments = experiments
        self._repository = repository
        self._golden_store = golden_store
        self._progress = progress
        self._unfrozen_runs = 0
        self._frozen = False

    def find(self, stage: int) -> str:
        """The good end's commit. Raises `EndsError` where nothing passes down to the root, or the bad end does."""
        request = self._request
        assert request.gallop is not None
        line, distances = gallop_distances(self._repository, request.bad, request.gallop)
        self._freeze(None)
        bad = self._at(stage, request.bad)
        self._unfrozen_runs += not self._frozen
        run_until(Judgement.BAD, self._experiments, bad, save_golden=self._saves)
        self._experiments.use_error_scale(bad)
        found = gallop(distances, lambda place: self._test(stage, line[place], bad))
        if found is None:
            raise EndsError(
                f"expected a pass of the case somewhere before bad {request.bad[:12]}, found none back to the root "
                f"{line[-1][:12]} ({plural(len(line) - 1, 'commit')} along first parents, 1, 2, 4, ... of them run): "
                "it may never have passed; name a commit of another branch with --good, or check the case"
            )
        self._notice(f"good end: {line[found][:12]} passes, {plural(found, 'commit')} before the bad one")
        return line[found]

    def _test(self, stage: int, sha: str, bad: Experiment) -> Outcome:
        self._journal.add_commits(self._request.repository, [self._repository.commit(sha)])
        try:
            experiment = self._at(stage, sha)
        except (NoPinError, MissingCommitError):
            return Outcome.SKIP
        experiments = self._experiments
        if not experiments.finished(experiment.content):
            self._unfrozen_runs += not self._frozen
            experiments.run(experiment, Phase.ENDPOINT, save_golden=self._saves)
        if not experiments.tally(experiment.content)[Judgement.GOOD]:
            return _OUTCOMES[judge(experiments, experiment, Phase.ENDPOINT)]
        if not self._frozen:
            self._freeze(experiment)
        # Does the failure come and go? Then one pass proves nothing.
        experiments.ensure(bad, Phase.ENDPOINT, runs=FEWEST_RUNS)
        return _OUTCOMES[judge(experiments, experiment, Phase.ENDPOINT, passes=FEWEST_RUNS)]

    @property
    def _saves(self) -> bool:
        return not self._frozen and self._request.captures_golden

    def _at(self, stage: int, sha: str) -> Experiment:
        request = self._request
        return self._experiments.at(stage, request.repository, sha, request.frozen)

    def _freeze(self, good: Experiment | None) -> None:
        golden = prepare_golden(
            self._request,
            journal=self._journal,
            experiments=self._experiments,
            good=good,
            store=self._golden_store,
        )
        self._frozen = golden is not None or not self._request.captures_golden
        if golden is None:
            return
        self._experiments.use_golden(golden)
        if good is not None and self._unfrozen_runs > 1:
            self._notice(
                f"the data are frozen as {good.commit[:12]} had them; the runs before its own made data of their own"
            )

    def _notice(self, text: str) -> None:
        self._journal.add_notice(text)
        self._progress.notice(text)
