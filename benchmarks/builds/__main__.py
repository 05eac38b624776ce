"""python -m benchmarks.builds OUT [--seeds N], from the repository's root: what bisections take, in simulated time,
where builds cost what they compile again."""

import argparse
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from random import Random
from statistics import fmean

from benchmarks.builds.world import BuildingAhead, BuildingSlots, BuiltBisection, Costs, built_line
from precision_bisect.bisect.drive.loop import Loop
from precision_bisect.store.vocabulary import Judgement
from tests.bisect.engine.simulated import SimulatedTask

_RUNTIME = (
    *(
        0,
        40,
        62,
        81,
        61,
        1,
        10,
        1,
        4,
        0,
        7,
        61,
        3,
        62,
        6,
        28,
        2,
        24,
        30,
        15,
        63,
        63,
        76,
        29,
        37,
        116,
        95,
        0,
        0,
        62,
    ),
    *(35, 2, 0, 0, 1, 0, 30, 0, 0, 0, 32, 97, 32, 0, 0, 15, 6, 5, 11, 114, 1, 3, 61, 31, 89, 0, 3, 88, 61, 6),
)
"""How many of the runtime's 266 objects its last 60 commits made to be compiled again."""
_COMPILER = (
    *(1, 0, 1, 1, 133, 2, 0, 8, 3, 5, 0, 4, 232, 1, 47, 2, 1, 0, 3, 0, 133, 244, 3, 57, 4, 12, 0, 13, 10, 1),
    *(
        198,
        2,
        2,
        0,
        8,
        70,
        235,
        2,
        1,
        1,
        219,
        3,
        229,
        14,
        1,
        0,
        1,
        0,
        224,
        1,
        61,
        3,
        102,
        1,
        0,
        7,
        133,
        39,
        6,
        3,
    ),
)
"""The same of the compiler, which has 414."""

WORLDS = {
    "600 s, whatever changes": Costs(
        objects=414, of_commits=_COMPILER, fixed=600, each=0, again=50, run=50, keeps_all=False
    ),
    "runtime, objects kept by content": Costs(
        objects=266, of_commits=_RUNTIME, fixed=15, each=0.75, again=2, run=10, keeps_all=True
    ),
    "compiler, objects kept by content": Costs(
        objects=414, of_commits=_COMPILER, fixed=15, each=2.7, again=2, run=15, keeps_all=True
    ),
    "compiler, from what stands in the slot": Costs(
        objects=414, of_commits=_COMPILER, fixed=15, each=2.7, again=2, run=15, keeps_all=False
    ),
}
"""Fixed times, of objects and of runs are near to those measured (`benchmarks/natural/measurements.md`)."""


@dataclass(frozen=True, kw_only=True)
class Taken:
    """What one search took."""

    seconds: float
    runs: int
    right: bool


def search(costs: Costs, *, commits: int, workers: int, seed: int, told: bool, ahead: bool = False) -> Taken:
    """One range. `told`: the tool knows what is compiled again. `ahead`: builds are begun while cases run."""
    rng = Random(f"{seed} {commits}")
    truth = built_line(costs, commits, rng)
    culprit = rng.randrange(commits)
    slots = BuildingSlots(jobs=workers, costs=costs, truth=truth, noise=Random(f"{seed} noise"))

    def outcome(content: str) -> Judgement:
        return Judgement.BAD if content != "good" and int(content) >= culprit else Judgement.GOOD

    bisection = BuiltBisection(
        loaded=truth if told else replace(truth, objects={}), outcome=outcome, machine=slots, slots=slots
    )
    task = SimulatedTask(simulated=bisection, timings=None)
    Loop(slots, background_builder=BuildingAhead(slots) if ahead else None).run([task])
    return Taken(
        seconds=slots.clock,
        runs=slots.runs,
        right=task.culprit == str(culprit),
    )


def _table(seeds: int, *, before: Mapping[str, bool], after: Mapping[str, bool], kept: bool) -> str:
    """All worlds, or those whose objects are kept by content, searched in two ways."""
    head = (
        "| builds | commits | workers | minutes before | minutes after | | runs before | runs after | "
        f"a tenth slower, of {seeds} | wrong |\n| --- {'| ---: ' * 9}|\n"
    )
    rows = [
        _row(
            f"{name} | {commits} | {workers}",
            *(
                [search(costs, commits=commits, workers=workers, seed=seed, **way) for seed in range(seeds)]
                for way in (before, after)
            ),
        )
        for name, costs in WORLDS.items()
        if costs.keeps_all or not kept
        for commits in (30, 120)
        for workers in (1, 4)
    ]
    return head + "\n".join(rows) + "\n"


def _row(which: str, before: Sequence[Taken], after: Sequence[Taken]) -> str:
    def minutes(taken: Sequence[Taken]) -> float:
        return fmean(each.seconds for each in taken) / 60

    wrong = sum(not each.right for each in after)
    worse = sum(new.seconds > 1.1 * old.seconds for old, new in zip(before, after, strict=True))
    return (
        f"| {which} | {minutes(before):.1f} | {minutes(after):.1f} | "
        f"{minutes(after) / minutes(before) - 1:+.0%} | {fmean(each.runs for each in before):.1f} | "
        f"{fmean(each.runs for each in after):.1f} | {worse} | {wrong} |"
    )


def main() -> None:
    """Search all worlds, and write the tables."""
    parser = argparse.ArgumentParser()
    parser.add_argument("out", type=Path)
    parser.add_argument("--seeds", type=int, default=20)
    options = parser.parse_args()
    alike, told, ahead = {"told": False}, {"told": True}, {"told": True, "ahead": True}
    options.out.mkdir(parents=True, exist_ok=True)
    forecast = _table(options.seeds, before=alike, after=told, kept=False)
    (options.out / "forecast.md").write_text(forecast)
    (options.out / "ahead.md").write_text(_table(options.seeds, before=told, after=ahead, kept=True))


if __name__ == "__main__":
    main()
