"""One probe: check out, build, run the case on frozen data, classify. Nothing is remembered here."""

import os
import platform as host_platform
import secrets
import shutil
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import Self

from ...store.vocabulary import Evidence, Judgement
from ..case.case import CaseCommand, CaseName, RunOptions, case_command, predecessors
from ..case.golden import FrozenGolden
from ..errors import UserError
from ..process.execute import Command, FinishedCommand, execute
from ..process.interrupt import Interrupt
from ..stack.stack import Stack
from ..stack.templates import fill
from ..verdict.ending import Ending
from ..verdict.harness_outcome import HarnessOutcome, HarnessOutcomeError, read_harness_outcome
from ..verdict.verdict import Classification, Classifier
from ..workspace.content import StackContent
from ..workspace.environment import EnvironmentReader
from ..workspace.home import Home
from ..workspace.perturbations import lacking, perturbation_of
from ..workspace.slot import Slot
from ..workspace.targets import lease
from ..workspace.workspace import Workspace
from ..workspace.worktree import remove
from .builder import Builder, BuiltToolchain, FailedBuild
from .builds.compiled import CompiledByRuns
from .by_hand import leave_to_person
from .judgement import NOT_JUDGED, Listener, case_missing, case_not_reached, not_frozen, perturbation_missing
from .offered_options import OfferedOptions
from .preparation import NOT_STARTED, Preparation, Prepared
from .records import ProbeRequest, ProbeResult

_BUILD = "build"
"""The folder, below a probe's own, of the build directory that its run left or was given."""

RUNNING = "running"
"""What a prober says once all is built, and the case runs."""

OnActivity = Callable[[str], None]
"""Told what a slot does now, in a few words."""


class Prober:
    """Makes probes in one slot, which it holds until it is closed.

    The same prober makes many probes, so that incremental builds are used again.
    """

    def __init__(
        self,
        workspace: Workspace,
        content: StackContent,
        home: Home,
        *,
        on_activity: OnActivity,
        variables: Mapping[str, str] = os.environ,
        share: int = 1,
        interrupt: Interrupt | None = None,
        build_store: str | None = None,
    ) -> None:
        """`variables` are what commands inherit, `share` is how many probers the machine's cores are for, `build_store`
        is the URL of builds that machines share. Raises `UserError`."""
        stack = self._stack = workspace.stack
        self._interrupt = interrupt
        self._on_activity = on_activity
        self._variables = variables
        reader = EnvironmentReader(stack, variables)
        self._options = OfferedOptions(home.options, stack, content, reader, interrupt=interrupt)
        builder = Builder(stack, content, home.builds, interrupt=interrupt, build_store=build_store)
        self._compiled = CompiledByRuns(stack, content, builder.cache)
        self._slot = workspace.acquire()
        self._preparation = Preparation(
            workspace,
            self._slot,
            builder,
            reader,
            variables=variables,
            cores=max(1, (os.cpu_count() or 1) // share),
            says=self._says,
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._slot.release()

    @property
    def slot(self) -> Slot:
        """The slot that this prober holds."""
        return self._slot

    def probe(self, request: ProbeRequest) -> ProbeResult:
        """Make one probe. Raises `UserError` where no probe can be made at all (no disk, no golden data), and
        `InterruptedWorkError`."""
        try:
            return self._probe(request)
        except OSError as error:
            raise UserError(
                f"{error.filename or request.directory}: expected to be able to write here: {_reason(error)}; "
                "free space or set PRECISION_BISECT_HOME to a folder with room, then resume"
            ) from error

    def prepare(self, request: ProbeRequest, *, of: str) -> Stack:
        """Check out and build in the slot, and run nothing: the stack with its repositories where they are there.

        of: what is prepared, as an error line begins. Raises `UserError`, also where a step of the build fails, and
        `InterruptedWorkError`.
        """
        request.directory.mkdir(parents=True, exist_ok=True)
        built = self._preparation.prepare(request).built
        if isinstance(built, FailedBuild):
            raise UserError(
                f"{of}: expected its toolchain to build, found that step {built.step} failed; see {request.directory}"
            )
        there = {
            name: repository.model_copy(update={"path": self._slot.path(name)})
            for name, repository in self._stack.repositories.items()
        }
        return self._stack.model_copy(update={"repositories": there})

    def _probe(self, request: ProbeRequest) -> ProbeResult:
        shutil.rmtree(request.directory, ignore_errors=True)
        # An earlier attempt, whose worker was killed, may still be dying and write there.
        request.directory.mkdir(parents=True, exist_ok=True)
        prepared = self._preparation.prepare(request)
        built = prepared.built
        if isinstance(built, FailedBuild):
            log = request.directory / f"build-{built.step}.log.gz"
            not_run = self._not_run(built.classification, prepared, log=log)
            return replace(not_run, ending=built.ending, build_seconds=built.seconds)
        if request.build_only:
            return self._not_run(NOT_JUDGED, prepared, log=request.directory / "run.log.gz", toolchain=built)
        return self._run(request, prepared, built)

    def _run(self, request: ProbeRequest, prepared: Prepared, toolchain: BuiltToolchain) -> ProbeResult:
        log = request.directory / "run.log.gz"
        missing = self._missing_script(request, prepared)
        if missing is not None:
            return self._not_run(case_missing(missing), prepared, log=log, toolchain=toolchain)
        options = _with_own_build_directory(request)
        outcome_file = request.directory / f"outcome-{secrets.token_hex(8)}.json"
        perturbation = perturbation_of(self._stack, request.revisions)
        in_front = () if perturbation is None else perturbation.command
        lacks = [] if perturbation is None else lacking(perturbation, prepared.case_environment.get("PATH"))
        if lacks:
            return self._not_run(perturbation_missing(lacks), prepared, log=log, toolchain=toolchain)
        command = case_command(
            self._stack,
            request.case,
            options,
            offered=self._options.of_case(self._slot, request, prepared, toolchain),
            outcome=outcome_file,
            values=prepared.values,
            in_front=[fill(word, prepared.values) for word in in_front],
        )
        refused = _refused_option(command, request.golden, options)
        if refused is not None:
            classification = not_frozen(refused, "the case has no option for it at this commit")
            return self._not_run(classification, prepared, log=log, toolchain=toolchain)
        if request.by_hand:
            return self._leave_to_person(command, request, prepared, toolchain, log=log)
        listener = Listener(Classifier(self._stack.verdicts), request.bad_when, begins=command.begins)
        finished = self._execute(command, listener, request, prepared, toolchain, log=log)
        outcome, doubts = _read_outcome(outcome_file)
        build_directory = options.runtime_dir or self._keep_build_directory(request.directory, outcome)
        classification, judgement = listener.finish(
            finished.ending, outcome, kernels=_kernels(build_directory, finished.ending)
        )
        if not listener.case_began:
            classification, judgement = case_not_reached(finished.ending), Judgement.SKIP
        for call in outcome.calls if outcome else ():
            if options.runtime_dir is not None and "runtime_dir" in call.not_applied:
                classification = not_frozen("--runtime-dir", call.not_applied["runtime_dir"])
                judgement = Judgement.SKIP
        classification = replace(classification, evidence=(*classification.evidence, *doubts))
        return replace(
            self._not_run(classification, prepared, log=log, toolchain=toolchain),
            judgement=judgement,
            ending=finished.ending,
            command=command.argv,
            missing_options=command.missing,
            run_seconds=finished.seconds,
            build_directory=build_directory,
        )

    def _missing_script(self, request: ProbeRequest, prepared: Prepared) -> CaseName | None:
        """The first script that the commit does not have, of what runs before the case and the case."""
        if request.case is not None and not Path(prepared.values["case"]).is_file():
            return request.case
        root = self._slot.path(self._stack.case.repository)
        return next((each for each in predecessors(self._stack) if not (root / each.path).is_file()), None)

    def _leave_to_person(
        self,
        command: CaseCommand,
        request: ProbeRequest,
        prepared: Prepared,
        toolchain: BuiltToolchain,
        *,
        log: Path,
    ) -> ProbeResult:
        """The result of a case that a person runs, before they have."""
        self._clear_build_output()
        left = leave_to_person(
            command.argv,
            directory=self._slot.directory / fill(self._stack.case.cwd, prepared.values),
            environment=prepared.case_environment,
            inherited=self._variables,
            script=request.directory / "run.sh",
        )
        not_run = self._not_run(NOT_JUDGED, prepared, log=log, toolchain=toolchain)
        return replace(not_run, command=command.argv, missing_options=command.missing, left=left)

    def _execute(
        self,
        command: CaseCommand,
        listener: Listener,
        request: ProbeRequest,
        prepared: Prepared,
        toolchain: BuiltToolchain,
        *,
        log: Path,
    ) -> FinishedCommand:
        """Run the case's command where it may run; `listener` hears what it prints."""
        self._clear_build_output()
        compiled = self._compiled.key(
            request.revisions,
            case=str(request.case),
            platform=request.platform,
            toolchain=toolchain.key,
            surroundings=prepared.surroundings,
        )
        self._compiled.put_back(compiled, self._slot.directory)
        with lease(
            request.platform,
            self._stack.platforms[request.platform],
            request.device,
            on_wait=self._says,
            interrupt=self._interrupt,
        ) as leases:
            self._says(RUNNING)
            self._slot.begin_case()
            finished = execute(
                Command(
                    argv=command.argv,
                    cwd=self._slot.directory / fill(self._stack.case.cwd, prepared.values),
                    environment=prepared.case_environment,
                    timeout=request.timeout,
                    memory=self._memory_limit(),
                    holds=(self._slot.lock, *leases),
                    interrupt=self._interrupt,
                ),
                log=log,
                on_line=listener.feed,
                skims=listener.skims,
            )
            if not finished.ending.timed_out:
                self._slot.end_case()
        if finished.ending.kind == "exit":
            self._compiled.keep(compiled, self._slot.directory)
        return finished

    def _says(self, text: str) -> None:
        """Between two pieces of work: stop here if asked to, else say what comes now."""
        if self._interrupt is not None:
            self._interrupt.check()
        self._on_activity(text)

    def _not_run(
        self,
        classification: Classification,
        prepared: Prepared,
        *,
        log: Path,
        toolchain: BuiltToolchain | None = None,
    ) -> ProbeResult:
        """The result where the case was not run."""
        return ProbeResult(
            classification=classification,
            judgement=Judgement.SKIP,
            ending=NOT_STARTED,
            command=(),
            missing_options=(),
            toolchain=toolchain,
            build_seconds=0.0 if toolchain is None else toolchain.seconds,
            run_seconds=0.0,
            surroundings=prepared.surroundings,
            slot=self._slot.index,
            host=host_platform.node(),
            log=log,
            build_directory=None,
        )

    def _memory_limit(self) -> int | None:
        limit = self._stack.limits.memory_gib
        return None if limit is None else int(limit * (1 << 30))

    def _clear_build_output(self) -> None:
        """Remove what a run that was killed here has left."""
        folder = self._stack.case.build_output
        if folder is not None:
            remove(self._slot.directory / folder)

    def _keep_build_directory(self, directory: Path, outcome: HarnessOutcome | None) -> Path | None:
        """Move the build directory that the case made out of the slot; older ones are of what ran before it."""
        folder = self._stack.case.build_output
        root = self._slot.directory / folder if folder is not None else None
        if root is None or not root.is_dir() or root.is_symlink():
            return None
        began = outcome.began if outcome is not None else None
        if self._stack.case.after and began is None:
            return None
        made = [
            path
            for path in root.iterdir()
            if path.is_dir() and not path.is_symlink() and path.stat().st_mtime_ns >= (began or 0)
        ]
        if not made:
            return None
        newest = max(made, key=lambda path: path.stat().st_mtime_ns)
        return Path(shutil.move(newest, directory / _BUILD))


def _with_own_build_directory(request: ProbeRequest) -> RunOptions:
    """The run's options. It compiles and writes in the build directory it is given, so it gets a copy."""
    given = request.options.runtime_dir
    if given is None:
        return request.options
    copy = request.directory / _BUILD
    shutil.copytree(given, copy, symlinks=True)
    return replace(request.options, runtime_dir=copy)


def _kernels(build: Path | None, ending: Ending) -> Mapping[int, str]:
    """The names of a failed run's kernels by function id."""
    if ending.is_clean:
        return {}
    # Reading build directories imports numpy, which a run that passes need not wait for.
    from ..build_output.kernel_config import kernel_names

    return kernel_names(build)


def _refused_option(command: CaseCommand, golden: FrozenGolden | None, options: RunOptions) -> str | None:
    """An option that neither the case nor the shim takes, though without it the run would tell of something else."""
    wanted = {"--golden-data": golden, "--runtime-dir": options.runtime_dir}
    return next((name for name in command.missing if wanted.get(name) is not None), None)


def _reason(error: OSError) -> str:
    """What went wrong; a copy of a folder that failed lists one failure a file."""
    return error.strerror or str(error)[:200]


def _read_outcome(file: Path) -> tuple[HarnessOutcome | None, tuple[Evidence, ...]]:
    """What the shim wrote. Where it cannot be trusted the printed lines decide, and that is said."""
    try:
        return read_harness_outcome(file), ()
    except HarnessOutcomeError as error:
        doubt = Evidence(stream="outcome", line=0, text=str(error), why="so the printed lines decide alone")
        return None, (doubt,)
