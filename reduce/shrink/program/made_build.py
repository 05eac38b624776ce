"""Makes a build directory of a reduced program, from a copy of the whole build."""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from pathlib import Path

from ....runner.case.entry_arguments import EntryTensor
from ....runner.tensor.view import TensorView
from ....store.files import replacing
from ...replay.working_copy import WorkingCopy
from .candidate import Candidate
from .cut.cut import Cut
from .render.merged import failing_text
from .render.render import entry_tensors, orchestration_source, signature
from .render.statements import StatementName, without


@dataclass(frozen=True, kw_only=True)
class MadeBuild:
    """A build directory that was made, with its frozen data below `data/`."""

    path: Path
    cut: Cut

    @property
    def arguments(self) -> tuple[EntryTensor, ...]:
        """The arguments of its entry function."""
        return entry_tensors(self.cut)


def make_build(copied: WorkingCopy, cut: Cut, folder: Path) -> WorkingCopy:
    """A copy of a build in the new folder `folder`, with a reduced program in its place and the data for it."""
    copy = WorkingCopy.of(copied.path, folder)
    copy.write_orchestration(orchestration_source(cut))
    copy.write_signature(signature(cut))
    copy.keep_kernels({name for task in cut.tasks for name in task.kernels})
    for tensor in cut.tensors:
        for kind, values in (("in", tensor.initial), ("out", tensor.expected)):
            if values is not None:
                save(tensor.view(values), folder / "data" / kind / f"{tensor.buffer.name}.pt")
    # The harness wants both folders, though a program may need no input.
    (folder / "data" / "in").mkdir(parents=True, exist_ok=True)
    (folder / "data" / "out").mkdir(parents=True, exist_ok=True)
    return copy


def source_of(name: str, copy: WorkingCopy) -> Path | None:
    """The source of a kernel; None where the build has no such kernel, or not its source."""
    build = copy.build()
    kernel = build.kernel_config().kernel_named(name)
    return None if kernel is None or kernel.external else build.folder.locate(kernel.source)


def edit_kernels(copy: WorkingCopy, candidate: Candidate, *, fails: bool) -> None:
    """Drops statements from a build's kernels and rewrites their texts; `fails` says that it is the failing build."""
    for kernel, dropped in dropped_statements(candidate).items():
        source = source_of(kernel, copy)
        if source is not None:
            source.write_bytes(without(source.read_bytes(), dropped))
    for kernel, text in candidate.rewritten:
        source = source_of(kernel, copy)
        if source is not None:
            source.write_bytes(failing_text(text.encode()) if fails else text.encode())


def dropped_statements(candidate: Candidate) -> dict[str, set[StatementName]]:
    """Names of the statements that a candidate does without, by their kernels."""
    names: dict[str, set[StatementName]] = {}
    for kernel, text, occurrence in candidate.statements:
        names.setdefault(kernel, set()).add(StatementName(text, occurrence))
    return names


def take_kernel(name: str, source: WorkingCopy, copy: WorkingCopy) -> None:
    """Puts another build's source and binary of a kernel in place of the copy's, if both have it."""
    origin_build, target_build = source.build(), copy.build()
    taken = origin_build.kernel_config().kernel_named(name)
    replaced = target_build.kernel_config().kernel_named(name)
    if taken is None or replaced is None or taken.external or replaced.external:
        return
    origin = origin_build.folder.locate(taken.source)
    target = target_build.folder.locate(replaced.source)
    for file in origin.parent.glob(f"{origin.stem}.*"):
        shutil.copy2(file, target.with_name(target.stem + file.suffix))


def save(view: TensorView, path: Path) -> None:
    """Writes a tensor as the harness reads it."""
    import torch

    path.parent.mkdir(parents=True, exist_ok=True)
    with replacing(path) as partial, partial.open("wb") as stream:
        torch.save(view.torch().contiguous().clone(), stream)  # pyright: ignore[reportUnknownMemberType]
