"""What perturbations save, and whether one that shows another fault misleads:
python -m benchmarks.search.studies.perturbed.

Lines whose failure comes and goes, each searched without perturbations and with two: one without effect, and one that
makes the failure certain, or has no effect either, or shows another fault of another commit in its place.
"""

import argparse
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from random import Random
from statistics import mean

from benchmarks.outsider.drive import CONFIDENCE, Ended, Slots, Watched, commit_number, drive
from benchmarks.outsider.history import line
from benchmarks.outsider.world import Bench, Shown, World, by_rates
from precision_bisect.bisect.engine.runs import BisectionQuestion, FinishedProbe, WantedProbe
from precision_bisect.bisect.history.questions import OfferedPerturbation
from precision_bisect.bisect.history.range import Range
from precision_bisect.runner.case.case import PERTURBATION_KEY
from precision_bisect.store.vocabulary import Judgement
from tests.bisect.engine.simulated import UNTIMED, simulated_probe, untimed

MAX_RUNS = 1000
SIZES = (16, 128, 1024)
RATES = (0.5, 0.2)
_OFFERED = tuple(
    OfferedPerturbation(name=name, key=name, description=name) for name in ("without effect", "with effect")
)
Fails = Callable[[int], float]
"""The rate at which a commit fails under the perturbation with an effect."""


@dataclass(eq=False, kw_only=True)
class PerturbedSearch(Watched):
    """A search of a world, in which one perturbation has no effect and the other one makes commits fail otherwise."""

    fails: Fails
    chance: Random

    def finished(self, number: int, wanted: WantedProbe) -> FinishedProbe:
        """What a run shows, under a perturbation or without one."""
        target = wanted.target
        commit = commit_number(target.commit)
        if target.held.get(PERTURBATION_KEY) == "with effect":
            failed = self.chance.random() < self.fails(commit)
        else:
            failed = self.bench.run(commit) is Shown.FAIL
        judgement = Judgement.BAD if failed else Judgement.GOOD
        return simulated_probe(number, target.content, wanted.phase, judgement, times=UNTIMED)


def effects(culprit: int, size: int, rate: float, rng: Random) -> dict[str, Fails | None]:
    """What the second perturbation does, by name; None where none is offered."""
    older, younger = rng.randrange(culprit), rng.randrange(culprit + 1, size)
    return {
        "none offered": None,
        "the failure becomes certain": lambda commit: float(commit >= culprit),
        "no effect": lambda commit: rate * (commit >= culprit),
        "an older fault shows": lambda commit: float(commit >= older),
        "a younger fault shows, the one asked for is hidden": lambda commit: float(commit >= younger),
    }


def search(size: int, rate: float, seed: int) -> Iterator[tuple[str, Ended]]:
    """One line, once for each effect."""
    rng = Random(f"{size} {rate} {seed}")
    culprit, history = rng.randrange(1, size - 1), line(size)
    bad = history.below(culprit)
    world = World(history=history, shows=by_rates(0.0, rate, bad), bad=bad, answers=frozenset({culprit}))
    for name, fails in effects(culprit, size, rate, rng).items():
        slots = Slots(jobs=1, chance=Random(f"{size} {rate} {seed} order"))
        searched = PerturbedSearch.of(
            Bench(world, Random(f"{size} {rate} {seed} runs")),
            slots,
            times=untimed,
            fails=fails or (lambda commit: 0.0),
            chance=Random(f"{size} {rate} {seed} {name}"),
            question=None if fails is None else _question(size),
        )
        yield name, drive(searched, max_runs=MAX_RUNS)


def _question(size: int) -> BisectionQuestion:
    return BisectionQuestion(
        range=Range(repository="line", old="good", new=str(size - 1), held={}),
        confidence=CONFIDENCE,
        repositories=frozenset({"line"}),
        perturbations=_OFFERED,
    )


def main() -> None:
    """Print a table: for each size and rate, and each effect, the runs and how the searches ended."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.search.studies.perturbed", description=__doc__
    )
    parser.add_argument("--sizes", type=int, nargs="*", default=SIZES, help="commits of the lines")
    parser.add_argument("--seeds", type=int, default=20, help="lines of each kind (default 20)")
    given = parser.parse_args()
    seeds = given.seeds
    print("| commits | P(fail, bad) | second perturbation | lines | runs | endings |")
    print("| --- | --- | --- | --- | --- | --- |")
    for size in given.sizes:
        for rate in RATES:
            ended: dict[str, list[Ended]] = {}
            for seed in range(seeds):
                for name, each in search(size, rate, seed):
                    ended.setdefault(name, []).append(each)
            for name, all_of_it in ended.items():
                endings = Counter(each.ending.value for each in all_of_it)
                told = ", ".join(f"{count} {ending}" for ending, count in endings.most_common())
                runs = mean(each.runs for each in all_of_it)
                print(f"| {size:,} | {rate} | {name} | {seeds} | {runs:.1f} | {told} |", flush=True)


if __name__ == "__main__":
    main()
