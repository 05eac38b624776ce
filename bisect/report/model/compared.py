"""The two probes whose builds a localization compares: one of the culprit, one of a commit that passes."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from ....store.tables.bisections import ProbeRow
from ....store.vocabulary import Verdict
from ...plan.request import BisectRequest
from .model import Side
from .rows import Rows
from .sides import both_sides

_TELLING = (Verdict.MISMATCH, Verdict.STALL)
"""Verdicts that leave something to compare."""


class NothingToCompareError(Exception):
    """There are no two builds whose runs could be compared: why not."""


@dataclass(frozen=True, kw_only=True)
class ComparedSide:
    """A probe of one side; `role` names it on the screen and among folders."""

    role: str
    side: Side
    probe: ProbeRow


@dataclass(frozen=True, kw_only=True)
class ComparedProbe(ComparedSide):
    """A probe with the build directory that its run left."""

    build: Path


@dataclass(frozen=True, kw_only=True)
class ComparedPair:
    """Both probes; `golden` names the frozen data that both ran on."""

    culprit: ComparedProbe
    parent: ComparedProbe
    golden: str


def compared_pair(rows: Rows) -> ComparedPair:
    """The culprit's probe and, beside it, its parent's.

    Raises:
        NothingToCompareError: the case has no tensors, one of the two was not run, or what its run left is gone.
    """
    request = rows.request
    if request.bad_when is None or not request.stack.case.harness:
        raise NothingToCompareError("the case is a command of its own, without tensors to compare")
    culprit, parent = compared_sides(rows)
    golden = rows.bisection.golden
    if golden is None:
        raise NothingToCompareError("the runs had no frozen data")
    return ComparedPair(culprit=_with_build(culprit), parent=_with_build(parent), golden=golden)


def is_scene_test(request: BisectRequest) -> bool:
    """Whether the case is a scene test's script, which leaves no build directory and is compared by itself."""
    case = request.stack.case
    return case.scene_tests and not case.harness and request.case is not None and request.bad_when is not None


def compared_sides(rows: Rows) -> tuple[ComparedSide, ComparedSide]:
    """A run of the culprit, and one of its parent.

    Raises:
        NothingToCompareError: one of the two was not run, or the culprit's leaves nothing to compare.
    """
    sides = both_sides(rows)
    if sides.bad is None or sides.good is None:
        raise NothingToCompareError("there is no run of the culprit beside one of a commit that passes")
    if sides.bad.verdict not in _TELLING:
        raise NothingToCompareError(f"a {sides.bad.verdict} leaves no values to compare")
    return _compared(rows, sides.bad, "culprit"), _compared(rows, sides.good, "parent")


def _compared(rows: Rows, side: Side, role: str) -> ComparedSide:
    probe = next(probe for probe in rows.probes if probe.ordinal == side.shown)
    return ComparedSide(role=role, side=side, probe=probe)


def _with_build(compared: ComparedSide) -> ComparedProbe:
    probe = compared.probe
    paths: Sequence[Path] = [Path(one.path) for one in probe.artifacts if one.kind == "build_directory"]
    build = next((path for path in paths if path.is_dir()), None)
    if build is None:
        raise NothingToCompareError(
            "a build directory of the culprit's or its parent's runs is not there any more"
        )
    return ComparedProbe(role=compared.role, side=compared.side, probe=probe, build=build)
