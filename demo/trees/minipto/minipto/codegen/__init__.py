"""Code generation: a placed program as the files of a build directory."""

from __future__ import annotations

from ..ir import Program, Task, leaves
from .build_files import debug_script, kernel_config, memory_report
from .kernels import kernel_source
from .listing import listing
from .orchestration import orchestration_source


def generate(program: Program) -> dict[str, str]:
    """Relative path -> text. The same program gives the same bytes on every machine."""
    tasks = [leaf for leaf in leaves(program.body) if isinstance(leaf, Task)]
    function_ids = {task.stage.name: position for position, task in enumerate(tasks)}
    files = {
        "kernel_config.py": kernel_config(program, tasks),
        f"orchestration/{program.name}.cpp": orchestration_source(program, function_ids),
        "report/memory_after_ReuseMemory.txt": memory_report(program),
        "debug/run.py": debug_script(program),
    }
    for task in tasks:
        source = kernel_source(task)
        files[f"kernels/{task.stage.core.value}/{task.stage.name}.cpp"] = source
        files[f"ptoas/{task.stage.name}.pto"] = listing(task)
        files[f"ptoas/{task.stage.name}.cpp"] = source
    return files
