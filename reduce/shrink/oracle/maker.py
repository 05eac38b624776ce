"""Makes a candidate on disk: the failing build, its twin, and expected values, computed anew where need be."""

from __future__ import annotations

import shutil
import tempfile
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from ....runner.build_output.golden_data import TensorFolder
from ....runner.build_output.graph.model import Region
from ....runner.tensor.chunks import decode
from ....store.vocabulary import Verdict
from ...replay.comparison import in_type
from ...rewrite.geometry import elements_of
from ..program.candidate import Candidate
from ..program.cut.cut import Array, Cut, UnfitCutError
from ..program.made_build import MadeBuild, save
from ..program.pair import BuildPair
from .running import BuildRunner


@dataclass(frozen=True, kw_only=True)
class Maker:
    """`computed` is a folder for what the reference put out, by candidate; it outlives this process."""

    pair: BuildPair
    runner: BuildRunner
    computed: Path

    def make(self, candidate: Candidate, folder: Path) -> tuple[MadeBuild, MadeBuild | None]:
        """Both builds below the new folder `folder`; no twin without a reference.

        Raises:
            UnfitCutError: the tasks cannot be taken alone, or the reference does not run on the changed inputs.
            NotWholeError: a value was not recorded whole.
        """
        failing = self.pair.make_failing(candidate, folder / "failing")
        if not self.pair.has_twin:
            return failing, None
        passing = self.pair.make_reference(candidate, folder / "passing")
        if candidate.is_new_to_the_reference:
            outputs = self._computed(candidate, passing, folder / "runs-computing")
            for made in (failing, passing):
                _expect(made, outputs)
        return failing, passing

    def _computed(self, candidate: Candidate, passing: MadeBuild, folder: Path) -> TensorFolder:
        kept = self.computed / candidate.digest
        if not kept.exists():
            inside = self._inside(candidate, folder) if candidate.extents else None
            outputs = self._outputs(passing, folder / "runs")
            if inside is not None and not _equal(inside, outputs):
                raise UnfitCutError("a kernel of the reference depends on what lies around its tensors")
            keep(outputs.folder.root, kept)
        return TensorFolder.open(kept)

    def _outputs(self, made: MadeBuild, folder: Path) -> TensorFolder:
        ran = self.runner.run(made, self.pair.reference.toolchain, folder, save_outputs=True)
        compared = ran.classification.verdict in (Verdict.PASS, Verdict.MISMATCH)
        if not compared or ran.outputs is None:
            raise UnfitCutError("the reference does not run on the changed inputs")
        return ran.outputs

    def _inside(self, candidate: Candidate, folder: Path) -> dict[str, Array]:
        """What the reference leaves in smaller parts of its whole buffers, flat.

        Shapes are compiled into some kernels; in smaller buffers they would reach out of them.
        """
        made = self.pair.make_narrowed_reference(candidate, folder / "narrowed")
        outputs = self._outputs(made, folder / "runs-narrowed")
        whole = _regions(self.pair.reference_cut(replace(candidate, extents=())))
        inside: dict[str, Array] = {}
        for tensor in made.cut.tensors:
            if tensor.expected is None:
                continue
            left = np.ravel(outputs.tensor(tensor.buffer.name).contiguous())
            region = _regions(made.cut)[tensor.buffer.number]
            if region == whole[tensor.buffer.number]:
                inside[tensor.buffer.name] = left
                continue
            places = elements_of(region)
            around = np.ones(left.size, np.bool_)
            around[places] = False
            before = np.zeros_like(left) if tensor.initial is None else tensor.initial
            if bool((left[around] != before[around]).any()):
                raise UnfitCutError(f"a kernel of the reference writes around its {tensor.buffer.name}")
            inside[tensor.buffer.name] = left[places]
        return inside


def keep(folder: Path, kept: Path) -> None:
    """Copies a folder to `kept`, where it is there wholly or not at all; runs of one candidate do so at once."""
    kept.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=kept.parent) as name:
        partial = Path(name) / kept.name
        shutil.copytree(folder, partial)
        try:
            partial.replace(kept)
        except OSError:
            if not kept.exists():
                raise


def _regions(cut: Cut) -> dict[int, Region]:
    """The part used of each buffer, where it is one; buffers that shrink have no others."""
    return {argument.buffer: argument.region for task in cut.tasks for argument in task.arguments}


def _equal(inside: dict[str, Array], outputs: TensorFolder) -> bool:
    return all(
        name in outputs.names and np.array_equal(values, np.ravel(outputs.tensor(name).contiguous()))
        for name, values in inside.items()
    )


def _expect(made: MadeBuild, outputs: TensorFolder) -> None:
    for tensor in made.cut.tensors:
        if tensor.expected is None:
            continue
        name = tensor.buffer.name
        if name in outputs.names:
            view = in_type(outputs.tensor(name), tensor.buffer.dtype)
        elif tensor.initial is not None:
            # What no task of the reference writes stays as it is.
            view = tensor.view(tensor.initial)
        else:
            raise UnfitCutError(f"the reference has no output {name}")
        values = decode(view.dtype, np.ravel(view.contiguous()))
        if view.dtype.is_floating and not np.isfinite(values).all():
            raise UnfitCutError(f"the reference's {name} is not finite on the changed inputs")
        save(view, made.path / "data" / "out" / f"{name}.pt")
