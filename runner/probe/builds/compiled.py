"""What runs of the case compile for themselves, such as a runtime's kernels, kept by the content of all that they were
made from: runs of one commit compile it once, and no commit runs what another one has compiled."""

from collections.abc import Mapping
from pathlib import Path

from ...stack.stack import Stack
from ...workspace.content import StackContent
from .build_cache import BuildCache
from .keys import digest


class CompiledByRuns:
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
        """Under which it is kept; None where runs leave nothing. `toolchain` is the build's own key, `surroundings` the
        environment's description."""
        if not self._stack.case.compiled:
            return None
        return digest(
            {
                "compiled": list(self._stack.case.compiled),
                "content": self._content.of_revisions(revisions),
                "case": case,
                "platform": platform,
                "toolchain": toolchain,
                "variables": dict(self._stack.environment.variables),
                "surroundings": dict(surroundings),
            }
        )

    def put_back(self, key: str | None, slot: Path) -> None:
        """Have in a slot what an earlier run has left, and nothing else. Raises `InterruptedWorkError`."""
        if key is not None:
            with self._cache.claimed(key):
                self._cache.restore(key, self._outputs(slot))

    def keep(self, key: str | None, slot: Path) -> None:
        """Keep what a run that ended by itself has left, unless it is kept. Raises `InterruptedWorkError`."""
        if key is None or self._cache.holds(key):
            return
        outputs = self._outputs(slot)
        if all(output.exists() for output in outputs):
            with self._cache.claimed(key):
                self._cache.save(key, outputs)

    def _outputs(self, slot: Path) -> list[Path]:
        return [slot / path for path in self._stack.case.compiled]
