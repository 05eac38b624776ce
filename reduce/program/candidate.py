"""Makes build directories of a reduction: one of the failing build, one of the reference."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from ...runner.build_output.golden_data import GoldenData
from ...runner.tensors.view import TensorView
from ..alignment import Alignment, align
from ..comparison import TaskValues
from ..entry_arguments import EntryTensor
from ..working_copy import WorkingCopy
from .cut import Cut, cut
from .kernel_list import keep_kernels
from .model import Reduction
from .recording import Recording, same_bits
from .render import entry_tensors, orchestration_source, signature


@dataclass(frozen=True, kw_only=True)
class Folder:
    """A build directory that was made, with its frozen data below `data/`."""

    path: Path
    cut: Cut

    @property
    def arguments(self) -> tuple[EntryTensor, ...]:
        """Its entry arguments."""
        return entry_tensors(self.cut)


@dataclass(frozen=True, kw_only=True)
class _FailingValues:
    """The reference's values for the failing build's tasks, its own for those without a counterpart."""

    pair: Pair

    def of(self, ordinal: int) -> TaskValues:
        other = self.pair.alignment.reference_of.get(ordinal)
        return self.pair.failing.values(ordinal) if other is None else self.pair.reference.values(other)

    def run_of(self, ordinal: int) -> str:
        return "failing" if ordinal not in self.pair.alignment.reference_of else "reference"


@dataclass(frozen=True, kw_only=True)
class _ReferenceValues:
    pair: Pair

    def of(self, ordinal: int) -> TaskValues:
        return self.pair.reference.values(ordinal)

    def run_of(self, ordinal: int) -> str:
        return "reference"


@dataclass(frozen=True, kw_only=True)
class Pair:
    """The two builds that are reduced together."""

    failing: Recording
    reference: Recording

    @cached_property
    def alignment(self) -> Alignment:
        """Which tasks correspond."""
        return align(self.failing.tasks, self.reference.tasks)

    @cached_property
    def diverged(self) -> tuple[int, ...]:
        """Ordinals of tasks that left something else than in the reference."""
        return tuple(
            ours
            for ours, theirs in sorted(self.alignment.reference_of.items())
            if not same_bits(self.failing.values(ours), self.reference.values(theirs))
        )

    def failing_cut(self, reduction: Reduction) -> Cut:
        """The reduced failing program; `UnfitCutError` where the tasks cannot be taken alone."""
        return cut(
            self.failing.program, set(reduction.tasks), _FailingValues(pair=self), _given(self.failing.data)
        )

    def reference_cut(self, reduction: Reduction) -> Cut:
        """The same tasks of the reference."""
        kept = {
            self.alignment.reference_of[one] for one in reduction.tasks if one in self.alignment.reference_of
        }
        return cut(self.reference.program, kept, _ReferenceValues(pair=self), _given(self.reference.data))

    def make_failing(self, reduction: Reduction, folder: Path) -> Folder:
        """The failing build of a reduction, in the new folder `folder`."""
        made = self.failing_cut(reduction)
        copy = _make(self.failing, made, folder)
        for name in reduction.collapsed:
            _take_kernel(name, self.reference, copy)
        return Folder(path=folder, cut=made)

    def make_reference(self, reduction: Reduction, folder: Path) -> Folder:
        """Its twin."""
        made = self.reference_cut(reduction)
        _make(self.reference, made, folder)
        return Folder(path=folder, cut=made)


def _given(data: GoldenData) -> Mapping[str, TensorView]:
    return {name: data.inputs.tensor(name) for name in data.inputs.names}


def _make(recording: Recording, made: Cut, folder: Path) -> WorkingCopy:
    copy = WorkingCopy.of(recording.copy.path, folder)
    copy.write_orchestration(orchestration_source(made))
    copy.write_signature(signature(made))
    keep_kernels(copy, {name for task in made.tasks for name in task.kernels})
    for tensor in made.tensors:
        for kind, values in (("in", tensor.initial), ("out", tensor.expected)):
            if values is not None:
                save(tensor.view(values), folder / "data" / kind / f"{tensor.buffer.name}.pt")
    # The harness wants both folders, though a program may need no input.
    (folder / "data" / "in").mkdir(parents=True, exist_ok=True)
    (folder / "data" / "out").mkdir(parents=True, exist_ok=True)
    return copy


def _take_kernel(name: str, source: Recording, copy: WorkingCopy) -> None:
    """Puts the reference's source and binary of a kernel in place of the copy's."""
    theirs = source.program.config.kernel_named(name)
    ours = copy.build().kernel_config().kernel_named(name)
    if theirs is None or ours is None or theirs.external or ours.external:
        return
    origin = source.copy.build().folder.locate(theirs.source)
    target = copy.build().folder.locate(ours.source)
    for file in origin.parent.glob(f"{origin.stem}.*"):
        shutil.copy2(file, target.with_name(target.stem + file.suffix))


def save(view: TensorView, path: Path) -> None:
    """Writes a tensor as the harness reads it."""
    import torch

    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_suffix(".partial")
    torch.save(view.torch().contiguous().clone(), partial)  # pyright: ignore[reportUnknownMemberType]
    partial.replace(path)
