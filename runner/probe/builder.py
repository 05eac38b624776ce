"""Build a slot's toolchain, step by step, doing only what its content makes necessary."""

import contextlib
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from ...store.vocabulary import BuildSource
from ..process.execute import Command, execute
from ..process.interrupt import Interrupt
from ..stack.stack import Stack
from ..stack.templates import fill
from ..verdict.verdict import Classification, Ending, classify_build_failure
from ..workspace.content import StackContent
from ..workspace.slot import Slot
from .builds.build_cache import BuildCache
from .builds.build_store import BuildStore
from .builds.keys import digest
from .builds.shared_builds import SharedBuilds

_GENTLY = ("nice", "-n", "19")

_KEPT_OUTPUT = 400
"""Lines of a failing step that are classified: compilers put the cause first, pip and make put it last."""


@dataclass(frozen=True, kw_only=True)
class BuiltToolchain:
    """A toolchain that stands ready in a slot."""

    key: str
    source: BuildSource
    seconds: float
    step_seconds: Mapping[str, float]
    """Seconds of each step that was really run."""
    trouble: str | None = None
    """Why the store of builds was of no use."""


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
        self,
        stack: Stack,
        content: StackContent,
        cache: Path,
        *,
        interrupt: Interrupt | None = None,
        build_store: str | None = None,
    ) -> None:
        """`build_store` is the URL of a store that other machines use too. Raises `UserError` where it cannot be
        opened."""
        self._stack = stack
        self._content = content
        self._interrupt = interrupt
        limit = int(stack.limits.build_cache_gib * (1 << 30))
        shared: SharedBuilds | None = None
        if build_store is not None:
            check = (lambda: None) if interrupt is None else interrupt.check
            # Slots and clones are beside the cache.
            shared = SharedBuilds(BuildStore(build_store, check=check), own=cache.parent, most_bytes=limit)
        self.cache = BuildCache(cache, limit=limit, interrupt=interrupt, shared=shared)

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
        gently: bool = False,
    ) -> BuiltToolchain | FailedBuild:
        """Bring the slot, checked out at `revisions`, to where the case can run.

        `surroundings` is the environment's description (part of the key), `environment` the processes' variables,
        `values` those of the placeholders; `gently` leaves the machine to all that runs besides. Raises
        `InterruptedWorkError`.
        """
        begun = time.monotonic()
        self.cache.begin()
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
            with self.cache.claimed(key) if outputs else contextlib.nullcontext():
                if outputs and self.cache.restore(key, outputs):
                    restored = True
                else:
                    failure = self._run(
                        slot, name, environment=environment, values=values, logs=logs, gently=gently
                    )
                    if isinstance(failure, FailedBuild):
                        return failure
                    step_seconds[name] = failure
                    missing = [output for output in outputs if not output.exists()]
                    if missing:
                        return _without_outputs(name, missing, failure)
                    if outputs:
                        self.cache.save(key, outputs)
            slot.record(name, key)
        there = BuildSource.PRESENT if keys else BuildSource.NONE
        return BuiltToolchain(
            key=digest(keys),
            source=BuildSource.BUILT if step_seconds else BuildSource.CACHED if restored else there,
            seconds=time.monotonic() - begun,
            step_seconds=step_seconds,
            trouble=self.cache.trouble,
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
        self,
        slot: Slot,
        name: str,
        *,
        environment: Mapping[str, str],
        values: Mapping[str, str],
        logs: Path,
        gently: bool,
    ) -> FailedBuild | float:
        step = self._stack.steps[name]
        output = _Output()
        slot.begin_step(name)
        finished = execute(
            Command(
                argv=[*(_GENTLY if gently else ()), *(fill(word, values) for word in step.command)],
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
