"""All kinds of edits, for the builds that are reduced."""

from __future__ import annotations

from collections.abc import Sequence

from ..minimize.graph import DependencyGraph
from ..program.pair import BuildPair
from .collapse_kernels import CollapseKernels
from .drop_statements import DropStatements
from .drop_tasks import DropTasks
from .fewer_blocks import FewerBlocks
from .kind import EditKind
from .plain_data import PlainData
from .smaller_shapes import SmallerShapes
from .suspects import KeepSuspects, suspects


def kinds_of(pair: BuildPair, first_wrong: int | None, differing: Sequence[str]) -> list[EditKind]:
    """The kinds of edits in the order of their turns. What other kinds than dropping tasks leave of a program takes a
    reference to tell what is expected.

    `first_wrong` is the first task that went wrong, where that is known; `differing` are the kernels whose sources
    differ in the reference.
    """
    if not pair.has_twin:
        above = DependencyGraph(tuple(tuple(sorted(tasks)) for tasks in pair.failing.tasks.predecessors))
        return [DropTasks(above, targets=frozenset(pair.diverged) or None)]
    return [
        KeepSuspects(tuple(suspects(pair, first_wrong, differing))),
        DropTasks(DependencyGraph.free(len(pair.order.tasks))),
        CollapseKernels(tuple(differing), pair.order.kernels),
        FewerBlocks(pair.blocks),
        SmallerShapes(pair.order.extents),
        PlainData(pair.varied_inputs),
        DropStatements(pair.kernel_texts),
    ]
