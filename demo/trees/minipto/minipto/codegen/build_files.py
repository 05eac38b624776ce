"""The files of a build directory beside the C++: the kernel table, the memory report, the replay script."""

from __future__ import annotations

from collections.abc import Iterator

from ..ir import Loop, Program, Scope, Statement, Task
from ..types import ArgDirection, Role

_DIRECTION = {Role.INPUT: ArgDirection.IN, Role.OUTPUT: ArgDirection.OUT}


def kernel_config(program: Program, tasks: list[Task]) -> str:
    """kernel_config.py: where the sources are, and the directions of their tensor arguments (scalars excluded)."""
    entry = _signature(_DIRECTION[tensor.role] for tensor in program.tensors)
    kernels = [_kernel(position, task) for position, task in enumerate(tasks)]
    return "\n".join(
        [
            f'"""Build of {program.name}."""',
            "",
            "from pathlib import Path",
            "",
            "from minipto.types import ArgDirection as _D",
            "",
            "_ROOT_DIR = Path(__file__).parent",
            "",
            'RUNTIME_CONFIG = {"runtime": "tensormap_and_ringbuffer", "block_dim": 24}',
            "",
            "ORCHESTRATION = {",
            f'    "source": str(_ROOT_DIR / "orchestration" / "{program.name}.cpp"),',
            '    "function_name": "aicpu_orchestration_entry",',
            f'    "signature": {entry},',
            "}",
            "",
            "KERNELS = [",
            *kernels,
            "]",
            "",
        ]
    )


def _signature(directions: Iterator[ArgDirection]) -> str:
    return "[" + ", ".join(f"_D.{direction.name}" for direction in directions) + "]"


def _kernel(func_id: int, task: Task) -> str:
    name, core = task.stage.name, task.stage.core.value
    fields = [
        f'"func_id": {func_id}',
        f'"name": "{name}"',
        f'"source": str(_ROOT_DIR / "kernels" / "{core}" / "{name}.cpp")',
        f'"core_type": "{core}"',
        f'"signature": {_signature(argument.direction for argument in task.arguments)}',
    ]
    return "    {" + ", ".join(fields) + "},"


def memory_report(program: Program) -> str:
    """Every buffer with its bytes and the tensors that live in it, in the order of their lives."""
    lines: list[str] = []
    for path, scope in _scopes(program.body, "top"):
        tenants: dict[str, list[str]] = {}
        for tensor in scope.allocations:
            tenants.setdefault(tensor.storage, []).append(tensor.name)
        for tensor in scope.allocations:
            if tensor.storage == tensor.name:
                size = tensor.shape[0] * tensor.shape[1] * tensor.dtype.size
                lines.append(
                    f"{path:<20} {tensor.name:<20} {size:>10} bytes  {' -> '.join(tenants[tensor.name])}"
                )
    return "\n".join([f"Buffers of {program.name}: scope, name, size, tenants", *lines]) + "\n"


def _scopes(body: tuple[Statement, ...], path: str) -> Iterator[tuple[str, Scope]]:
    for statement in body:
        if isinstance(statement, Scope):
            yield path, statement
            yield from _scopes(statement.body, path)
        elif isinstance(statement, Loop):
            yield from _scopes(statement.body, f"{path}/{statement.variable}")


def debug_script(program: Program) -> str:
    """debug/run.py: runs the folder again on the tensors of its data/ directory."""
    tensors = [
        f'    ("{tensor.name}", {tensor.shape}, "{tensor.dtype.runtime_name.lower()}", "{tensor.role.value}"),'
        for tensor in program.tensors
    ]
    return "\n".join(
        [
            f'"""Run this build of {program.name} again: python debug/run.py --help."""',
            "",
            "from pathlib import Path",
            "",
            "from minipto.replay import main",
            "",
            "TENSORS = [",
            *tensors,
            "]",
            f"SCALARS = {[scalar.name for scalar in program.scalars]}",
            "",
            'if __name__ == "__main__":',
            "    raise SystemExit(main(Path(__file__).resolve().parent.parent, TENSORS, SCALARS))",
            "",
        ]
    )
