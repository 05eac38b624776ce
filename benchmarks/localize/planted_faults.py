"""Accuracy on the demo stack: is the first divergent task the planted one, and its class right?

    python -m benchmarks.localize.planted_faults OUT [--seeds 20] [--first-seed 1000] [--share 0.2]
                                                 [--scenario NAME ...]

Every seed builds good and bad anew, on inputs drawn from it, and localizes with a budget of a share of all bytes. What
is right is read from the two builds by `truth.py`; of several causes that one fault of a compiler has, the one that is
named first counts. Beside it: the bytes of a full dump, and the answer of a walk through the dump in its order that
stops at the first difference. Rows are appended to OUT/planted_faults.jsonl as they come; those that stand there
already are not made again. OUT/results.md is the table of all rows.
"""

from __future__ import annotations

import argparse
import json
import shutil
import tempfile
import time
from pathlib import Path

from benchmarks.localize import any_kernel
from benchmarks.localize.table import Row, read_rows, write_table
from benchmarks.localize.truth import planted
from precision_bisect.demo.scenarios import Scenario
from precision_bisect.reduce.graph.tasks import align
from precision_bisect.reduce.localize.investigate import localize
from precision_bisect.reduce.replay.replay import RecordedBuild, differs
from precision_bisect.runner.compare.statistics import Tolerance
from tests.reduce.demo_builds import Trees, Twins
from tests.reduce.quick_runs import quick_runs
from tests.support.compiler import compile_once

SCENARIOS = (
    Scenario.ROUNDING,
    Scenario.ACCUMULATE,
    Scenario.REUSE,
    Scenario.TAIL,
    Scenario.DROPPED_DEP,
    Scenario.RUNTIME_BUMP,
)
"""Those with a numeric fault; each has its one place."""


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("out", type=Path)
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--first-seed", type=int, default=1000)
    parser.add_argument("--share", type=float, default=0.2)
    parser.add_argument("--scenario", choices=[*SCENARIOS, any_kernel.NAME], action="append")
    arguments = parser.parse_args()
    journal = arguments.out / "planted_faults.jsonl"
    arguments.out.mkdir(parents=True, exist_ok=True)
    done = {(row["scenario"], row["seed"]) for row in read_rows(journal)}
    with tempfile.TemporaryDirectory() as folder, quick_runs():
        compile_once(Path(folder) / "compiled")
        good = Trees.make(Path(folder) / "trees")
        bad: dict[Scenario, Trees] = {}
        for seed in range(arguments.first_seed, arguments.first_seed + arguments.seeds):
            for name in arguments.scenario or (*SCENARIOS, any_kernel.NAME):
                if (name, seed) in done:
                    continue
                root = Path(folder) / name
                if name == any_kernel.NAME:
                    twins = any_kernel.any_kernel(root / "twins", good, seed)
                else:
                    scenario = Scenario(name)
                    if scenario not in bad:
                        bad[scenario] = good.with_fault_of(scenario, Path(folder) / f"{scenario}-trees")
                    twins = Twins.make(root / "twins", scenario, good, bad[scenario], seed=seed)
                row = one(twins, name, seed, root, arguments.share)
                with journal.open("a") as stream:
                    stream.write(json.dumps(row) + "\n")
                shutil.rmtree(root)
                write_table(read_rows(journal), arguments.out / "results.md")


def one(twins: Twins, scenario: str, seed: int, root: Path, share: float) -> Row:
    """One localization, what it should have found, and what the plain walk finds."""
    everything, walked = walk(twins, root / "walk")
    begun = time.monotonic()
    found = localize(
        twins.request(root / "out", budget=max(int(everything * share), 40_000)),
        on_progress=lambda _text: None,
    )
    seconds = time.monotonic() - begun
    kernel, verdict = planted(
        twins.good,
        twins.bad,
        *(root / "walk" / side / "runs" for side in ("good", "bad")),
    )
    named_first = [entry for entry in found.first_divergent if entry.cause in (None, 1)]
    kernels = sorted({entry.kernel for entry in named_first})
    classes = sorted({entry.task_class for entry in named_first})
    edges = [edge.after_kernel for edge in found.missing_edges]
    return {
        "scenario": scenario,
        "seed": seed,
        "planted": [kernel, verdict],
        "kernels": kernels,
        "classes": classes,
        "edges": edges,
        "schedule": found.schedule,
        "race_confirmed": found.race is not None and found.race.confirmed,
        "right": kernels == [kernel] and (scenario != Scenario.DROPPED_DEP or edges == [kernel]),
        "class_right": classes == [verdict],
        "reasons": sorted({entry.reason for entry in named_first}),
        "tasks": found.tasks,
        "runs": found.runs,
        "bytes": found.bytes_dumped,
        "full_dump": everything,
        "walk": walked,
        "walk_right": walked == kernel,
        "seconds": round(seconds, 1),
    }


def walk(twins: Twins, folder: Path) -> tuple[int, str | None]:
    """Bytes of a full dump, and the kernel of the first record in its order that differs from the reference's."""
    data = twins.good / "data"
    builds = [
        RecordedBuild.open(build, data=data, toolchain=trees.toolchain(), folder=folder / name, timeout=300)
        for build, trees, name in (
            (twins.bad, twins.bad_trees, "bad"),
            (twins.good, twins.good_trees, "good"),
        )
    ]
    (failing, reference), (ours, theirs) = builds, [build.dump_everything() for build in builds]
    pairs = align(failing.tasks, reference.tasks).reference_of
    for number in range(len(ours)):
        record = ours.record(number)
        task = failing.tasks.tasks_by_id[record.task_id]
        if record.value is not None or task.ordinal not in pairs:
            continue
        counterpart = reference.tasks.tasks[pairs[task.ordinal]].task.task_id
        found = theirs.find(task_id=counterpart, arg_index=record.arg_index, stage=record.stage)
        if found and differs(ours.tensor(record), theirs.tensor(found[0]), Tolerance()):
            return failing.tasks.all_bytes, task.name
    return failing.tasks.all_bytes, None


if __name__ == "__main__":
    main()
