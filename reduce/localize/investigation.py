"""Looks into a failing build that ends: where it first diverges, where that comes from, and what lies around it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

from ...runner.compare.statistics.statistics import Tolerance
from ..graph.races import missing_edges
from ..replay.recorded_build import RecordedBuild
from .attribution.attribution import Attributor
from .downstream import attribute_downstream
from .orders import OrderTrials
from .references.reference import ExpectedValues, OnProgress
from .report.findings import Findings, Spent
from .request import LocalizationRequest
from .rounding import AttributedDivergences, past_rounding
from .search.localizer import Localizer


@dataclass(frozen=True, kw_only=True)
class Investigation:
    """A failing build and what its tasks should leave; tasks are run alone below `folder`."""

    request: LocalizationRequest
    failing: RecordedBuild
    expected: ExpectedValues
    folder: Path
    on_progress: OnProgress

    def run(self) -> Findings:
        """Search for the first divergent tasks, attribute their errors, and look beyond, below and at the order.

        Raises:
            UserError: the budget holds no task, or a run fails.
            BuildOutputError: what a run recorded cannot be read.
        """
        edges = missing_edges(self.failing.tasks)
        suspected = any(
            self.expected.orders(edge.before.ordinal, edge.after.ordinal) is not False for edge in edges
        )
        orders = self._order_trials()
        schedule = orders.provoke() if orders is not None and suspected else None
        localizer = self._localizer(schedule)
        found = self._past_rounding(self._first(localizer), localizer)
        spent = Spent(
            runs=self.failing.replayer.runs,
            reference_runs=self.expected.runs,
            bytes_dumped=self.failing.replayer.dumped_bytes,
        )
        below = self._attributor(self.request.tolerance, "downstream")
        downstream = attribute_downstream(found.first, localizer, below) if self.expected.complete else ()
        looks_like_a_race = suspected or found.points_to_a_race
        return Findings(
            request=self.request,
            failing=self.failing,
            expected=self.expected,
            schedule=schedule,
            edges=edges,
            found=found,
            spent=spent,
            downstream=downstream,
            race=orders.look_for_race() if orders is not None and looks_like_a_race else None,
        )

    def _order_trials(self) -> OrderTrials | None:
        """None where it is not told what a run puts out, or should."""
        if self.failing.outputs is None or self.expected.outputs is None:
            return None
        return OrderTrials(
            failing=self.failing,
            expected=self.expected.outputs,
            tolerance=self.request.tolerance,
            on_progress=self.on_progress,
        )

    def _localizer(self, schedule: str | None) -> Localizer:
        """A search in runs under `schedule`; None: as the toolchain has it."""
        return Localizer(
            failing=replace(self.failing, schedule=schedule),
            expected=self.expected,
            tolerance=self.request.tolerance,
            budget=self.request.budget,
            attempts=self.request.attempts,
            on_progress=self.on_progress,
        )

    def _attributor(self, tolerance: Tolerance, place: str = "") -> Attributor:
        return self.expected.attributor(tolerance, folder=self.folder / place, on_progress=self.on_progress)

    def _first(self, localizer: Localizer) -> AttributedDivergences:
        """The first divergent tasks, and where their errors come from."""
        first = localizer.localize()
        attributions = self._attributor(self.request.tolerance).attribute_all(first.divergent)
        return AttributedDivergences(first=first, attributions=attributions)

    def _past_rounding(self, found: AttributedDivergences, localizer: Localizer) -> AttributedDivergences:
        """What lies beyond first divergences that are only rounding, where any difference counted."""
        harness = self.request.harness or self.failing.tolerance
        if not self.expected.complete or harness is None:
            return found
        return past_rounding(found, localizer, harness, self._attributor(harness, "beyond-rounding"))
