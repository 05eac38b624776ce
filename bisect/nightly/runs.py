"""Single runs of the matrix, noted in the store as soon as they are finished."""

import re
import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path

from ...runner.case.case import CaseName, RunOptions
from ...runner.git.revisions import Revisions, fixed_revisions
from ...runner.probe.bad_when import BadWhen
from ...runner.probe.probe import Prober
from ...runner.probe.records import ProbeRequest
from ...runner.stack.stack import Stack
from ...runner.verdict.verdict import OF_A_COMPILER, OF_AN_EXCEPTION
from ...runner.workspace.content import StackContent
from ...runner.workspace.environment import EnvironmentReader, fingerprint
from ...runner.workspace.workspace import Workspace
from ...store.clock import now
from ...store.journals.nightly.case_runs import CaseRun
from ...store.journals.nightly.job import JobJournal
from ...store.journals.shared_rows import storable
from ...store.tables.nights import CaseResultRow, CaseRunRow, CellRow
from ...store.vocabulary import BuildSource, CaseStatus, Evidence, Judgement, Phase, Verdict
from ..engine.probes import FinishedProbe, ProbeTimes
from .config import NightlyConfig
from .limits import Limits, QuotaSpentError

FAILING = frozenset(
    {
        Verdict.MISMATCH,
        Verdict.COMPILE_ERROR,
        Verdict.ASSEMBLE_ERROR,
        Verdict.KERNEL_COMPILE_ERROR,
        Verdict.STALL,
        Verdict.CRASH,
        Verdict.DEVICE_ERROR,
        Verdict.TIMEOUT,
    }
)
OF_THE_DEVICE = frozenset({Verdict.DEVICE_ERROR, Verdict.ENVIRONMENT_ERROR, Verdict.TIMEOUT})
"""Says nothing of a case that was never seen to pass on the device."""
_EVIDENCE_LINES = 20
_POINTS_ELSEWHERE = re.compile(r"\s*(?:(?:hint|note): |╰─> See above)")
"""What pip prints last where a build fails: the cause stands before it."""


class CaseRunner:
    """Builds and runs cells at any commit of the searched repository."""

    def __init__(
        self,
        *,
        config: NightlyConfig,
        stack: Stack,
        workspace: Workspace,
        prober: Prober,
        content: StackContent,
        journal: JobJournal,
        limits: Limits,
        directory: Path,
    ) -> None:
        self._config = config
        self._stack = stack
        self._prober = prober
        self.content = content
        self.workspace = workspace
        self.revisions = Revisions(
            stack, workspace.clones, fixed_revisions(stack, workspace.repositories, searched=stack.searched)
        )
        self._environment = EnvironmentReader(stack)
        self._journal = journal
        self._limits = limits
        self._directory = directory

    def complete(self, commit: str) -> dict[str, str]:
        """The commit of every repository that goes with one of the searched repository."""
        return self.revisions.complete({self._stack.searched: commit})

    def content_at(self, commit: str) -> str:
        """The key of all that can change a result at a commit."""
        return self.content.of_revisions(self.complete(commit))

    def environment(self) -> str:
        """The fingerprint of the surroundings as they are now."""
        return fingerprint(self._environment.read(packages_path=self._prober.slot.packages_path()))

    def run(self, night: int, cell: CellRow, commit: str) -> CaseRunRow | None:
        """Run a cell once; None where the device's quota is used up. Raises `OutOfTimeError`."""
        try:
            self._limits.permit(cell.platform)
        except QuotaSpentError:
            return None
        revisions: Mapping[str, str] = self.complete(commit)
        started = now()
        directory = self._directory / f"{cell.id}-{commit[:12]}-{started:%H%M%S%f}"
        result = self._prober.probe(
            ProbeRequest(
                revisions=revisions,
                case=CaseName.parse(question_case(self._config, cell), self._stack),
                platform=cell.platform,
                device=self._config.platforms[cell.platform].device,
                golden=None,
                bad_when=BadWhen(verdict=Verdict.MISMATCH),
                options=RunOptions(),
                timeout=self._config.timeout or self._stack.limits.run_timeout,
                directory=directory,
            )
        )
        found = result.classification
        return self._journal.runs.add(
            night,
            cell.id,
            CaseRun(
                started=started,
                commit=commit,
                revisions=revisions,
                content=self.content.of_revisions(revisions),
                verdict=found.verdict,
                signature=found.signature,
                metrics=found.metrics,
                evidence=[storable(text)[:1000] for text in evidence_texts(found.evidence)],
                device=self._config.platforms[cell.platform].device,
                host=result.host,
                build_source=result.build_source,
                build_seconds=result.build_seconds,
                run_seconds=result.run_seconds,
                fingerprint=fingerprint(result.surroundings),
                environment=result.surroundings,
                log=str(result.log),
            ),
        )


def evidence_texts(evidence: Sequence[Evidence]) -> list[str]:
    """The lines that a run of the matrix keeps. Where nothing but its end decided, the first says what it printed too:
    the first error of a compiler, else the exception that ended it, else its last line that tells something."""
    texts = [line.text for line in evidence[:_EVIDENCE_LINES]]
    printed = [line for line in evidence[1:] if line.stream not in ("ending", "outcome")]
    if printed and evidence[0].stream == "ending":
        causes = [line for line in printed if line.why in (OF_A_COMPILER, OF_AN_EXCEPTION)]
        telling = [line for line in printed if not _POINTS_ELSEWHERE.match(line.text)]
        line = causes[0] if causes else (telling or printed)[-1]
        texts[0] = f"{texts[0]}, it printed: {line.text.strip()}"
    return texts


def log_of(result: CaseResultRow, runs: Sequence[CaseRunRow]) -> str | None:
    """The log of the run that tells what a night says of a cell, of `runs` of that night; None where it passed, or was
    not run."""
    if result.status is CaseStatus.PASSED:
        return None
    telling = [run.log for run in runs if run.commit == result.commit and run.verdict is result.verdict]
    return telling[-1] if telling else None


def judgement_of(verdict: Verdict) -> Judgement:
    """What a run of the matrix says of its case: one that got to no result says nothing.

    >>> judgement_of(Verdict.UNKNOWN)
    <Judgement.SKIP: 'skip'>
    """
    if verdict is Verdict.PASS:
        return Judgement.GOOD
    return Judgement.BAD if verdict in FAILING else Judgement.SKIP


def judged_run(run: CaseRunRow, bad_when: str) -> FinishedProbe:
    """A run of the matrix as the engine knows it, judged for a regression that was opened by a verdict `bad_when`."""
    judgement = judgement_of(run.verdict)
    if run.verdict in OF_THE_DEVICE and run.verdict != bad_when:
        judgement = Judgement.SKIP
    return FinishedProbe(
        number=run.id,
        content=run.content,
        phase=Phase.ENDPOINT,
        judgement=judgement,
        verdict=run.verdict,
        signature=run.signature,
        metrics=run.metrics,
        times=probe_times(run),
    )


def probe_times(run: CaseRunRow) -> ProbeTimes:
    """What a run of the matrix took."""
    return ProbeTimes(
        build_source=BuildSource(run.build_source),
        build_seconds=run.build_seconds,
        run_seconds=run.run_seconds,
    )


def question_case(config: NightlyConfig, cell: CellRow) -> str:
    """The case with the arguments of its tolerance, as `--case` takes it."""
    arguments = shlex.join(config.tolerances[cell.tolerance])
    return f"{cell.case} {arguments}".strip()
