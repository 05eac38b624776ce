"""A case made of a build directory and frozen data: run under the stack's own interpreter and golden harness.

    python replay_case.py -p PLATFORM -d DEVICE --specs SPECS.json

SPECS.json lists the entry arguments in order: `{"name", "kind": "tensor", "dtype", "shape", "is_output"}` or
`{"name", "kind": "scalar", "dtype", "value"}`. The build directory, the data and what to dump are put into the call by
`runner/shim.py`, under which this runs. Imports nothing of this package.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("-p", "--platform", required=True)
    parser.add_argument("-d", "--device", type=int, required=True)
    parser.add_argument("--specs", type=Path, required=True)
    parser.add_argument("--rtol", type=float, default=1e-3)
    parser.add_argument("--atol", type=float, default=1e-3)
    arguments = parser.parse_args()

    import golden  # pyright: ignore[reportMissingImports]
    import torch

    def spec(entry: dict[str, Any]) -> Any:
        dtype = getattr(torch, entry["dtype"])
        if entry["kind"] == "scalar":
            return golden.ScalarSpec(entry["name"], dtype, entry["value"])  # pyright: ignore
        # An in-out tensor has its first value in the data; the initial value here only says that it has one.
        initial = torch.zeros if entry["has_input"] else None
        return golden.TensorSpec(  # pyright: ignore
            entry["name"], entry["shape"], dtype, init_value=initial, is_output=entry["is_output"]
        )

    result = golden.run(  # pyright: ignore
        None,
        [spec(entry) for entry in json.loads(arguments.specs.read_text(encoding="utf-8"))],
        runtime_cfg={"platform": arguments.platform, "device_id": arguments.device},
        rtol=arguments.rtol,
        atol=arguments.atol,
    )
    if not result.passed:  # pyright: ignore
        print(result.error)  # pyright: ignore
        return 1
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
