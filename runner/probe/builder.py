"""Builds the toolchain of a slot, step by step, and caches what steps and runs compile.

`Builder` runs only steps whose inputs have changed, and keeps their outputs by the content of the inputs.
`RunCompileCache` keeps what runs of the case compile for themselves, such as a runtime's kernels. Runs of one commit
compile it once, and no commit uses the kernels of another one.
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
from ..verdict.classify import Classification, classify_build_failure
from ..verdict.rules import Ending
from ..workspace.content import StackContent
from ..workspace.slot import Slot, find_link
from .build_cache import BuildCache, BuildStore, SharedBuilds


def digest(value: Mapping[str, object]) -> str:
    """Return a key for a JSON value: 64 hexadecimal digits."""
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()


_LOW_PRIORITY = ("nice", "-n", "19")

_KEPT_OUTPUT = 400
"""The first and the last lines of a failing step's output are classified: this many each.

Compilers print the cause first; pip and make print it last."""


@dataclass(frozen=True, kw_only=True)
class BuiltToolchain:
    """A toolchain that is ready in a slot."""

    key: str
    source: BuildSource
    seconds: float
    step_seconds: Mapping[str, float]
    """The seconds of each step that ran."""
    trouble: str | None = None
    """Why the store of builds could not be used; None where it could, or where there is none."""


@dataclass(frozen=True, kw_only=True)
class FailedBuild:
    """A step that failed, and why. `seconds` is the time of that step."""

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
        """`build_store` is the URL of a store that machines share. Raises `UserError` where it cannot be opened."""
        self._stack = stack
        self._content = content
        self._interrupt = interrupt
        limit = int(stack.limits.build_cache_gib * (1 << 30))
        shared: SharedBuilds | None = None
        if build_store is not None:
            check = (lambda: None) if interrupt is None else interrupt.check
            # The folder around the cache also contains the slots and the clones.
            shared = SharedBuilds(BuildStore(build_store, check=check), own=cache.parent, max_bytes=limit)
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
        nice: bool = False,
    ) -> BuiltToolchain | FailedBuild:
        """Build the slot, in which `revisions` are checked out. Raises `InterruptedWorkError`.

        `surroundings` is the environment's description, which is part of the key. `environment` has the variables of
        steps, and `values` those of the placeholders. `nice` gives other processes priority, as `nice` of Unix does.
        """
        begun = time.monotonic()
        self.cache.begin()
        step_seconds: dict[str, float] = {}
        keys: dict[str, str] = {}
        restored = False
        for name, step in self._stack.steps.items():
            key = keys[name] = self._key(name, revisions, surroundings, values=values)
            outputs = [slot.directory / output for output in step.outputs]
            if slot.step_key(name) == key and all(output.exists() for output in outputs):
                continue
            if links := _links(outputs, slot.directory):
                # An earlier step made the link, and what is behind it must not be removed.
                return _outputs_failure(
                    name, f"step {name} did not run: {links[0]}: expected a folder, found a link", seconds=0.0
                )
            on_step(name)
            slot.forget_step(name)
            with self.cache.claim(key) if outputs else contextlib.nullcontext():
                if outputs and self.cache.restore(key, outputs):
                    restored = True
                else:
                    result = self._run(
                        slot, name, environment=environment, values=values, logs=logs, nice=nice
                    )
                    if isinstance(result, FailedBuild):
                        return result
                    step_seconds[name] = result
                    if outputs:
                        self.cache.save(key, outputs)
            slot.record_step(name, key)
        source = BuildSource.PRESENT if keys else BuildSource.NONE
        if step_seconds:
            source = BuildSource.BUILT
        elif restored:
            source = BuildSource.CACHED
        return BuiltToolchain(
            key=digest(keys),
            source=source,
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
        """Return the key of a step's outputs: of everything that may change them."""
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
        nice: bool,
    ) -> FailedBuild | float:
        """Run one build step. Return its seconds, or the failure."""
        step = self._stack.steps[name]
        output = _StepOutput()
        slot.begin_step(name)
        finished = execute(
            Command(
                argv=[
                    *(_LOW_PRIORITY if nice else ()),
                    *(fill(word, values) for word in step.command),
                ],
                cwd=slot.directory / fill(step.cwd, values),
                environment=environment,
                timeout=step.timeout,
                locks=(slot.lock,),
                interrupt=self._interrupt,
            ),
            log=logs / f"build-{name}.log.gz",
            on_line=output.add,
        )
        if finished.ending.kind == "exit":
            slot.end_step()
        if not finished.ending.is_clean:
            return FailedBuild(
                step=name,
                ending=finished.ending,
                classification=classify_build_failure(output.lines(), finished.ending),
                seconds=finished.seconds,
            )
        outputs = [slot.directory / path for path in step.outputs]
        missing = [str(each) for each in outputs if not each.exists() or _links([each], slot.directory)]
        if not missing:
            return finished.seconds
        return _outputs_failure(
            name, f"step {name} ended well but left no {', '.join(missing)}", seconds=finished.seconds
        )


@dataclass
class _StepOutput:
    """The first and last lines that a step prints, numbered from 1."""

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


def _links(outputs: list[Path], slot: Path) -> list[Path]:
    """Return the links between the slot and its outputs, where folders are expected."""
    return [link for output in outputs if (link := find_link(output, slot)) is not None]


def _outputs_failure(name: str, text: str, *, seconds: float) -> FailedBuild:
    """Return the failure of a step that does not leave its outputs although no exit code says so."""
    ending = Ending(exit_code=0)
    return FailedBuild(
        step=name, ending=ending, classification=classify_build_failure([(0, text)], ending), seconds=seconds
    )


class RunCompileCache:
    """Keeps the folders and files that runs compile for themselves (`case.compiled`), by content."""

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

        `toolchain` is the key of the build, and `surroundings` is the environment's description.
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
        """Replace a slot's compiled files by those that an earlier run kept, if any. Raises `InterruptedWorkError`."""
        if key is not None and (outputs := self._outputs(slot)):
            with self._cache.claim(key):
                self._cache.restore(key, outputs)

    def keep(self, key: str | None, slot: Path) -> None:
        """Keep the compiled files of a run that was not cut short. Raises `InterruptedWorkError`."""
        if key is None or self._cache.holds(key):
            return
        outputs = self._outputs(slot)
        if outputs and all(output.exists() for output in outputs):
            with self._cache.claim(key):
                self._cache.save(key, outputs)

    def _outputs(self, slot: Path) -> list[Path]:
        """Return the paths of the compiled files in a slot; none where a run put a link on the way to one."""
        outputs = [slot / path for path in self._stack.case.compiled]
        return [] if _links(outputs, slot) else outputs
