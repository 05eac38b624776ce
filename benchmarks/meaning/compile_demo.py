"""python compile_demo.py TREES CASE FOLDER: compile a case of the demo into FOLDER, its passes dumped.

TREES holds minipto, minilib and minirt. `case.pt` in FOLDER gets the inputs and the expected outputs, which depend on
the case alone. Nothing is run.
"""

from __future__ import annotations

import importlib
import sys
from pathlib import Path
from typing import Any


def main() -> None:
    trees, case, folder = Path(sys.argv[1]), sys.argv[2], Path(sys.argv[3])
    sys.path[:0] = [str(trees / name) for name in ("minipto", "minilib", "minilib/cases", "minirt")]
    torch = importlib.import_module("torch")
    module = importlib.import_module(case)
    data, runner = importlib.import_module("golden.data"), importlib.import_module("golden.runner")
    torch.manual_seed(0)
    specs = module.specs()
    program = getattr(module, case).trace([runner._parameter(spec) for spec in specs])
    importlib.import_module("minipto").compile(program, work_dir=folder, dump_passes=True)
    inputs = {spec.name: spec.create() for spec in specs}
    values: dict[str, Any] = {
        name: value.clone() if value.dim() else value.item() for name, value in inputs.items()
    }
    module.expected(values)
    expected = {name: values[name] for name in data.output_names(specs)}
    torch.save({"inputs": inputs, "expected": expected}, folder / "case.pt")


if __name__ == "__main__":
    main()
