"""Running a build directory through minirt."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from minirt import binaries, executor
from minirt.executor import ScalarArgument, TensorArgument


def build_binaries(build_dir: Path) -> None:
    """Compile the C++ sources that are newer than their binaries. Raises RuntimeError with the compiler's lines."""
    binaries.refresh(build_dir)


def execute_compiled(
    build_dir: Path,
    arguments: Sequence[TensorArgument | ScalarArgument],
    *,
    platform: str,
    device_id: int = 0,
    enable_dump_args: int = 0,
    enable_dep_gen: bool = False,
) -> None:
    """Run a built directory on `arguments`, outputs in place. Raises RuntimeError when the run fails."""
    executor.execute(
        build_dir,
        arguments,
        platform=platform,
        device_id=device_id,
        dump_args=enable_dump_args,
        dep_gen=enable_dep_gen,
    )
