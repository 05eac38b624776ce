"""Builds the toolchain of a slot, step by step. Only steps whose inputs have changed run.

`Builder` keeps the outputs of steps by their content. `RunCompileCache` does the same for what runs of the case compile
for themselves, such as a runtime's kernels. Runs of one commit compile them once, and no commit uses what another one
has compiled.
"""

import contextlib
import hashlib
import json
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from ...store.vocabulary import BuildSource
from ..process.run import Command, Interrupt, execute
from ..stack import Stack, fill
from ..verdict.classify import Classification, Ending, classify_build_failure
from ..workspace.content import StackContent
from ..workspace.slot import Slot, find_link
from .build_cache import BuildCache, BuildStore, SharedBuilds


def digest(value: Mapping[str, object]) -> str:
    """Return a key for a JSON value: 64 hexadecimal digits."""
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()


_LOW_PRIORITY = ("nice", "-n", "19")

_KEPT_OUTPUT = 400
"""This number of lines are classified at either end of a failing step's output.

Compilers put the cause first; pip and make put it last."""


@dataclass(frozen=True, kw_only=True)
class BuiltToolchain:
    """A toolchain that is ready in a slot."""

    key: str
    source: BuildSource
    seconds: float
    step_seconds: Mapping[str, float]
    """The seconds of each step that ran."""
    trouble: str | None = None
    """Says why the store of builds could not be used."""


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
        """`build_store` is the URL of a store that other machines use too.

        Raises `UserError` where it cannot be opened.
        """
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
        """Build the slot, which is checked out at `revisions`, until the case can run.

        `surroundings` is the environment's description (part of the key). `environment` holds the processes' variables,
        and `values` those of the placeholders. `gently` gives all other processes priority. Raises
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
            if slot.built_key(name) == key and all(output.exists() for output in outputs):
                continue
            if _lie_behind_link(outputs, slot.directory):  # An earlier step made it.
                return _missing_outputs_failure(name, outputs, 0.0)
            on_step(name)
            slot.forget(name)
            with self.cache.claim(key) if outputs else contextlib.nullcontext():
                if outputs and self.cache.restore(key, outputs):
                    restored = True
                else:
                    failure = self._run(
                        slot, name, environment=environment, values=values, logs=logs, gently=gently
                    )
                    if isinstance(failure, FailedBuild):
                        return failure
                    step_seconds[name] = failure
                    missing = [
                        each
                        for each in outputs
                        if not each.exists() or _lie_behind_link([each], slot.directory)
                    ]
                    if missing:
                        return _missing_outputs_failure(name, missing, failure)
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
                "inputs": {entry: self._content.input_key(revisions, entry) for entry in step.inputs},
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
        """Run one build step. Return its seconds, or the failed build."""
        step = self._stack.steps[name]
        output = _Output()
        slot.begin_step(name)
        finished = execute(
            Command(
                argv=[*(_LOW_PRIORITY if gently else ()), *(fill(word, values) for word in step.command)],
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


def _lie_behind_link(outputs: list[Path], slot: Path) -> bool:
    return any(find_link(output, slot) is not None for output in outputs)


def _missing_outputs_failure(name: str, missing: list[Path], seconds: float) -> FailedBuild:
    """Return the failure of a step that reported success without leaving its outputs."""
    text = f"step {name} ended well but left no {', '.join(str(path) for path in missing)}"
    ending = Ending(exit_code=0, signal=None, timed_out=False, cancelled=False)
    return FailedBuild(
        step=name, ending=ending, classification=classify_build_failure([(0, text)], ending), seconds=seconds
    )


class RunCompileCache:
    """The folders and files in which a stack's runs keep what they have compiled."""

    def __init__(self, stack: Stack, content: StackContent, cache: BuildCache) -> None:
        self._stack = stack
        self._content = content
        self._cache = cache

    def key(
        self,
        revisions: Mapping[str, str],
        *,
        case: str,
        platform: str,
        toolchain: str,
        surroundings: Mapping[str, str],
    ) -> str | None:
        """Return the key of what a run compiles; None where runs keep nothing.

        `toolchain` is the build's own key, `surroundings` the environment's description.
        """
        if not self._stack.case.compiled:
            return None
        return digest(
            {
                "compiled": list(self._stack.case.compiled),
                "content": self._content.revisions_key(revisions),
                "case": case,
                "platform": platform,
                "toolchain": toolchain,
                "variables": dict(self._stack.environment.variables),
                "surroundings": dict(surroundings),
            }
        )

    def restore(self, key: str | None, slot: Path) -> None:
        """Restore in a slot what an earlier run has compiled, and remove everything else. Raises
        `InterruptedWorkError`.
        """
        if key is not None and (outputs := self._outputs(slot)):
            with self._cache.claim(key):
                self._cache.restore(key, outputs)

    def keep(self, key: str | None, slot: Path) -> None:
        """Keep what a run that ended by itself has compiled, unless it is there. Raises `InterruptedWorkError`."""
        if key is None or self._cache.holds(key):
            return
        outputs = self._outputs(slot)
        if outputs and all(output.exists() for output in outputs):
            with self._cache.claim(key):
                self._cache.save(key, outputs)

    def _outputs(self, slot: Path) -> list[Path]:
        """Return the paths of the case's outputs in a slot; none where a run has put a link on the way to one."""
        outputs = [slot / path for path in self._stack.case.compiled]
        return [] if _lie_behind_link(outputs, slot) else outputs
