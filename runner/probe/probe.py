"""One probe: check out, build, run the case on frozen data, classify.

`Prober` makes probes in one slot, and remembers no results. `ProbeRequest` and `ProbeResult` are the data that pass
between the driver and the workers. `Preparation` checks out and builds, and `CaseOptionsCache` asks the case for its
options. `lease` lets one run at a time use a board.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import platform as host_platform
import secrets
import shlex
import shutil
import stat
import time
from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import TracebackType
from typing import Self

from ...store.durable_files import make_folder, remove, sync_files, write_whole
from ...store.vocabulary import BuildSource, Evidence, Judgement
from ..case.case import (
    CaseCommand,
    CaseName,
    FrozenGolden,
    RunOptions,
    apply_perturbation,
    case_command,
    find_perturbation,
    missing_requirements,
    options_in_help,
    predecessors,
)
from ..errors import UserError, reason
from ..git import GitError, inherited_environment
from ..overlays import PatchConflictError, list_patches
from ..pins import MissingSubmoduleError
from ..process.run import Command, FinishedCommand, Interrupt, Secrets, execute
from ..stack import Platform, Stack, fill
from ..verdict.classify import (
    Classification,
    Classifier,
    HarnessOutcome,
    HarnessOutcomeError,
    read_harness_outcome,
)
from ..verdict.rules import Ending
from ..verdict.symptoms import Symptoms
from ..workspace.content import StackContent
from ..workspace.environment import PYTHON_VARIABLES, EnvironmentReader
from ..workspace.home import Home, ProcessLock, device_locks
from ..workspace.slot import MissingObjectsError, Slot, UntestableCommitError, Workspace, find_link
from .builder import Builder, BuiltToolchain, FailedBuild, RunCompileCache, digest
from .judge import (
    NOT_JUDGED,
    JudgingRule,
    Listener,
    case_missing,
    case_not_reached,
    files_missing,
    not_frozen,
    patch_conflict,
    perturbation_missing,
    submodule_missing,
)


@dataclass(frozen=True, kw_only=True)
class ProbeRequest:
    """What to build and run."""

    revisions: Mapping[str, str]
    case: CaseName | None
    """The case; None where the stack's command is the whole case."""
    platform: str
    device: int
    golden: FrozenGolden | None
    judging_rule: JudgingRule
    options: RunOptions
    timeout: float
    """The timeout of the run, in seconds."""
    directory: Path
    """The folder for the logs and the build directory of the run."""
    by_hand: bool = False
    """Whether a person runs the case after it is built."""
    build_only: bool = False
    """Whether the commit is only built, with a lower priority than everything else."""
    avoid: frozenset[str] = frozenset()
    """The places (`place_name`) to use only if there is no other place."""


@dataclass(frozen=True, kw_only=True)
class ManualRun:
    """A prepared run of the case that is left to a person."""

    directory: Path
    """The folder in which the case runs."""
    script: Path
    """A shell script that runs the case, or the command in its arguments in place of the case."""


@dataclass(frozen=True, kw_only=True)
class ProbeResult:
    """The result of a probe."""

    classification: Classification
    judgement: Judgement
    ending: Ending
    """The ending of the run, or of the build step that failed."""
    command: tuple[str, ...]
    missing_options: tuple[str, ...]
    """The requested options that neither the case nor the shim accepts at this commit."""
    toolchain: BuiltToolchain | None
    """The built toolchain; None where the build failed."""
    build_seconds: float
    run_seconds: float
    surroundings: Mapping[str, str]
    """The description of the environment, by name."""
    slot: int
    host: str
    log: Path
    build_directory: Path | None
    symptoms: Symptoms | None = None
    """The run's symptoms of a failure; None where no run ended by itself."""
    likeness: float | None = None
    """The chance that a command's run shows the failing end's failure. None where likeness does not decide. The driver
    of the bisection sets it."""
    manual_run: ManualRun | None = None
    """The run that a person has to make; None where the prober made it."""
    clock: float = field(default_factory=time.time, compare=False)
    """The time on the host's clock at the end of the probe."""

    @property
    def place(self) -> str:
        """Return the place where the probe was made."""
        return place_name(self.host, self.slot)

    @property
    def build_source(self) -> BuildSource:
        """Return the source of the toolchain."""
        return self.toolchain.source if self.toolchain else BuildSource.NONE


def place_name(host: str | None, slot: int) -> str:
    """Return the name of a slot of a host. A fault of the machine shows in the runs of one place."""
    return f"slot {slot}" if host is None else f"slot {slot} of {host}"


NOT_STARTED = Ending()
"""A command that was never started has this ending."""

_BUILD_FOLDER = "build"
"""A probe's `directory` has the build directory of its run in this folder. The run made it, or got it as a copy."""

RUN_ACTIVITY = "running"
"""A prober reports this activity once everything is built and the case runs."""

OnActivity = Callable[[str], None]
"""Is called with the current activity in a slot, in a few words."""


class Prober:
    """Makes one probe after another in one slot, so that incremental builds are reused."""

    def __init__(
        self,
        workspace: Workspace,
        content: StackContent,
        home: Home,
        *,
        on_activity: OnActivity,
        variables: Mapping[str, str] = os.environ,
        max_probes: int = 1,
        interrupt: Interrupt | None = None,
        build_store: str | None = None,
    ) -> None:
        """Take a slot. Raises `UserError`.

        Commands inherit `variables`. At most `max_probes` probes divide the machine's cores. `build_store` is the URL
        of builds that machines share.
        """
        stack = self._stack = workspace.stack
        self._interrupt = interrupt
        self._on_activity = on_activity
        self._variables = variables
        reader = EnvironmentReader(stack, variables)
        self._options = CaseOptionsCache(home.options, stack, content, reader, interrupt=interrupt)
        builder = Builder(stack, content, home.builds, interrupt=interrupt, build_store=build_store)
        self._compiled = RunCompileCache(stack, content, builder.cache)
        self._slot = workspace.acquire()
        self._preparation = Preparation(
            workspace,
            self._slot,
            builder,
            reader,
            variables=variables,
            cores=max(1, (os.cpu_count() or 1) // max_probes),
            on_activity=self._report,
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
        """Return the slot in which the probes are made."""
        return self._slot

    def probe(self, request: ProbeRequest) -> ProbeResult:
        """Make one probe.

        Raises:
            UserError: no probe can be made here, for lack of a disk or of golden data, for example.
            InterruptedWorkError: a stop is asked for.
        """
        try:
            result = self._probe(request)
            sync_files(request.directory)
            return result
        except OSError as error:
            raise UserError(
                f"{error.filename or request.directory}: expected to be able to write here: {reason(error)}; "
                "free space or set PRECISION_BISECT_HOME to a folder with room, then resume"
            ) from error

    def prepare(self, request: ProbeRequest, *, name: str) -> Stack:
        """Check out and build in the slot, and return the stack with the paths of its repositories in the slot.

        An error message begins with `name`. Raises `UserError`, also where a step of the build fails, and
        `InterruptedWorkError`.
        """
        request.directory.mkdir(parents=True, exist_ok=True)
        built = self._preparation.prepare(request).built
        if isinstance(built, FailedBuild):
            raise UserError(
                f"{name}: expected its toolchain to build, found that step {built.step} failed; see {request.directory}"
            )
        repositories = {
            key: repository.model_copy(update={"path": self._slot.path(key)})
            for key, repository in self._stack.repositories.items()
        }
        return self._stack.model_copy(update={"repositories": repositories})

    def _probe(self, request: ProbeRequest) -> ProbeResult:
        remove(request.directory)
        # An earlier attempt, whose worker was killed, may still be running and write there.
        make_folder(request.directory)
        prepared = self._preparation.prepare(request)
        built = prepared.built
        if isinstance(built, FailedBuild):
            log = request.directory / f"build-{built.step}.log.gz"
            skip = self._skip_result(built.classification, prepared, log=log)
            judgement = request.judging_rule.judge_failed_build(built.classification)
            return replace(skip, judgement=judgement, ending=built.ending, build_seconds=built.seconds)
        if request.build_only:
            return self._skip_result(
                NOT_JUDGED, prepared, log=request.directory / "run.log.gz", toolchain=built
            )
        return self._run(request, prepared, built)

    def _run(self, request: ProbeRequest, prepared: PreparedSlot, toolchain: BuiltToolchain) -> ProbeResult:
        """Run the case in a built slot. Where the case cannot be run, return a skip that says why."""
        log = request.directory / "run.log.gz"
        outcome_file = request.directory / f"outcome-{secrets.token_hex(8)}.json"
        frozen_build = request.options.runtime_dir
        options = request.options
        if frozen_build is not None:
            options = replace(options, runtime_dir=request.directory / _BUILD_FOLDER)
        command = self._case_command(request, options, prepared, toolchain, outcome=outcome_file)
        if isinstance(command, Classification):
            return self._skip_result(command, prepared, log=log, toolchain=toolchain)
        if frozen_build is not None:
            # The run compiles and writes in its build directory, so it gets a copy.
            shutil.copytree(frozen_build, request.directory / _BUILD_FOLDER, symlinks=True)
        if request.by_hand:
            return self._prepare_manual_run(command, request, prepared, toolchain, log=log)
        listener = Listener(
            Classifier(self._stack.verdicts), request.judging_rule, begin_line=command.begin_line
        )
        finished = self._execute(command, listener, request, prepared, toolchain, log=log)
        outcome, doubts = _read_outcome(outcome_file, Secrets(prepared.case_environment))
        build_directory = options.runtime_dir or self._keep_build_directory(request.directory, outcome)
        classification, judgement, symptoms = listener.finish(
            finished.ending, outcome, kernels=_kernel_names(build_directory, finished.ending)
        )
        if not listener.case_began:
            classification, judgement = case_not_reached(finished.ending), Judgement.SKIP
        for call in outcome.calls if outcome else ():
            if options.runtime_dir is not None and "runtime_dir" in call.not_applied:
                classification = not_frozen("--runtime-dir", call.not_applied["runtime_dir"])
                judgement = Judgement.SKIP
        classification = replace(classification, evidence=(*classification.evidence, *doubts))
        return replace(
            self._skip_result(classification, prepared, log=log, toolchain=toolchain),
            judgement=judgement,
            ending=finished.ending,
            command=command.argv,
            missing_options=command.missing,
            run_seconds=finished.seconds,
            build_directory=build_directory,
            symptoms=symptoms if listener.case_began and not finished.ending.timed_out else None,
        )

    def _case_command(
        self,
        request: ProbeRequest,
        options: RunOptions,
        prepared: PreparedSlot,
        toolchain: BuiltToolchain,
        *,
        outcome: Path,
    ) -> CaseCommand | Classification:
        """Return the command of the case; a classification where the case cannot be run."""
        missing = self._missing_script(request, prepared)
        if missing is not None:
            return case_missing(missing)
        perturbation = find_perturbation(self._stack, request.revisions)
        prefix: Sequence[str] = ()
        if perturbation is not None:
            requirements = missing_requirements(perturbation, prepared.case_environment.get("PATH"))
            if requirements:
                return perturbation_missing(requirements)
            prefix = [fill(word, prepared.values) for word in perturbation.command]
        command = case_command(
            self._stack,
            request.case,
            options,
            offered=self._options.read_options(self._slot, request, prepared, toolchain),
            outcome=outcome,
            values=prepared.values,
            prefix=prefix,
        )
        frozen = {"--golden-data": request.golden, "--runtime-dir": options.runtime_dir}
        refused = next((name for name in command.missing if frozen.get(name) is not None), None)
        return (
            command
            if refused is None
            else not_frozen(refused, "the case has no option for it at this commit")
        )

    def _missing_script(self, request: ProbeRequest, prepared: PreparedSlot) -> CaseName | None:
        """Return the first missing script at the commit: the case, or one that runs before it; None if all exist."""
        if request.case is not None and not Path(prepared.values["case"]).is_file():
            return request.case
        root = self._slot.path(self._stack.case.repository)
        return next((each for each in predecessors(self._stack) if not (root / each.path).is_file()), None)

    def _prepare_manual_run(
        self,
        command: CaseCommand,
        request: ProbeRequest,
        prepared: PreparedSlot,
        toolchain: BuiltToolchain,
        *,
        log: Path,
    ) -> ProbeResult:
        """Return the result of a probe whose run is left to a person."""
        self._clear_build_output()
        self._slot.begin_case()
        manual_run = write_manual_run(
            command.argv,
            directory=self._slot.directory / fill(self._stack.case.cwd, prepared.values),
            environment=prepared.case_environment,
            inherited=self._variables,
            script=request.directory / "run.sh",
        )
        skip = self._skip_result(NOT_JUDGED, prepared, log=log, toolchain=toolchain)
        return replace(skip, command=command.argv, missing_options=command.missing, manual_run=manual_run)

    def _execute(
        self,
        command: CaseCommand,
        listener: Listener,
        request: ProbeRequest,
        prepared: PreparedSlot,
        toolchain: BuiltToolchain,
        *,
        log: Path,
    ) -> FinishedCommand:
        """Wait for the board, and run the case's command; `listener` reads its output."""
        self._clear_build_output()
        compiled = self._compiled.key(
            request.revisions,
            case=str(request.case),
            platform=request.platform,
            toolchain=toolchain.key,
            surroundings=prepared.surroundings,
        )
        self._compiled.restore(compiled, self._slot.directory)
        with lease(
            request.platform,
            self._stack.platforms[request.platform],
            request.device,
            on_wait=self._report,
            interrupt=self._interrupt,
        ) as leases:
            self._report(RUN_ACTIVITY)
            self._slot.begin_case()
            finished = execute(
                Command(
                    argv=command.argv,
                    cwd=self._slot.directory / fill(self._stack.case.cwd, prepared.values),
                    environment=prepared.case_environment,
                    timeout=request.timeout,
                    memory=self._memory_limit(),
                    locks=(self._slot.lock, *leases),
                    interrupt=self._interrupt,
                ),
                log=log,
                on_line=listener.feed,
                on_lines=listener.skim,
            )
        if finished.ending.kind == "exit":
            self._compiled.keep(compiled, self._slot.directory)
        return finished

    def _report(self, text: str) -> None:
        """Report the next activity. Raises `InterruptedWorkError` if a stop is asked for."""
        if self._interrupt is not None:
            self._interrupt.check()
        self._on_activity(text)

    def _skip_result(
        self,
        classification: Classification,
        prepared: PreparedSlot,
        *,
        log: Path,
        toolchain: BuiltToolchain | None = None,
    ) -> ProbeResult:
        """Return the result of a probe that did not run the case."""
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
        """Remove the build directories of earlier runs from the slot."""
        folder = self._stack.case.build_output
        if folder is not None:
            self._slot.remove_output(folder)

    def _keep_build_directory(self, directory: Path, outcome: HarnessOutcome | None) -> Path | None:
        """Move the case's build directory from the slot to `directory`; return its new path, or None without one."""
        folder = self._stack.case.build_output
        if folder is None:
            return None
        root = self._slot.directory / folder
        if not root.is_dir() or root.is_symlink() or find_link(root, self._slot.directory) is not None:
            return None
        # Build directories from before the case began were made by the scripts of `after`.
        case_begin = outcome.began if outcome is not None else None
        if self._stack.case.after and case_begin is None:
            return None
        candidates = [
            path
            for path in root.iterdir()
            if path.is_dir() and not path.is_symlink() and path.stat().st_mtime_ns >= (case_begin or 0)
        ]
        if not candidates:
            return None
        newest = max(candidates, key=lambda path: path.stat().st_mtime_ns)
        return Path(shutil.move(newest, directory / _BUILD_FOLDER))


def _kernel_names(build: Path | None, ending: Ending) -> Mapping[int, str]:
    """Return the names of a failed run's kernels by function id; none where the run passed."""
    if build is None or ending.is_clean:
        return {}
    # The import is late because it is slow, and only a failed run with a build directory needs it.
    from ..build_output.directory import kernel_names

    return kernel_names(build)


def _read_outcome(file: Path, secrets: Secrets) -> tuple[HarnessOutcome | None, tuple[Evidence, ...]]:
    """Return the outcome that the shim wrote; None, with evidence that says why, where it is malformed."""
    try:
        return read_harness_outcome(file, hide=secrets.hide), ()
    except HarnessOutcomeError as error:
        doubt = Evidence(stream="outcome", line=0, text=str(error), why="so the printed lines decide alone")
        return None, (doubt,)


def write_manual_run(
    command: tuple[str, ...],
    *,
    directory: Path,
    environment: Mapping[str, str],
    inherited: Mapping[str, str],
    script: Path,
) -> ManualRun:
    """Write the script of a manual run. It sets only the variables that differ from the inherited ones."""
    lines = [
        "#!/bin/sh",
        "# Runs the case as it was built here. With arguments, runs these as a command instead.",
    ]
    lines.append(f"cd {shlex.quote(str(directory))} || exit")
    lines += [f"unset {name}" for name in sorted(inherited.keys() - environment.keys())]
    changed = {name: value for name, value in environment.items() if inherited.get(name) != value}
    lines += [f"export {name}={shlex.quote(value)}" for name, value in sorted(changed.items())]
    lines += ['[ "$#" -gt 0 ] && exec "$@"', f"exec {shlex.join(command)}"]
    write_whole(script, "".join(f"{line}\n" for line in lines))
    return ManualRun(directory=directory, script=script)


@contextlib.contextmanager
def lease(
    name: str,
    platform: Platform,
    device: int,
    *,
    on_wait: Callable[[str], None],
    interrupt: Interrupt | None = None,
) -> Generator[tuple[ProcessLock, ...]]:
    """Hold a board for the block, and yield the locks that the run has to hold; none for a simulator.

    Raises `InterruptedWorkError`. Raises `UserError` where another user could have replaced the lock.
    """
    if not platform.board:
        yield ()
        return
    folder = device_locks()
    _check_lock_folder(folder)
    # All users of the machine share the lock file of a board, so everybody may write to it. Nobody can replace it,
    # because its folder is sticky and root's.
    lock = ProcessLock(folder / f"precision-bisect-{name}-{device}.lock", mode=0o666)
    if not lock.acquire(blocking=False):
        on_wait(f"waiting for {name} device {device}, which another run holds")
        if interrupt is None:
            lock.acquire(blocking=True)
        else:
            interrupt.wait(lambda: lock.acquire(blocking=False))
    try:
        yield (lock,)
    finally:
        lock.release()


def _check_lock_folder(folder: Path) -> None:
    """Raise `UserError` for a folder in which another user than root could replace somebody else's file."""
    status = folder.lstat()
    is_sticky = bool(status.st_mode & stat.S_ISVTX)
    is_open = bool(status.st_mode & (stat.S_IWGRP | stat.S_IWOTH))
    is_trusted = stat.S_ISDIR(status.st_mode) and status.st_uid in (0, os.getuid())
    if not is_trusted or (is_open and not is_sticky):
        raise UserError(
            f"{folder}: expected a folder of root's with mode drwxrwxrwt for the locks of boards, found "
            f"{stat.filemode(status.st_mode)} of user {status.st_uid}; ask the machine's administrator to fix it"
        )


@dataclass(frozen=True, kw_only=True)
class PreparedSlot:
    """A slot that was checked out and built, and the values for commands in it."""

    surroundings: Mapping[str, str]
    """The description of the environment, by name."""
    environment: Mapping[str, str]
    """The environment variables of steps."""
    case_environment: Mapping[str, str]
    """The environment variables of the case's run."""
    values: Mapping[str, str]
    """The values of the stack file's placeholders."""
    built: BuiltToolchain | FailedBuild


class Preparation:
    """Checks commits out in one slot, and builds them."""

    def __init__(
        self,
        workspace: Workspace,
        slot: Slot,
        builder: Builder,
        reader: EnvironmentReader,
        *,
        variables: Mapping[str, str],
        cores: int,
        on_activity: OnActivity,
    ) -> None:
        """Commands inherit `variables`. A build may use `cores` cores."""
        self._stack = workspace.stack
        self._workspace = workspace
        self._slot = slot
        self._builder = builder
        self._reader = reader
        self._variables = variables
        self._cores = cores
        self._on_activity = on_activity

    def prepare(self, request: ProbeRequest) -> PreparedSlot:
        """Check out the commits of a request, and build them.

        Raises:
            UserError: a commit is missing, or the golden data is not what was frozen.
            OSError: there is no room, or no permission, to write.
            InterruptedWorkError: a stop is asked for.
        """
        if request.golden is not None:
            request.golden.verify()
        self._on_activity("checking out")
        for name, repository in self._stack.repositories.items():
            revision = [request.revisions[name]] if name in request.revisions else []
            overlays = [overlay.commit for overlay in repository.overlays]
            for sha in (*revision, *list_patches(request.revisions, name), *overlays):
                self._workspace.ensure_commit(name, sha)
        failed: FailedBuild | None = None
        try:
            self._check_out(request.revisions)
        except UntestableCommitError as error:
            failed = _failed_check_out("objects", files_missing(str(error)))
        except PatchConflictError as error:
            failed = _failed_check_out("cherry-pick", patch_conflict(str(error)))
        except MissingSubmoduleError as error:
            failed = _failed_check_out("submodules", submodule_missing(str(error)))
        if self._stack.needs_python:
            self._slot.ensure_python()
        surroundings = self._reader.read(packages_path=self._slot.packages_path())
        values = self._placeholder_values(request)
        environment = self._process_environment(values)
        built = failed or self._builder.build(
            self._slot,
            request.revisions,
            surroundings=surroundings,
            environment=environment,
            values=values,
            logs=request.directory,
            on_step=lambda step: self._on_activity(f"building {step}"),
            nice=request.build_only,
        )
        variables = apply_perturbation(self._stack, request.revisions).case.variables
        case_variables = {name: fill(text, values) for name, text in variables.items()}
        return PreparedSlot(
            surroundings=surroundings,
            environment=environment,
            case_environment=environment | case_variables,
            values=values,
            built=built,
        )

    def _check_out(self, revisions: Mapping[str, str]) -> None:
        """Check out commits, and fetch missing objects.

        Raises:
            UntestableCommitError: no remote provides the objects, or the disk does not allow a file's name.
        """
        try:
            self._slot.check_out(revisions)
        except GitError:
            fetches = {
                name: self._workspace.fetch_missing(name, "--no-walk", revisions[name])
                for name in self._stack.repositories
                if name in revisions
            }
            for name, objects in fetches.items():
                if objects.missing:
                    raise MissingObjectsError(name, revisions[name], objects) from None
            if not any(objects.fetched for objects in fetches.values()):
                for name in fetches:
                    self._slot.check_names(name, revisions[name])
                raise
            self._slot.check_out(revisions)

    def _placeholder_values(self, request: ProbeRequest) -> dict[str, str]:
        """Return the values of the stack file's placeholders."""
        case = self._slot.path(self._stack.case.repository)
        if request.case is not None:
            case /= request.case.path
        return {
            "python": str(self._slot.python),
            "slot": str(self._slot.directory),
            "jobs": str(self._cores),
            "case": str(case),
            "platform": request.platform,
            "device": str(request.device),
            **{name: str(self._slot.path(name)) for name in self._stack.repositories},
        }

    def _process_environment(self, values: Mapping[str, str]) -> dict[str, str]:
        """Return the variables of steps: inherited ones, those of the virtual environment, and the stack's."""
        environment = inherited_environment(self._variables)
        if self._stack.needs_python:
            scripts = self._slot.python.parent
            environment = {key: environment[key] for key in environment.keys() - PYTHON_VARIABLES}
            environment["PATH"] = f"{scripts}{os.pathsep}{environment.get('PATH', os.defpath)}"
            environment["VIRTUAL_ENV"] = str(scripts.parent)
        stack_variables = {key: fill(text, values) for key, text in self._reader.variables().items()}
        return environment | stack_variables


def _failed_check_out(step: str, classification: Classification) -> FailedBuild:
    return FailedBuild(step=step, ending=NOT_STARTED, classification=classification, seconds=0.0)


_HELP_TIMEOUT = 300
"""A case's `--help` is stopped after this many seconds. The first import after a build may compile for minutes."""
_MAX_HELP_LINES = 10_000
"""At most this many lines of a help text are read. A program without help may print its whole output."""


class CaseOptionsCache:
    """Keeps the options that the case offers at each commit in a folder, for later bisections too."""

    def __init__(
        self,
        folder: Path,
        stack: Stack,
        content: StackContent,
        reader: EnvironmentReader,
        *,
        interrupt: Interrupt | None = None,
    ) -> None:
        self._folder = folder
        self._stack = stack
        self._content = content
        self._reader = reader
        self._interrupt = interrupt

    def read_options(
        self, slot: Slot, request: ProbeRequest, prepared: PreparedSlot, toolchain: BuiltToolchain
    ) -> frozenset[str]:
        """Return the options in the case's `--help` at this commit; none where it fails. A failure is not cached.

        Raises `OSError` and `InterruptedWorkError`.
        """
        case = self._stack.case
        if not case.help:
            return frozenset()
        key = digest(
            {
                "help": case.help,
                "cwd": case.cwd,
                "case": str(request.case),
                "platform": request.platform,
                "inputs": self._help_inputs(request, toolchain),
                "surroundings": dict(prepared.surroundings),
                "variables": self._reader.variables(),
            }
        )
        offered = self._load(key)
        if offered is not None:
            return offered
        lines: list[str] = []
        finished = execute(
            Command(
                argv=[fill(word, prepared.values) for word in case.help],
                cwd=slot.directory / fill(case.cwd, prepared.values),
                environment=prepared.environment,
                timeout=_HELP_TIMEOUT,
                locks=(slot.lock,),
                interrupt=self._interrupt,
            ),
            log=request.directory / "help.log.gz",
            on_line=lambda _stream, line: lines.append(line) if len(lines) < _MAX_HELP_LINES else None,
        )
        if finished.ending.exit_code != 0:
            return frozenset()
        offered = options_in_help("\n".join(lines))
        self._save(key, offered)
        return offered

    def _help_inputs(self, request: ProbeRequest, toolchain: BuiltToolchain) -> Mapping[str, str]:
        """Return the keys of the contents on which the help text depends."""
        case = self._stack.case
        if not case.help_inputs:
            return {"content": self._content.revisions_key(request.revisions), "toolchain": toolchain.key}
        inputs = {entry: self._content.input_key(request.revisions, entry) for entry in case.help_inputs}
        script = None if request.case is None else request.case.path
        if script is not None and script.is_absolute():
            # This is a script of the tool, and is in no commit.
            inputs["script"] = hashlib.sha256(Path(script).read_bytes()).hexdigest()
        elif script is not None:
            inputs["script"] = self._content.input_key(request.revisions, f"{case.repository}:{script}")
        return inputs

    def _load(self, key: str) -> frozenset[str] | None:
        try:
            return frozenset(json.loads((self._folder / key).read_text()))
        except (OSError, ValueError):
            return None

    def _save(self, key: str, options: frozenset[str]) -> None:
        self._folder.mkdir(parents=True, exist_ok=True)
        write_whole(self._folder / key, json.dumps(sorted(options)))
