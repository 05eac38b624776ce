"""The scene test of a culprit and that of its parent as build directories, with the data of the one that passes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from ...runner.build_output.build_directory import BuildDirectory
from ...runner.build_output.golden_data import TensorFolder
from ...runner.compare.statistics.statistics import Tolerance
from ...runner.errors import UserError
from ...runner.localization.job import SceneCase
from ..replay.comparison import differs
from ..replay.runnable_build import RunnableBuild
from .build import build_of


class YardstickMovedError(UserError):
    """The case expects something else of the same inputs: its own text, and no program, is what changed."""


@dataclass(frozen=True, kw_only=True)
class SceneBuilds:
    """Both as build directories. `data` are inputs and results of the reference."""

    failing: Path
    reference: Path
    data: Path


def scenes_as_builds(
    failing: RunnableBuild,
    reference: RunnableBuild,
    scene: SceneCase,
    *,
    folder: Path,
    on_progress: Callable[[str], None],
) -> SceneBuilds:
    """Write both scripts below `folder`, each under its own toolchain and from the same seed.

    Raises:
        YardstickMovedError: the inputs are the same, and what is expected of them is not.
        UserError: one cannot be written as a build directory.
        BuildOutputError: what was written cannot be read.
    """
    written = [
        build_of(side.path, scene.failed, side.toolchain, folder / name, reuse=False, on_progress=on_progress)
        for name, side in (("failing", failing), ("reference", reference))
    ]
    ours, theirs = (BuildDirectory.open(path).golden_data() for path in written)
    expected = _differing(ours.outputs, theirs.outputs)
    if expected and not _differing(ours.inputs, theirs.inputs):
        raise YardstickMovedError(
            f"the yardstick moved: of the same inputs {scene.failed or failing.path.name} expects other results at the "
            f"culprit than at its parent ({', '.join(expected)})"
        )
    return SceneBuilds(failing=written[0], reference=written[1], data=written[1] / "data")


def _differing(ours: TensorFolder, theirs: TensorFolder) -> list[str]:
    """The names of tensors that are not the same in both."""
    names = sorted({*ours.names, *theirs.names})
    return [
        name
        for name in names
        if name not in ours.names
        or name not in theirs.names
        or differs(ours.tensor(name), theirs.tensor(name), Tolerance())
    ]
