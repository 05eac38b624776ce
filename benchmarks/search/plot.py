"""The rows as a picture."""

from collections.abc import Sequence
from pathlib import Path

from matplotlib import use
from matplotlib.figure import Figure

from benchmarks.search.table import Row

use("svg")

_COLORS = {
    "ours": "#0072b2",
    "git x1": "#d55e00",
    "git x5": "#e69f00",
    "FACF": "#009e73",
    "git_bayesect": "#cc79a7",
}
_MOST = 4.0


def plot(rows: Sequence[Row], path: Path) -> None:
    """Accuracy over probes in units of the bound, a dot a cell: the upper left is best. And makespan by workers."""
    figure = Figure(figsize=(11, 4.2), layout="constrained")
    left, right = figure.subplots(1, 2, width_ratios=[2, 1])
    for method, color in _COLORS.items():
        cells = [row for row in rows if row.method == method and row.workers == 1 and not row.innocent]
        left.scatter(
            [min(row.ratio, _MOST) for row in cells],
            [row.accuracy for row in cells],
            s=[12 + 8 * (row.n >= 128) + 12 * (row.n >= 1024) for row in cells],
            color=color,
            alpha=0.6,
            label=method,
        )
    left.axvline(1.0, color="#888", linewidth=0.8)
    left.set_xlabel(
        f"mean probes / (log2(n) / C), those above {_MOST:g} at {_MOST:g}; ends and confirming apart"
    )
    left.set_ylabel("exact culprit, share")
    left.legend()
    for good, bad in ((0, 1), (0.1, 0.9)):
        cells = [row for row in rows if row.part == "workers" and (row.good, row.bad) == (good, bad)]
        right.errorbar(
            [row.workers for row in cells],
            [row.seconds / 3600 for row in cells],
            [row.seconds_error / 3600 for row in cells],
            marker="o",
            label=f"{good:g}/{bad:g}",
        )
    right.set_xlabel("workers (n = 1024)")
    right.set_ylabel("makespan, hours")
    right.set_ylim(bottom=0)
    right.legend()
    figure.savefig(path, metadata={"Date": None})
