"""Runs a working copy through the stack's own golden harness, and opens what it recorded."""

from __future__ import annotations

import gzip
import shutil
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from ...runner.build_output.args.dump import ArgsDump
from ...runner.build_output.golden_data import TensorFolder
from ...runner.build_output.graph.task_graph import TaskGraph
from ...runner.build_output.kernel_config import kernel_names
from ...runner.case.case import CaseName, RunOptions, case_command
from ...runner.case.entry_arguments import EntryArgument, write_specs
from ...runner.case.runtime_dir import REPLAY_CASE
from ...runner.compare.statistics.statistics import Tolerance
from ...runner.errors import UserError
from ...runner.process.execute import Command, FinishedCommand, RunningCommand, execute
from ...runner.stack.templates import fill
from ...runner.verdict.ending import Ending
from ...runner.verdict.harness_outcome import read_harness_outcome
from ...runner.verdict.rules import VerdictRule
from ...runner.verdict.verdict import Classification, Classifier
from ...runner.workspace.targets import lease
from ...store.vocabulary import Verdict
from .compiled_objects import CompiledObjects
from .harness_tolerance import read_tolerance
from .toolchain import Toolchain
from .working_copy import WorkingCopy

OUTPUTS = "outputs"
"""What a run put out, in its folder, where that was saved."""


class ReplayError(UserError):
    """A run ended otherwise than by a comparison of its outputs: with `verdict`."""

    def __init__(self, message: str, verdict: Verdict) -> None:
        self.verdict = verdict
        super().__init__(message)


@dataclass(frozen=True, kw_only=True)
class Replay:
    """One finished run. `dump` and `graph` are None unless they were asked for.

    `outputs` is None where the harness at this revision does not hand them to a comparator.
    """

    classification: Classification
    dump: ArgsDump | None
    graph: TaskGraph | None
    outputs: TensorFolder | None
    tolerance: Tolerance | None
    """The harness's own, where it was told."""
    seconds: float
    log: Path

    @property
    def dumped_bytes(self) -> int:
        """Bytes of all payloads."""
        return 0 if self.dump is None else self.dump.payload_bytes


@dataclass(frozen=True, kw_only=True)
class Ran:
    """One run that ended somehow, with its log in `folder`."""

    classification: Classification
    ending: Ending
    seconds: float
    folder: Path

    @property
    def log(self) -> Path:
        """What it printed, compressed."""
        return self.folder / "run.log.gz"

    def lines(self) -> Iterator[str]:
        """What it printed, line by line."""
        with gzip.open(self.log, "rt", encoding="utf-8", errors="replace") as log:
            yield from (line.rstrip("\n") for line in log)

    @property
    def outputs(self) -> TensorFolder | None:
        """What it put out, where that was saved."""
        folder = self.folder / OUTPUTS
        return TensorFolder.open(folder) if folder.is_dir() else None

    @property
    def why(self) -> str:
        """The line that decided, or what was printed last: a traceback tells its error there."""
        decided = next((line.text for line in self.classification.evidence if line.stream != "ending"), "")
        if decided and not decided.startswith("Traceback"):
            return decided
        return next((line for line in reversed([*self.lines()]) if line.strip()), decided)


@dataclass
class Replayer:
    """Runs one working copy, again and again, each run in a numbered folder of its own below `folder`.

    `objects` are what runs of this and other copies have compiled; None: each compiles for itself.
    """

    copy: WorkingCopy
    toolchain: Toolchain
    folder: Path
    timeout: float
    objects: CompiledObjects | None = None
    runs: int = 0
    dumped_bytes: int = 0

    def run(
        self,
        arguments: Sequence[EntryArgument],
        *,
        data: Path,
        dump_level: int = 0,
        dep_gen: bool = False,
        schedule: str | None = None,
    ) -> Replay:
        """Run the copy as it stands on the frozen data in `data`, and keep what it records.

        `schedule` is one of the stack file, for this run alone.

        Raises:
            ReplayError: it crashed, stalled, ran into `timeout` (seconds), or could not be compiled.
            BuildOutputError: what it recorded cannot be read.
        """
        ran = self.classify(
            arguments,
            data=data,
            dump_level=dump_level,
            dep_gen=dep_gen,
            schedule=schedule,
            save_outputs=True,
        )
        if ran.classification.verdict not in (Verdict.PASS, Verdict.MISMATCH):
            raise ReplayError(_failure(ran, self.copy), ran.classification.verdict)
        replay = self._open(ran, dump_level=dump_level, dep_gen=dep_gen)
        self.dumped_bytes += replay.dumped_bytes
        return replay

    def classify(
        self,
        arguments: Sequence[EntryArgument],
        *,
        data: Path,
        dump_level: int = 0,
        dep_gen: bool = False,
        schedule: str | None = None,
        save_outputs: bool = False,
        tolerance: Tolerance | None = None,
    ) -> Ran:
        """Run the copy as it stands, whatever the verdict; what it records stays in the copy.

        `tolerance` is the harness's own default unless given, and does not count where outputs are saved.
        """
        self.runs += 1
        folder = self.folder / f"{self.runs:03}"
        folder.mkdir(parents=True)
        self.copy.clear_records()
        specs = folder / "specs.json"
        write_specs(arguments, specs)
        stack = self.toolchain.stack
        toolchain = self.toolchain if schedule is None else self.toolchain.under(schedule)
        values = self.toolchain.values(case=REPLAY_CASE, folder=folder)
        outcome = folder / "outcome.json"
        command = case_command(
            stack,
            _replay_case(specs, outputs=folder / OUTPUTS if save_outputs else None, tolerance=tolerance),
            RunOptions(golden_data=data, dump_level=dump_level, dep_gen=dep_gen, runtime_dir=self.copy.path),
            offered=frozenset(),
            outcome=outcome,
            values=values,
        )
        classifier = Classifier(stack.verdicts)
        finished = self._execute(
            Command(
                argv=command.argv,
                cwd=Path(fill(stack.case.cwd, values)),
                environment=toolchain.environment,
                timeout=self.timeout,
                tells_its_end=_tells_a_stall(stack.verdicts),
            ),
            start=toolchain.start,
            log=folder / "run.log.gz",
            classifier=classifier,
        )
        kernels = kernel_names(self.copy.path)
        classification = classifier.finish(finished.ending, read_harness_outcome(outcome), kernels=kernels)
        return Ran(
            classification=classification, ending=finished.ending, seconds=finished.seconds, folder=folder
        )

    def _execute(
        self,
        command: Command,
        *,
        start: Callable[[Command], RunningCommand],
        log: Path,
        classifier: Classifier,
    ) -> FinishedCommand:
        """Runs the case once the device is free."""
        compiled = None if self.objects is None else self.objects.put_into(self.copy, self.toolchain)
        platform = self.toolchain.platform
        with lease(
            platform,
            self.toolchain.stack.platforms[platform],
            self.toolchain.device,
            on_wait=lambda _message: None,
        ):
            finished = execute(
                command,
                log=log,
                on_line=lambda stream, line: classifier.feed(
                    "stdout" if stream == "stdout" else "stderr", line
                ),
                start=start,
            )
        if self.objects is not None and compiled is not None:
            self.objects.keep(self.copy, self.toolchain, compiled)
        return finished

    def keep_records(self, ran: Ran) -> None:
        """Moves the records out of the copy, where the next run would overwrite them under an open mapping."""
        records = self.copy.path / "dfx_outputs"
        if records.is_dir() and not records.is_symlink():
            shutil.move(records, ran.folder / "dfx_outputs")

    def _open(self, ran: Ran, *, dump_level: int, dep_gen: bool) -> Replay:
        self.keep_records(ran)
        kept = WorkingCopy(ran.folder)
        return Replay(
            classification=ran.classification,
            dump=kept.build().args_dump() if dump_level else None,
            graph=kept.build().task_graph() if dep_gen else None,
            outputs=ran.outputs,
            tolerance=read_tolerance(ran.folder / OUTPUTS),
            seconds=ran.seconds,
            log=ran.log,
        )


def _tells_a_stall(rules: Sequence[VerdictRule]) -> Callable[[str], bool]:
    """Whether a line says that the runtime gave up, however the process ends: a kernel that never returns keeps that
    alive."""
    patterns = [
        rule.pattern
        for rule in rules
        if rule.verdict is Verdict.STALL and {"exit", "timeout"} <= set(rule.endings)
    ]
    return lambda line: any(pattern.search(line) for pattern in patterns)


def _closeness(tolerance: Tolerance | None) -> tuple[str, ...]:
    """The harness's own default where none is asked for."""
    return () if tolerance is None else ("--rtol", repr(tolerance.rtol), "--atol", repr(tolerance.atol))


def _failure(ran: Ran, copy: WorkingCopy) -> str:
    classification = ran.classification
    return (
        f"{copy.path}: expected its outputs compared, found {classification.verdict.value}"
        f"{f' ({classification.signature})' if classification.signature else ''}: {ran.why[:200]}; see {ran.log}"
    )


def _replay_case(specs: Path, *, outputs: Path | None, tolerance: Tolerance | None) -> CaseName:
    """The script that runs a build directory under the harness, with its arguments. `outputs` is where it saves what it
    computes; None: it compares."""
    saved = () if outputs is None else ("--outputs", str(outputs))
    return CaseName(
        path=PurePosixPath(REPLAY_CASE.name),
        arguments=("--specs", str(specs), *saved, *_closeness(tolerance)),
    )
