"""Commits that cannot be tested because of one error, among which the culprit lies."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from .....runner.verdict.compiler_errors import CompilerError
from ....search.evidence.blamed_file import BlamedFile
from ....search.graph.graph import Mask
from ...history import AskApplies
from ...known import Known
from ...range_search import Blame, RangeSearch
from .mending import advice_of, commit_behind, mending_of
from .testable_behind import mending_by_runs, told_by_runs

_SHORT = 12


def trial_of_mending(search: RangeSearch, known: Known, suspects: Sequence[int]) -> tuple[AskApplies, ...]:
    """What has to be asked before `wall_between` can say how the suspects are made testable."""
    wall = _wall(search, known, suspects)
    if wall is None:
        mending = mending_by_runs(search, known, suspects)
    else:
        mending = mending_of(search.loaded, wall.fails, wall.inside)
    return () if mending is None else (mending.trial,)


def wall_between(search: RangeSearch, known: Known, suspects: Sequence[int]) -> str:
    """What most of the suspects cannot be tested for, what mends it, and how to test them nevertheless; where no error
    tells, the first commit behind them that can be tested, if runs show which that is. Empty where nothing is known."""
    wall = _wall(search, known, suspects)
    if wall is None:
        return told_by_runs(search, known, suspects)
    said = (
        f": {len(wall.inside)} of them hold what the {wall.tried} that were tried do not compile for "
        f"({_told(wall.blame.error)})"
    )
    mending = mending_of(search.loaded, wall.fails, wall.inside)
    if mending is not None:
        advice = advice_of(mending, wall.blame.file.path, known.answer(mending.trial))
        return f"{said}, which {mending.commit.sha[:_SHORT]} mends{advice}"
    behind = commit_behind(search.loaded, wall.fails, wall.inside)
    return said if behind is None else f"{said}, which {behind.sha[:_SHORT]} mends"


@dataclass(frozen=True)
class _Wall:
    """Suspects that one error keeps from being tested: which (`inside`), among all candidates that it does (shape [n]),
    and how many contents were tried."""

    blame: Blame
    fails: Mask
    inside: tuple[int, ...]
    tried: int


def _wall(search: RangeSearch, known: Known, suspects: Sequence[int]) -> _Wall | None:
    contents = {search.loaded.candidate_contents[node] for node in suspects}
    walls = [
        (_alike(blame.file, search.evidence.nodes_of(blame.content)[0]), blame)
        for blame in search.blames(known)
        if blame.content in contents
    ]
    if not walls:
        return None
    fails, most = max(walls, key=lambda each: int(each[0][[*suspects]].sum()))
    tried = {blame.content for alike, blame in walls if np.array_equal(alike, fails)}
    return _Wall(most, fails, tuple(node for node in suspects if fails[node]), len(tried))


def _alike(file: BlamedFile, node: int) -> Mask:
    """The candidates that fail as one of them does. Shape [n]."""
    alike = file.versions == file.versions[node] if file.fails is None else file.fails
    return alike[:-1]


def _told(error: CompilerError) -> str:
    return f"{error.path}:{error.line}: {error.message}"
