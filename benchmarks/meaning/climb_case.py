"""python -m benchmarks.meaning.climb_case BUILD: runs the dumps of one build, and prints the result as JSON."""

from __future__ import annotations

import json
import resource
import sys
import time
from pathlib import Path

import torch

from precision_bisect.meaning.ir import CAPACITIES_910B
from precision_bisect.meaning.ladder import Ladder, PassCase, State, exact_outputs, read_frontend, run_dumps


def summary(build: Path, ladder: Ladder, seconds: float, *, has_expected: bool) -> dict[str, object]:
    opinions = json.loads((build / "torch_codegen.json").read_text())
    counts = {state.value: sum(rung.state is state for rung in ladder.rungs) for state in State}
    bad = ladder.first_bad
    return {
        "passes": len(ladder.rungs),
        **counts,
        "torch_codegen": {state.value: sum(each[1] == state.value for each in opinions) for state in State},
        "torch_codegen_seconds": round(sum(each[3] for each in opinions), 1),
        "seconds": round(seconds, 1),
        "reference": "case" if has_expected else "frontend",
        "peak_mib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10,
        "starts_wrong": ladder.starts_wrong,
        "first_bad": bad.dump.pass_name if bad is not None else None,
        "findings": [finding.describe() for finding in bad.faults][:3] if bad is not None else [],
        "problems": sorted({rung.problem.problem for rung in ladder.rungs if rung.problem is not None})[:3],
    }


def main() -> None:
    torch.set_num_threads(1)
    build = Path(sys.argv[1])
    saved = torch.load(build / "case.pt", weights_only=True)
    case = PassCase(
        inputs=saved["inputs"],
        expected=saved["expected"] or exact_outputs(read_frontend(build / "passes_dump"), saved["inputs"]),
        rtol=saved["rtol"],
        atol=saved["atol"],
        capacities=CAPACITIES_910B,
    )
    began = time.perf_counter()
    ladder = run_dumps(build / "passes_dump", case)
    print(
        json.dumps(summary(build, ladder, time.perf_counter() - began, has_expected=bool(saved["expected"])))
    )


if __name__ == "__main__":
    main()
