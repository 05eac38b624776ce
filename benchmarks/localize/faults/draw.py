"""Draws faults by a seed: a kind, a case of the demo, a place in it; anew until the case ends as the kind intends."""

from __future__ import annotations

import random
import re
import shutil
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from precision_bisect.demo.scenarios import DemoRepository
from tests.reduce.demo_builds import Trees, Twins

from .ends import CaseEnds
from .families import (
    accumulation,
    arguments,
    arithmetic,
    bounds,
    dependencies,
    harmless,
    memory,
    rare,
    several,
    submissions,
)
from .fault import Ending, Fault, Kind
from .sources import InapplicableError, Sources

FAMILIES: Mapping[str, Mapping[str, Kind]] = {
    "bounds": bounds.KINDS,
    "arithmetic": arithmetic.KINDS,
    "accumulation": accumulation.KINDS,
    "rare": rare.KINDS,
    "submissions": submissions.KINDS,
    "arguments": arguments.KINDS,
    "dependencies": dependencies.KINDS,
    "memory": memory.KINDS,
    "harmless": harmless.KINDS,
    "several": several.KINDS,
}
_MAX_PLACES = 30


@dataclass(frozen=True, kw_only=True)
class Drawn:
    """One fault, with its builds. `passed_over` counts the places before it, by how the case ended there."""

    family: str
    kind: str
    case: str
    fault: Fault
    good: Sources
    twins: Twins
    tolerance: tuple[str, str]
    """The case's own `rtol` and `atol`, as its script spells them."""
    passed_over: Mapping[str, int]

    @property
    def reduce_words(self) -> list[str]:
        """What `reduce` is asked: the two builds, the frozen data, the stack, and the case's own tolerance."""
        bad, good = self.twins.bad, self.twins.good
        return [
            *(str(bad), "--reference", str(good), "--golden-data", str(good / "data")),
            *("--stack", str(self.twins.bad_trees.stack_file)),
            *("--rtol", self.tolerance[0], "--atol", self.tolerance[1], "--quiet"),
        ]


@dataclass
class Generator:
    """Draws the fault of a number, the same whenever it is asked. Good builds are made once, below `folder`."""

    trees: Trees
    seed: int
    folder: Path
    _good: dict[str, Path] = field(default_factory=dict[str, Path])

    def kind(self, number: int) -> tuple[str, str]:
        """Family and kind: each has its turn once in a round, in an order of the round's own."""
        names = [(family, kind) for family, kinds in FAMILIES.items() for kind in kinds]
        turn, place = divmod(number, len(names))
        random.Random(f"{self.seed} {turn}").shuffle(names)
        return names[place]

    def draw(self, number: int) -> Drawn | None:
        """The fault; None where the kind found no place that ends as it intends."""
        family, name = self.kind(number)
        kind, rng = FAMILIES[family][name], random.Random(f"{self.seed} {number}")
        passed_over = Counter[str]()
        library = self.trees.folder / DemoRepository.LIBRARY
        cases = [str(case.relative_to(library)) for case in sorted((library / "cases").glob("*.py"))]
        for _ in range(_MAX_PLACES):
            case = rng.choice(cases)
            good = self._good_build(case)
            sources = Sources.read(good)
            try:
                fault = kind(sources, rng)
            except InapplicableError:
                passed_over["does not apply"] += 1
                continue
            folder = self.folder / f"fault-{number}"
            ending = self._ending(case, good, fault, folder)
            if ending is None:
                twins = Twins(good=good, bad=folder / "bad", good_trees=self.trees, bad_trees=self.trees)
                return Drawn(
                    family=family,
                    kind=name,
                    case=Path(case).stem,
                    fault=fault,
                    good=sources,
                    twins=twins,
                    tolerance=_tolerance((library / case).read_text()),
                    passed_over=passed_over,
                )
            passed_over[ending] += 1
            shutil.rmtree(folder)
        return None

    def _good_build(self, case: str) -> Path:
        if case not in self._good:
            folder = self.folder / "good" / Path(case).stem
            self._good[case] = self.trees.build(case, folder, "--save-data", seed=self.seed)
        return self._good[case]

    def _ending(self, case: str, good: Path, fault: Fault, folder: Path) -> str | None:
        """Makes the bad build; what is not as intended, None where all is."""
        ends = CaseEnds(self.trees, case, good / "data")
        ending = ends.of(fault.sources.write(good, folder / "bad"), by_chance=fault.by_chance)
        if ending is not fault.ending:
            return f"ends with {ending.value}"
        for place, cause in enumerate(fault.causes):
            if cause.alone is not None:
                alone = ends.of(cause.alone.write(good, folder / f"alone-{place}"), by_chance=fault.by_chance)
                if alone is not Ending.MISMATCH:
                    return f"one alone ends with {alone.value}"
        return None


def _tolerance(script: str) -> tuple[str, str]:
    rtol, atol = (re.findall(rf"\b{name}=([-+.e\d]+)", script)[0] for name in ("rtol", "atol"))
    return rtol, atol
