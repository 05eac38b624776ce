"""A case made of a build directory and golden data, which needs no script: it calls the golden harness itself.

    python replay_case.py -p PLATFORM -d DEVICE --specs SPECS.json [--outputs DIR] [--rtol R --atol A]

SPECS.json lists the entry arguments in order: `{"kind": "tensor", "name", "dtype", "shape", "is_output", "has_input"}`
or `{"kind": "scalar", "name", "dtype", "value"}`. This file runs under `shim.py`, which adds the build directory and
the data to the call. With `--standalone`, the build directory is the one around this file, with its own data. Outputs
are saved to DIR/<name>.pt if the harness takes comparators. Nothing of this package is imported.
"""

from __future__ import annotations

import argparse
import importlib
import inspect
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any


def main() -> int:
    """Run the build directory on its data; return 0 if its outputs are right, or else 1."""
    here = Path(__file__).resolve().parent
    arguments = _parser(here).parse_args()
    folders: dict[str, str] = {}
    if arguments.standalone:
        folders = {"runtime_dir": str(here.parent), "golden_data": str(here.parent / "data")}
    tolerance = {name: value for name in ("rtol", "atol") if (value := getattr(arguments, name)) is not None}

    # This is the stack's module, at its current revision.
    golden: Any = importlib.import_module("golden")
    torch: Any = importlib.import_module("torch")
    entries = json.loads(arguments.specs.read_text(encoding="utf-8"))
    options: dict[str, Any] = {}
    if arguments.outputs is not None and "compare_fn" in inspect.signature(golden.run).parameters:
        arguments.outputs.mkdir()
        options["compare_fn"] = {
            entry["name"]: _saving_comparator(torch, arguments.outputs, entry["name"])
            for entry in entries
            if entry["kind"] == "tensor" and entry["is_output"]
        }
    result = golden.run(
        None,
        [_spec(golden, torch, entry) for entry in entries],
        runtime_cfg={"platform": arguments.platform, "device_id": arguments.device},
        **options,
        **tolerance,
        **folders,
    )
    if not result.passed:
        print(result.error)
        return 1
    return 0


def _parser(here: Path) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("-p", "--platform", required=True)
    parser.add_argument("-d", "--device", type=int, required=True)
    parser.add_argument("--specs", type=Path, default=here / "specs.json")
    parser.add_argument("--standalone", action="store_true", help="run the build that this file lies in")
    parser.add_argument("--outputs", type=Path)
    parser.add_argument("--rtol", type=float)
    parser.add_argument("--atol", type=float)
    return parser


def _spec(golden: Any, torch: Any, entry: dict[str, Any]) -> Any:
    """Return the harness's form of an entry argument."""
    dtype = getattr(torch, entry["dtype"])
    if entry["kind"] == "scalar":
        return golden.ScalarSpec(entry["name"], dtype, entry["value"])
    # The values come from the golden data. An initial value only says that the tensor is an input.
    initial = torch.zeros if entry["has_input"] else None
    return golden.TensorSpec(
        entry["name"], entry["shape"], dtype, init_value=initial, is_output=entry["is_output"]
    )


def _saving_comparator(torch: Any, folder: Path, name: str) -> Callable[..., tuple[bool, str]]:
    """Return a comparator for the harness that also saves the output and the tolerance."""

    def allclose(actual: Any, expected: Any, *, rtol: float, atol: float, **_rest: Any) -> tuple[bool, str]:
        torch.save(actual.clone(), folder / f"{name}.pt")
        (folder / "tolerance.json").write_text(json.dumps({"rtol": rtol, "atol": atol}))
        return bool(torch.allclose(actual, expected, rtol=rtol, atol=atol)), ""

    return allclose


if __name__ == "__main__":
    raise SystemExit(main())
