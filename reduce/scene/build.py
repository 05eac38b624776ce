"""A case of a scene test, written as a build directory that can be localized and reduced."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path, PurePosixPath
from typing import Any

from pydantic import BaseModel

from ...runner.build_output.files.folder import Folder
from ...runner.build_output.kernel_config import FILE_NAME as KERNEL_CONFIG
from ...runner.build_output.kernel_config import Direction
from ...runner.build_output.orchestration.model import Usage
from ...runner.build_output.orchestration.orchestration import Orchestration
from ...runner.case.entry_arguments import argument_names
from ...runner.case.scene_tests import EXPORT
from ...runner.errors import UsageError, UserError
from ...store.files import making_folder
from ..replay.toolchain import Toolchain

_DIRECTIONS = {
    Usage.INPUT: Direction.IN,
    Usage.OUTPUT: Direction.OUT,
    Usage.INOUT: Direction.INOUT,
    Usage.NO_DEPENDENCY: Direction.IN,
}


class _Source(BaseModel):
    source: str
    signature: list[Direction]


class _Entry(_Source):
    function_name: str


class _Kernel(_Source):
    func_id: int
    name: str
    core_type: str
    extra_include_dirs: list[str]


class _Scene(BaseModel):
    """What `export.py` writes down."""

    runtime_config: dict[str, Any]
    orchestration: _Entry
    kernels: list[_Kernel]


def build_of(
    path: Path,
    case: str | None,
    toolchain: Toolchain,
    folder: Path,
    *,
    reuse: bool,
    on_progress: Callable[[str], None],
) -> Path:
    """`path`, where it is a folder; where it is a scene test's script, the new build directory `folder`.

    The script runs under the toolchain's interpreter and draws its data from a fixed seed. `reuse` takes a folder that
    an earlier call wrote.

    Raises:
        UserError: there is no such case, or it cannot be written as one build directory.
        BuildOutputError: what was written cannot be read.
    """
    if not path.is_file():
        if case is not None:
            raise UsageError(f"--scene-case {case}: expected the script of a scene test, found {path}")
        return path
    if not toolchain.stack.case.scene_tests:
        raise UsageError(f"{path}: expected a build directory, found a file")
    if reuse and folder.is_dir():
        return folder
    on_progress(f"writing {path.name} as the build directory {folder}")
    with making_folder(folder) as partial:
        _export(path, case, toolchain, partial)
        _complete(partial)
        shutil.rmtree(folder, ignore_errors=True)
    return folder


def _export(script: Path, case: str | None, toolchain: Toolchain, folder: Path) -> None:
    """Has the scene test's script write itself as a build directory, its data numbered."""
    chosen = ["--case", case] if case is not None else []
    ran = subprocess.run(
        [
            *(str(toolchain.python), str(EXPORT), str(script.resolve()), "-p", toolchain.platform),
            *("--output", str(folder), *chosen),
        ],
        env=toolchain.environment,
        capture_output=True,
        text=True,
        errors="replace",
    )
    if ran.returncode:
        said = [line for line in ran.stderr.splitlines() if line.strip()]
        raise UserError(
            said[-1] if said else f"{script}: expected a scene test, found exit code {ran.returncode}"
        )


def _complete(folder: Path) -> None:
    """Writes the kernel list, and calls the data, numbered so far, what the orchestration calls its arguments."""
    described = folder / "scene.json"
    scene = _Scene.model_validate_json(described.read_bytes())
    orchestration = Orchestration.open(
        Folder.open(folder, expected="a build directory"),
        scene.orchestration.source,
        entry_function=scene.orchestration.function_name,
    )
    (folder / KERNEL_CONFIG).write_text(_kernel_config(scene, orchestration), encoding="utf-8")
    described.unlink()
    for number, name in enumerate(argument_names(folder, orchestration)):
        for kind in ("in", "out"):
            file = folder / "data" / kind / f"{number}.pt"
            if file.exists():
                file.rename(file.with_name(f"{name}.pt"))


def _kernel_config(scene: _Scene, orchestration: Orchestration) -> str:
    entry = scene.orchestration
    lines = [
        "from pathlib import Path",
        "",
        "from simpler.task_interface import ArgDirection as _D",
        "",
        "_ROOT_DIR = Path(__file__).parent",
        f"RUNTIME_CONFIG = {scene.runtime_config!r}",
        "ORCHESTRATION = {",
        f'    "source": {_source(entry)},',
        f'    "function_name": {entry.function_name!r},',
        f'    "signature": {_signature(entry.signature)},',
        "}",
        "KERNELS = [",
    ]
    for kernel in scene.kernels:
        folders = (
            f', "extra_include_dirs": {kernel.extra_include_dirs!r}' if kernel.extra_include_dirs else ""
        )
        lines.append(
            f'    {{"func_id": {kernel.func_id}, "name": {kernel.name!r}, "source": {_source(kernel)}, '
            f'"core_type": {kernel.core_type!r}, "signature": {_signature(_whole(kernel, orchestration))}{folders}}},'
        )
    return "\n".join([*lines, "]", ""])


def _source(kernel: _Source) -> str:
    return f"str(_ROOT_DIR / {' / '.join(map(repr, PurePosixPath(kernel.source).parts))})"


def _signature(directions: Sequence[Direction]) -> str:
    return f"[{', '.join(f'_D.{direction.value}' for direction in directions)}]"


def _whole(kernel: _Kernel, orchestration: Orchestration) -> list[Direction]:
    """The signature with the last tensors too, which some leave out: the runtime does not dump those."""
    added: list[list[Direction]] = [
        [_DIRECTIONS[argument.usage] for argument in submit.tensor_arguments]
        for submit in orchestration.submits
        if kernel.func_id in [submitted.func_id for submitted in submit.kernels]
    ]
    added.sort(key=len)
    return [*kernel.signature, *(added[-1][len(kernel.signature) :] if added else [])]
