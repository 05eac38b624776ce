"""One probe: check out, build, run the case on frozen data, classify. The prober remembers no results.

`ProbeRequest` and `ProbeResult` are plain data that pass between the driver and the workers. `Preparation` brings a
slot to where the case can run. `CaseOptionsCache` asks the case for its options, once for equal inputs. `lease` lets
one run at a time use a board, for all bisections and users. `Prober` makes probes in one slot. It can also leave the
run to a person: then it writes a script that does what the run would have done.
"""

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
from collections.abc import Callable, Generator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import TracebackType
from typing import Self

from ...store.durable_files import make_folder, sync_files, write_whole
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
from ..errors import UserError
from ..git import GitError, inherited_environment
from ..overlays import PatchConflictError, list_patches
from ..pins import MissingSubmoduleError
from ..process.run import Command, FinishedCommand, Interrupt, Secrets, execute
from ..stack import Platform, Stack, fill
from ..verdict.classify import (
    Classification,
    Classifier,
    Ending,
    HarnessOutcome,
    HarnessOutcomeError,
    read_harness_outcome,
)
from ..verdict.symptoms import Symptoms
from ..workspace.content import StackContent
from ..workspace.environment import PYTHON_VARIABLES, EnvironmentReader
from ..workspace.home import Home, device_locks
from ..workspace.slot import (
    MissingObjectsError,
    ProcessLock,
    Slot,
    UntestableCommitError,
    Workspace,
    find_link,
    remove,
)
from .builder import Builder, BuiltToolchain, FailedBuild, RunCompileCache, digest
from .judge import (
    NOT_JUDGED,
    BadWhen,
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
class ManualRun:
    """What a person needs to run the case in the slot.

    `script` runs the case, or the words that follow it in place of the case.
    """

    directory: Path
    script: Path


def write_manual_run(
    command: tuple[str, ...],
    *,
    directory: Path,
    environment: Mapping[str, str],
    inherited: Mapping[str, str],
    script: Path,
) -> ManualRun:
    """Write the script that runs a command in a folder, with the variables that differ from the inherited ones."""
    lines = ["#!/bin/sh", "# Runs the case as it was built here; with words behind it, these in its place."]
    lines.append(f"cd {shlex.quote(str(directory))} || exit")
    lines += [f"unset {name}" for name in sorted(inherited.keys() - environment.keys())]
    own = {name: value for name, value in environment.items() if inherited.get(name) != value}
    lines += [f"export {name}={shlex.quote(value)}" for name, value in sorted(own.items())]
    lines += ['[ "$#" -gt 0 ] && exec "$@"', f"exec {shlex.join(command)}"]
    write_whole(script, "".join(f"{line}\n" for line in lines))
    return ManualRun(directory=directory, script=script)


@dataclass(frozen=True, kw_only=True)
class ProbeRequest:
    """What to build and run.

    `timeout` is seconds for the run. `directory` receives the logs and what is kept of the run. `avoid` has the places
    (`place_name`) where the probe is not made as long as there is another one.
    """

    revisions: Mapping[str, str]
    case: CaseName | None
    """The case; None where the stack's command is the whole case."""
    platform: str
    device: int
    golden: FrozenGolden | None
    bad_when: BadWhen
    options: RunOptions
    timeout: float
    directory: Path
    by_hand: bool = False
    """Whether the case is only built, and a person runs it."""
    build_only: bool = False
    """Whether the commit is only built, ahead and below the priority of everything else."""
    avoid: frozenset[str] = frozenset()


@dataclass(frozen=True, kw_only=True)
class ProbeResult:
    """The result of a probe. Where the build failed, `toolchain` is None and `ending` is that of the failing step."""

    classification: Classification
    judgement: Judgement
    ending: Ending
    command: tuple[str, ...]
    missing_options: tuple[str, ...]
    toolchain: BuiltToolchain | None
    build_seconds: float
    run_seconds: float
    surroundings: Mapping[str, str]
    slot: int
    host: str
    log: Path
    build_directory: Path | None
    symptoms: Symptoms | None = None
    """What the run showed of its failure; None where nothing ran to its end."""
    left: ManualRun | None = None
    """What a person has to run, where the run is left to one."""
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
    """Return the name of what different commits' runs may share: the slot of a host, and with it the board."""
    return f"slot {slot}" if host is None else f"slot {slot} of {host}"


NOT_STARTED = Ending(exit_code=None, signal=None, timed_out=False, cancelled=False)


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
    """Prepares one slot for one commit after another."""

    def __init__(
        self,
        workspace: Workspace,
        slot: Slot,
        builder: Builder,
        reader: EnvironmentReader,
        *,
        variables: Mapping[str, str],
        cores: int,
        says: Callable[[str], None],
    ) -> None:
        """`variables` are inherited by commands, `cores` bounds a build, `says` is called with each activity."""
        self._stack = workspace.stack
        self._workspace = workspace
        self._slot = slot
        self._builder = builder
        self._reader = reader
        self._variables = variables
        self._cores = cores
        self._says = says

    def prepare(self, request: ProbeRequest) -> PreparedSlot:
        """Check out the commits of a request, and build them.

        Raises:
            UserError: a commit is missing, or the golden data is not what was frozen.
            OSError: there is no room, or no permission, to write.
            InterruptedWorkError: a stop is asked for.
        """
        if request.golden is not None:
            request.golden.verify()
        self._says("checking out")
        for name, repository in self._stack.repositories.items():
            overlays = [overlay.commit for overlay in repository.overlays]
            there = [request.revisions[name]] if name in request.revisions else []
            for sha in (*there, *list_patches(request.revisions, name), *overlays):
                self._workspace.ensure_commit(name, sha)
        failed: FailedBuild | None = None
        try:
            self._check_out(request.revisions)
        except UntestableCommitError as error:
            failed = _skip_build("objects", files_missing(str(error)))
        except PatchConflictError as error:
            failed = _skip_build("cherry-pick", patch_conflict(str(error)))
        except MissingSubmoduleError as error:
            failed = _skip_build("submodules", submodule_missing(str(error)))
        if self._stack.needs_python:
            self._slot.ensure_python()
        surroundings = self._reader.read(packages_path=self._slot.packages_path())
        values = self._values(request)
        environment = self._process_environment(values)
        built = failed or self._builder.build(
            self._slot,
            request.revisions,
            surroundings=surroundings,
            environment=environment,
            values=values,
            logs=request.directory,
            on_step=lambda step: self._says(f"building {step}"),
            gently=request.build_only,
        )
        variables = apply_perturbation(self._stack, request.revisions).case.variables
        own = {name: fill(text, values) for name, text in variables.items()}
        return PreparedSlot(
            surroundings=surroundings,
            environment=environment,
            case_environment=environment | own,
            values=values,
            built=built,
        )

    def _check_out(self, revisions: Mapping[str, str]) -> None:
        """Check out commits.

        Raises `UntestableCommitError` where a repository lacks objects that no remote provides, or the disk does not
        allow a file's name.
        """
        try:
            self._slot.check_out(revisions)
        except GitError:
            found = {
                name: self._workspace.fetch_missing(name, "--no-walk", revisions[name])
                for name in self._stack.repositories
                if name in revisions
            }
            for name, objects in found.items():
                if objects.missing:
                    raise MissingObjectsError(name, revisions[name], objects) from None
            if not any(objects.fetched for objects in found.values()):
                for name in found:
                    self._slot.check_names(name, revisions[name])
                raise
            self._slot.check_out(revisions)

    def _values(self, request: ProbeRequest) -> dict[str, str]:
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
        environment = inherited_environment(self._variables)
        if self._stack.needs_python:
            scripts = self._slot.python.parent
            environment = {key: environment[key] for key in environment.keys() - PYTHON_VARIABLES}
            environment["PATH"] = f"{scripts}{os.pathsep}{environment.get('PATH', os.defpath)}"
            environment["VIRTUAL_ENV"] = str(scripts.parent)
        own = {key: fill(text, values) for key, text in self._reader.variables().items()}
        return environment | own


def _skip_build(step: str, why: Classification) -> FailedBuild:
    return FailedBuild(step=step, ending=NOT_STARTED, classification=why, seconds=0.0)


_HELP_TIMEOUT = 300
"""A case's `--help` is stopped after this many seconds. The first import after a build may compile for minutes."""
_MOST_LINES = 10_000
"""At most this many lines of a help text are kept. A program without help may print its whole output."""


class CaseOptionsCache:
    """Remembers the options that a case offers, in a folder with one file for each key.

    A later bisection need not ask the case again.
    """

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
        """Return the options in the case's `--help` at this commit; none where it fails. Failures are not remembered.

        Raises `OSError` where there is no room to keep them, and `InterruptedWorkError`.
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
                "inputs": self._inputs(request, toolchain),
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
                holds=(slot.lock,),
                interrupt=self._interrupt,
            ),
            log=request.directory / "help.log.gz",
            on_line=lambda _stream, line: lines.append(line) if len(lines) < _MOST_LINES else None,
        )
        if finished.ending.exit_code != 0:
            return frozenset()
        offered = options_in_help("\n".join(lines))
        self._save(key, offered)
        return offered

    def _inputs(self, request: ProbeRequest, toolchain: BuiltToolchain) -> Mapping[str, str]:
        case = self._stack.case
        if not case.help_inputs:
            return {"content": self._content.revisions_key(request.revisions), "toolchain": toolchain.key}
        inputs = {entry: self._content.input_key(request.revisions, entry) for entry in case.help_inputs}
        script = None if request.case is None else request.case.path
        if (
            script is not None and script.is_absolute()
        ):  # Such a script is the tool's own, which no commit holds.
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


@contextlib.contextmanager
def lease(
    name: str,
    platform: Platform,
    device: int,
    *,
    on_wait: Callable[[str], None],
    interrupt: Interrupt | None = None,
) -> Generator[tuple[ProcessLock, ...]]:
    """Hold a board for the time of a run, and yield the locks that the run has to hold. Simulators need no lease.

    Raises `InterruptedWorkError`. Raises `UserError` where another user could have replaced the lock.
    """
    if not platform.board:
        yield ()
        return
    folder = device_locks()
    _check_shared(folder)
    # Other users of the machine lease the same boards, so they share the lock file, and its first user owns it. Root
    # owns its folder, which is sticky, so nobody can replace a lock that another user made.
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


def _check_shared(folder: Path) -> None:
    """Refuse a folder in which another user, not root, could replace somebody else's file."""
    status = folder.lstat()
    is_sticky = bool(status.st_mode & stat.S_ISVTX)
    is_open = bool(status.st_mode & (stat.S_IWGRP | stat.S_IWOTH))
    is_trusted = stat.S_ISDIR(status.st_mode) and status.st_uid in (0, os.getuid())
    if not is_trusted or (is_open and not is_sticky):
        raise UserError(
            f"{folder}: expected a folder of root's with mode drwxrwxrwt for the locks of boards, found "
            f"{stat.filemode(status.st_mode)} of user {status.st_uid}; ask the machine's administrator to mend it"
        )


_BUILD_FOLDER = "build"
"""This folder in a probe's own holds the build directory that its run left or was given."""

RUN_ACTIVITY = "running"
"""A prober reports this activity once everything is built and the case runs."""

OnActivity = Callable[[str], None]
"""Such a function is called with a slot's activity, in a few words."""


class Prober:
    """Makes probes in one slot, which it holds until it is closed.

    The same prober makes many probes, so that incremental builds are reused.
    """

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
        """`variables` are inherited by commands. `max_probes` is how many probes at most divide the machine's cores.

        `build_store` is the URL of builds that machines share. Raises `UserError`.
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
            says=self._report,
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
        """Return the slot that this prober holds."""
        return self._slot

    def probe(self, request: ProbeRequest) -> ProbeResult:
        """Make one probe.

        Raises `UserError` where no probe can be made at all (no disk, no golden data), and `InterruptedWorkError`.
        """
        try:
            result = self._probe(request)
            sync_files(request.directory)
            return result
        except OSError as error:
            raise UserError(
                f"{error.filename or request.directory}: expected to be able to write here: {_reason(error)}; "
                "free space or set PRECISION_BISECT_HOME to a folder with room, then resume"
            ) from error

    def prepare(self, request: ProbeRequest, *, of: str) -> Stack:
        """Check out and build in the slot, and run nothing. Return the stack with its repositories in the slot.

        `of` names what is prepared, at the beginning of an error line. Raises `UserError`, also where a step of the
        build fails, and `InterruptedWorkError`.
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
        remove(request.directory)
        # An earlier attempt, whose worker was killed, may still be running and write there.
        make_folder(request.directory)
        prepared = self._preparation.prepare(request)
        built = prepared.built
        if isinstance(built, FailedBuild):
            log = request.directory / f"build-{built.step}.log.gz"
            not_run = self._not_run(built.classification, prepared, log=log)
            return replace(not_run, ending=built.ending, build_seconds=built.seconds)
        if request.build_only:
            return self._not_run(NOT_JUDGED, prepared, log=request.directory / "run.log.gz", toolchain=built)
        return self._run(request, prepared, built)

    def _run(self, request: ProbeRequest, prepared: PreparedSlot, toolchain: BuiltToolchain) -> ProbeResult:
        """Run the case in a slot that is built. Where it cannot be run, return a result that says why."""
        log = request.directory / "run.log.gz"
        missing = self._missing_script(request, prepared)
        if missing is not None:
            return self._not_run(case_missing(missing), prepared, log=log, toolchain=toolchain)
        options = _copy_build_directory(request)
        outcome_file = request.directory / f"outcome-{secrets.token_hex(8)}.json"
        perturbation = find_perturbation(self._stack, request.revisions)
        in_front = () if perturbation is None else perturbation.command
        lacks = (
            []
            if perturbation is None
            else missing_requirements(perturbation, prepared.case_environment.get("PATH"))
        )
        if lacks:
            return self._not_run(perturbation_missing(lacks), prepared, log=log, toolchain=toolchain)
        command = case_command(
            self._stack,
            request.case,
            options,
            offered=self._options.read_options(self._slot, request, prepared, toolchain),
            outcome=outcome_file,
            values=prepared.values,
            in_front=[fill(word, prepared.values) for word in in_front],
        )
        refused = _find_refused_option(command, request.golden, options)
        if refused is not None:
            classification = not_frozen(refused, "the case has no option for it at this commit")
            return self._not_run(classification, prepared, log=log, toolchain=toolchain)
        if request.by_hand:
            return self._prepare_manual_run(command, request, prepared, toolchain, log=log)
        listener = Listener(Classifier(self._stack.verdicts), request.bad_when, begins=command.begins)
        finished = self._execute(command, listener, request, prepared, toolchain, log=log)
        outcome, doubts = _read_outcome(outcome_file, Secrets(prepared.case_environment))
        build_directory = options.runtime_dir or self._keep_build_directory(request.directory, outcome)
        classification, judgement, symptoms = listener.finish(
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
            symptoms=symptoms if listener.case_began and not finished.ending.timed_out else None,
        )

    def _missing_script(self, request: ProbeRequest, prepared: PreparedSlot) -> CaseName | None:
        """Return the first script that the commit does not have, among the case and the scripts that run before it."""
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
        """Return the result of a case that a person has yet to run."""
        self._clear_build_output()
        left = write_manual_run(
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
        prepared: PreparedSlot,
        toolchain: BuiltToolchain,
        *,
        log: Path,
    ) -> FinishedCommand:
        """Run the case's command, once the board is free; `listener` reads its output."""
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
                    holds=(self._slot.lock, *leases),
                    interrupt=self._interrupt,
                ),
                log=log,
                on_line=listener.feed,
                skims=listener.skim,
            )
            if not finished.ending.timed_out:
                self._slot.end_case()
        if finished.ending.kind == "exit":
            self._compiled.keep(compiled, self._slot.directory)
        return finished

    def _report(self, text: str) -> None:
        """Report the next activity. Between two pieces of work, it stops here if a stop is asked for."""
        if self._interrupt is not None:
            self._interrupt.check()
        self._on_activity(text)

    def _not_run(
        self,
        classification: Classification,
        prepared: PreparedSlot,
        *,
        log: Path,
        toolchain: BuiltToolchain | None = None,
    ) -> ProbeResult:
        """Return the result where the case was not run."""
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
            self._slot.remove_output(folder)

    def _keep_build_directory(self, directory: Path, outcome: HarnessOutcome | None) -> Path | None:
        """Move the build directory that the case made out of the slot. Older directories come from earlier scripts."""
        folder = self._stack.case.build_output
        root = self._slot.directory / folder if folder is not None else None
        if root is None or not root.is_dir() or root.is_symlink():
            return None
        if find_link(root, self._slot.directory) is not None:  # The run has made it.
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
        return Path(shutil.move(newest, directory / _BUILD_FOLDER))


def _copy_build_directory(request: ProbeRequest) -> RunOptions:
    """Return the run's options with a copy of the given build directory, because the run compiles and writes in it."""
    given = request.options.runtime_dir
    if given is None:
        return request.options
    copy = request.directory / _BUILD_FOLDER
    shutil.copytree(given, copy, symlinks=True)
    return replace(request.options, runtime_dir=copy)


def _kernels(build: Path | None, ending: Ending) -> Mapping[int, str]:
    """Return the names of a failed run's kernels by function id."""
    if ending.is_clean:
        return {}
    # The import is late because it loads numpy, which a run that passes need not wait for.
    from ..build_output.directory import kernel_names

    return kernel_names(build)


def _find_refused_option(
    command: CaseCommand, golden: FrozenGolden | None, options: RunOptions
) -> str | None:
    """Return an option that neither the case nor the shim accepts, and without which the run would test something
    else.
    """
    wanted = {"--golden-data": golden, "--runtime-dir": options.runtime_dir}
    return next((name for name in command.missing if wanted.get(name) is not None), None)


def _reason(error: OSError) -> str:
    """Describe an error. A failed copy of a folder lists one failure for each file, so the text is cut."""
    return error.strerror or str(error)[:200]


def _read_outcome(file: Path, secrets: Secrets) -> tuple[HarnessOutcome | None, tuple[Evidence, ...]]:
    """Return what the shim wrote. Where it cannot be trusted the printed lines decide, and the evidence says so."""
    try:
        return read_harness_outcome(file, hide=secrets.hide), ()
    except HarnessOutcomeError as error:
        doubt = Evidence(stream="outcome", line=0, text=str(error), why="so the printed lines decide alone")
        return None, (doubt,)
