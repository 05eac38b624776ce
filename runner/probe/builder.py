"""Build a slot's toolchain, step by step, doing only what its content makes necessary."""

import contextlib
import hashlib
import json
import os
import shutil
import time
from collections.abc import Callable, Generator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from filelock import FileLock, Timeout

from ...store.vocabulary import BuildSource
from ..process.execute import Command, execute
from ..process.interrupt import Interrupt, try_lock
from ..stack.stack import Stack
from ..stack.templates import fill
from ..verdict.verdict import Classification, Ending, classify_build_failure
from ..workspace.content import StackContent
from ..workspace.slot import Slot, remove

_SIZE_FILE = "size"
_INCOMING = ".incoming"
_OUTGOING = ".outgoing"
_KEPT_OUTPUT = 400
"""Lines of a failing step that are classified: compilers put the cause first, pip and make put it last."""


@dataclass(frozen=True, kw_only=True)
class BuiltToolchain:
    """A toolchain that stands ready in a slot."""

    key: str
    source: BuildSource
    seconds: float
    step_seconds: Mapping[str, float]
    """Of the steps that were really run."""


@dataclass(frozen=True, kw_only=True)
class FailedBuild:
    """A step that failed, and why."""

    step: str
    ending: Ending
    classification: Classification
    seconds: float


class Builder:
    """Runs the stack's steps in slots, and keeps their outputs by content."""

    def __init__(
        self, stack: Stack, content: StackContent, cache: Path, *, interrupt: Interrupt | None = None
    ) -> None:
        self._stack = stack
        self._content = content
        self._interrupt = interrupt
        self._cache = BuildCache(
            cache, limit=int(stack.limits.build_cache_gib * (1 << 30)), interrupt=interrupt
        )

    def build(
        self,
        slot: Slot,
        revisions: Mapping[str, str],
        *,
        surroundings: Mapping[str, str],
        environment: Mapping[str, str],
        values: Mapping[str, str],
        logs: Path,
        on_step: Callable[[str], None],
    ) -> BuiltToolchain | FailedBuild:
        """Bring the slot, checked out at `revisions`, to where the case can run.

        `surroundings` is the environment's description (part of the key), `environment` the processes' variables,
        `values` those of the placeholders. Raises `InterruptedWorkError`.
        """
        begun = time.monotonic()
        step_seconds: dict[str, float] = {}
        keys: dict[str, str] = {}
        restored = False
        for name, step in self._stack.steps.items():
            key = keys[name] = self._key(name, revisions, surroundings, values=values)
            outputs = [slot.directory / output for output in step.outputs]
            if slot.built(name) == key and all(output.exists() for output in outputs):
                continue
            on_step(name)
            slot.forget(name)
            with self._cache.claimed(key) if outputs else contextlib.nullcontext():
                if outputs and self._cache.restore(key, outputs):
                    restored = True
                else:
                    # What stands there is of another key: a step that makes nothing must not pass it off as its own.
                    for output in outputs:
                        remove(output)
                    failure = self._run(slot, name, environment=environment, values=values, logs=logs)
                    if isinstance(failure, FailedBuild):
                        return failure
                    step_seconds[name] = failure
                    missing = [output for output in outputs if not output.exists()]
                    if missing:
                        return _without_outputs(name, missing, failure)
                    if outputs:
                        self._cache.save(key, outputs)
            slot.record(name, key)
        if step_seconds:
            source = BuildSource.BUILT
        elif restored:
            source = BuildSource.CACHED
        else:
            source = BuildSource.PRESENT if keys else BuildSource.NONE
        return BuiltToolchain(
            key=digest(keys),
            source=source,
            seconds=time.monotonic() - begun,
            step_seconds=step_seconds,
        )

    def _key(
        self,
        name: str,
        revisions: Mapping[str, str],
        surroundings: Mapping[str, str],
        *,
        values: Mapping[str, str],
    ) -> str:
        step = self._stack.steps[name]
        return digest(
            {
                "name": name,
                "step": step.model_dump(exclude={"timeout"}),
                "platform": values["platform"] if step.is_for_one_platform else None,
                "inputs": {entry: self._content.of_input(revisions, entry) for entry in step.inputs},
                "variables": dict(self._stack.environment.variables),
                "tool variables": {
                    tool: dict(found.variables) for tool, found in self._stack.environment.tools.items()
                },
                "surroundings": dict(surroundings),
            }
        )

    def _run(
        self, slot: Slot, name: str, *, environment: Mapping[str, str], values: Mapping[str, str], logs: Path
    ) -> FailedBuild | float:
        step = self._stack.steps[name]
        output = _Output()
        slot.begin_step(name)
        finished = execute(
            Command(
                argv=[fill(word, values) for word in step.command],
                cwd=slot.directory / fill(step.cwd, values),
                environment=environment,
                timeout=step.timeout,
                holds=(slot.lock,),
                interrupt=self._interrupt,
            ),
            log=logs / f"build-{name}.log.gz",
            on_line=output.add,
        )
        if finished.ending.kind == "exit":
            slot.end_step()
        if finished.ending.is_clean:
            return finished.seconds
        return FailedBuild(
            step=name,
            ending=finished.ending,
            classification=classify_build_failure(output.lines(), finished.ending),
            seconds=finished.seconds,
        )


@dataclass
class _Output:
    """The first and last lines of a step's output, numbered from 1."""

    head: list[tuple[int, str]] = field(default_factory=list[tuple[int, str]])
    tail: list[tuple[int, str]] = field(default_factory=list[tuple[int, str]])
    count: int = 0

    def add(self, _stream: str, line: str) -> None:
        self.count += 1
        part = self.head if len(self.head) < _KEPT_OUTPUT else self.tail
        part.append((self.count, line))
        if len(self.tail) > 2 * _KEPT_OUTPUT:
            del self.tail[:_KEPT_OUTPUT]

    def lines(self) -> list[tuple[int, str]]:
        return self.head + self.tail[-_KEPT_OUTPUT:]


def _without_outputs(name: str, missing: list[Path], seconds: float) -> FailedBuild:
    """A step that says it succeeded but left nothing is a failed one."""
    text = f"step {name} ended well but left no {', '.join(str(path) for path in missing)}"
    ending = Ending(exit_code=0, signal=None, timed_out=False, cancelled=False)
    return FailedBuild(
        step=name, ending=ending, classification=classify_build_failure([(0, text)], ending), seconds=seconds
    )


class BuildCache:
    """Outputs of steps by key, least recently used first out when they outgrow `limit` bytes."""

    def __init__(self, directory: Path, *, limit: int, interrupt: Interrupt | None) -> None:
        self._directory = directory
        self._limit = limit
        self._interrupt = interrupt
        self._locks = directory / "locks"

    @contextlib.contextmanager
    def claimed(self, key: str) -> Generator[None]:
        """While held, nobody else builds this key: a build is never made twice at once.

        Raises `InterruptedWorkError`.
        """
        self._locks.mkdir(parents=True, exist_ok=True)
        lock = FileLock(self._locks / key)
        if self._interrupt is not None:
            self._interrupt.wait(lambda: try_lock(lock))
        else:
            lock.acquire()
        try:
            yield
        finally:
            lock.release()

    def restore(self, key: str, outputs: list[Path]) -> bool:
        """Put saved outputs in place. False where the key is not in the cache."""
        saved = self._directory / key
        if not saved.is_dir():
            return False
        now = time.time_ns()
        os.utime(saved, ns=(now, now))
        for index, output in enumerate(outputs):
            remove(output)
            output.parent.mkdir(parents=True, exist_ok=True)
            _copy(saved / str(index), output)
            # The sources were checked out just now: outputs older than them would count as stale in the stack's
            # own eyes. One time for all keeps them equally old.
            for path in (output, *output.rglob("*")) if output.is_dir() else (output,):
                os.utime(path, ns=(now, now), follow_symlinks=False)
        return True

    def save(self, key: str, outputs: list[Path]) -> None:
        """Keep outputs of a claimed key. A full disk costs the copy, not the build."""
        temporary = self._directory / f"{key}{_INCOMING}"
        shutil.rmtree(temporary, ignore_errors=True)
        try:
            temporary.mkdir(parents=True)
            for index, output in enumerate(outputs):
                _copy(output, temporary / str(index))
            (temporary / _SIZE_FILE).write_text(str(_size(temporary)))
            temporary.replace(self._directory / key)
        except OSError:
            shutil.rmtree(temporary, ignore_errors=True)
            return
        self._trim()

    def _trim(self) -> None:
        """Remove the oldest entries over the limit, and what killed processes have left. What is in use stays."""
        entries: list[tuple[float, int, Path]] = []
        for entry in self._directory.iterdir():
            if entry.suffix in (_INCOMING, _OUTGOING):
                self._discard(entry)
            else:
                with contextlib.suppress(OSError, ValueError):
                    entries.append((entry.stat().st_mtime, int((entry / _SIZE_FILE).read_text()), entry))
        total = sum(size for _, size, _ in entries)
        for _, size, entry in sorted(entries)[:-1]:
            if total <= self._limit:
                return
            self._discard(entry)
            total -= size

    def _discard(self, entry: Path) -> None:
        with contextlib.suppress(Timeout, OSError), FileLock(self._locks / entry.stem, blocking=False):
            # An entry that a kill left half-removed must not pass for a whole one.
            outgoing = entry.with_suffix(_OUTGOING)
            if entry != outgoing:
                shutil.rmtree(outgoing, ignore_errors=True)
                entry.replace(outgoing)
            shutil.rmtree(outgoing, ignore_errors=True)


def digest(value: Mapping[str, object]) -> str:
    """A key of whatever JSON can hold, 64 hexadecimal digits."""
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()


def _copy(source: Path, target: Path) -> None:
    if source.is_dir():
        shutil.copytree(source, target, symlinks=True)
    else:
        shutil.copy2(source, target)


def _size(directory: Path) -> int:
    return sum(path.lstat().st_size for path in directory.rglob("*") if path.is_file())
