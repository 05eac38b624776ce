"""The sources of kernels in the two builds that are reduced together."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from ...replay.working_copy import WorkingCopy
from .candidate import Candidate
from .made_build import dropped_statements, source_of
from .render.merged import merge
from .render.statements import KernelText, without


@dataclass(frozen=True, kw_only=True)
class KernelTexts:
    """Reads the sources of kernels, by their names, in copies of both builds."""

    failing: WorkingCopy
    reference: WorkingCopy

    def merged_bytes(self, kernel: str) -> int:
        """The size of a kernel's merged text; 0 where it does not lie in both builds."""
        text = self._text(kernel, collapsed=False)
        return 0 if text is None else len(merge(text.failing, text.reference))

    def of(self, candidate: Candidate, kernels: Iterable[str]) -> tuple[KernelText, ...]:
        """The texts of those `kernels` of a candidate that lie in both builds, with all their statements; of a kernel
        that is taken from the reference, its source twice."""
        texts = (self._text(name, collapsed=name in candidate.collapsed) for name in sorted(kernels))
        return tuple(text for text in texts if text is not None)

    def reduced(self, candidate: Candidate, kernels: Iterable[str]) -> tuple[KernelText, ...]:
        """The same texts without the statements that were dropped."""
        dropped = dropped_statements(candidate)
        return tuple(
            KernelText(
                text.kernel,
                *(
                    without(source, dropped.get(text.kernel, set()))
                    for source in (text.failing, text.reference)
                ),
            )
            for text in self.of(candidate, kernels)
        )

    def _text(self, name: str, *, collapsed: bool) -> KernelText | None:
        reference = source_of(name, self.reference)
        failing = reference if collapsed else source_of(name, self.failing)
        if failing is None or reference is None:
            return None
        return KernelText(name, failing.read_bytes(), reference.read_bytes())
