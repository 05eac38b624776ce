"""Accuracy on the demo stack: is the first divergent task the planted one, and its class right?

    python -m benchmarks.localize.planted_faults [--seeds 20] [--share 0.2] [SCENARIO ...]

Every seed builds good and bad anew, on new inputs, and localizes with a budget of a share of all bytes. What is right
is read from the two builds by `truth.py`. Beside it: the bytes of a full dump, and the answer of a walk through the
dump in its order that stops at the first difference.
"""

from __future__ import annotations

import argparse
import tempfile
from dataclasses import replace
from pathlib import Path

from precision_bisect.demo.scenarios import Scenario
from precision_bisect.reduce.alignment import align
from precision_bisect.reduce.comparison import differs
from precision_bisect.reduce.job import localize
from precision_bisect.reduce.side import Side
from precision_bisect.runner.tensors.statistics import Tolerance
from tests.reduce.demo_builds import Trees, Twins

from .truth import planted

SCENARIOS = (
    Scenario.ROUNDING,
    Scenario.ACCUMULATE,
    Scenario.REUSE,
    Scenario.TAIL,
    Scenario.DROPPED_DEP,
    Scenario.RUNTIME_BUMP,
)
"""Those with a numeric fault."""


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--share", type=float, default=0.2)
    parser.add_argument("scenarios", nargs="*", type=Scenario, default=list(SCENARIOS))
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        good = Trees.make(Path(folder) / "trees")
        for scenario in arguments.scenarios:
            right = walked = 0
            for seed in range(arguments.seeds):
                root = Path(folder) / scenario / str(seed)
                line, found, walk = one(
                    Twins.make(root / "twins", scenario, good), scenario, root, arguments.share
                )
                right += found
                walked += walk
                print(f"{scenario} {seed}: {line}", flush=True)
            print(
                f"{scenario}: right {right}/{arguments.seeds}, walk in dump order {walked}/{arguments.seeds}"
            )


def one(twins: Twins, scenario: Scenario, root: Path, share: float) -> tuple[str, bool, bool]:
    """What to print, whether the answer is right, and whether the plain walk's is."""
    everything, walked = walk(twins, root / "walk")
    request = twins.request(root / "out", budget=max(int(everything * share), 40_000))
    found = localize(replace(request), on_progress=lambda _text: None)
    graphs = (
        root / "out" / "work" / side / "runs/001/dfx_outputs/deps.json" for side in ("reference", "failing")
    )
    kernel, verdict = planted(twins.good, twins.bad, *graphs)
    kernels = sorted({entry.kernel for entry in found.first_divergent})
    classes = sorted({entry.task_class for entry in found.first_divergent})
    right = kernels == [kernel] and classes == [verdict]
    if scenario is Scenario.DROPPED_DEP:
        right = right and [edge.after_kernel for edge in found.missing_edges] == [kernel]
    line = (
        f"{kernels} {classes}, {found.runs} runs, {found.bytes_dumped} of {everything} bytes; walk: {walked}"
    )
    return line, right, walked == kernel


def walk(twins: Twins, folder: Path) -> tuple[int, str | None]:
    """Bytes of a full dump, and the kernel of the first record in its order that differs from the reference's."""
    request = twins.request(folder)
    data = twins.good / "data"
    sides = [
        Side.open(build, data=data, toolchain=toolchain, folder=folder / name, timeout=300)
        for build, toolchain, name in (
            (twins.bad, request.failing_toolchain, "bad"),
            (twins.good, request.reference_toolchain, "good"),
        )
    ]
    (failing, reference), (ours, theirs) = sides, [side.dump_everything() for side in sides]
    pairs = align(failing.tasks, reference.tasks).reference_of
    for number in range(len(ours)):
        record = ours.record(number)
        task = failing.tasks.by_id[record.task_id]
        if record.value is not None or task.ordinal not in pairs:
            continue
        counterpart = reference.tasks.tasks[pairs[task.ordinal]].task.task_id
        found = theirs.find(task_id=counterpart, arg_index=record.arg_index, stage=record.stage)
        if found and differs(ours.tensor(record), theirs.tensor(found[0]), Tolerance()):
            return failing.tasks.all_bytes, task.name
    return failing.tasks.all_bytes, None


if __name__ == "__main__":
    main()
