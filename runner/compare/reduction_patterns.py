"""Detectors of wrong sums, and of NaN and Inf.

- `detect_lower_precision` and `detect_other_order` find the right value, except for what was lost while adding up.
- `detect_lost_tail` finds sums that end too early: a product of matrices, or a sum of rows, without its last terms.
- `detect_spread` finds NaN or Inf that came from one place and filled a row, a column, a block, or all that follows.
- `detect_non_finite_at_values` finds NaN or Inf exactly where the result, or an input, has values that few elements
  have.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator

import numpy as np

from ..tensor import TensorView, run_values
from .elements import Array
from .finding import (
    Pattern,
    PatternMatch,
    Scene,
    confidence,
    log_ways,
    place_confidence,
    sample_places,
    share,
)
from .numeric_patterns import FLOAT_GRIDS, SPACING, Mode, grid_step, is_on_grid, round_to_grid
from .statistics import matrix_shape

_FEWEST = 8
"""A pattern of rounding needs this many wrong elements. Fewer may look like anything by chance."""
_EVEN_ODDS = 0.5
"""Another order is reported with this confidence at best, because any rounding may make such errors."""
_MOST_STEPS = 64
"""A long sum may be off by this many steps of the shorter type."""
_MOST_UNITS = 8
"""The order of a sum may change it by this many units in the last place."""


def detect_lower_precision(scene: Scene) -> Iterator[PatternMatch]:
    """Find wrong elements on the grid of a type, on which expected is not, a few of its steps away."""
    actual, expected = scene.finite_wrong
    if actual.size < _FEWEST:
        return
    at = sample_places(actual.size)
    actual, expected = actual[at], expected[at]
    for grid in FLOAT_GRIDS:
        if grid.name == scene.dtype.value:
            continue
        lies, chance = is_on_grid(grid, actual), share(is_on_grid(grid, expected))
        steps = np.abs(actual - expected) / grid_step(grid, np.maximum(np.abs(expected), _typical(expected)))
        near = lies & (steps <= _MOST_STEPS)
        if (
            share(actual == round_to_grid(grid, expected, Mode.NEAREST_EVEN)) > 0.9
            or share(steps[lies] > 1) < 0.05
        ):
            continue  # one rounding at the end explains it
        hits = int(np.count_nonzero(near))
        total = min(scene.wrong_count, at.size)
        sure = confidence(hits=hits, total=total, chance=chance, cost=math.log(len(FLOAT_GRIDS)))
        if sure >= 0.5:
            yield PatternMatch(
                pattern=Pattern.LOWER_PRECISION,
                confidence=sure,
                evidence=f"{hits} of {total} wrong elements are {grid.name} numbers, "
                f"up to {steps[near].max():.0f} of its steps off",
            )
            return


def detect_other_order(scene: Scene) -> Iterator[PatternMatch]:
    """Find errors of a few units in the last place of the usual magnitude, up as often as down.

    Any rounding may make such errors, so this cause is reported with even odds at best.
    """
    if not scene.dtype.is_floating:
        return  # sums of integers do not depend on their order
    actual, expected = scene.finite_wrong
    if actual.size < _FEWEST:
        return
    own = next(grid for grid in FLOAT_GRIDS if grid.name == scene.dtype.value)
    magnitude = np.maximum(np.abs(expected), _typical(scene.expected.astype(np.float64)))
    steps = np.abs(actual - expected) / grid_step(own, magnitude)
    hits = int(np.count_nonzero(steps <= _MOST_UNITS))
    up = share(actual > expected)
    balance = max(1.0 - 4.0 * abs(up - 0.5), 0.0)
    sure = confidence(hits=hits, total=scene.wrong_count, chance=0.0) * balance
    yield PatternMatch(
        pattern=Pattern.OTHER_ORDER,
        confidence=_EVEN_ODDS if sure >= _EVEN_ODDS else 0.0,
        evidence=f"{hits} of {scene.wrong_count} wrong elements are within {_MOST_UNITS} units in the last place "
        f"({own.name}, at the tensor's usual magnitude), {up:.0%} of them upwards",
    )


def _typical(values: Array) -> float:
    """Return the root mean square of the finite values."""
    finite = values[np.isfinite(values)]
    if finite.size == 0:
        return 0.0
    largest = float(np.abs(finite).max())
    return largest * float(np.sqrt(np.mean((finite / largest) ** 2))) if largest else 0.0


_SAMPLE_SIZE = 64
"""At most this many wrong elements are summed anew. Each takes all terms of its sum."""
_MOST_ELEMENTS = 1 << 24
"""Operands with more elements are left out. They are held as float64, at 8 bytes an element."""
_MOST_PAIRS = 32
"""At most this many ways to get the sums from the operands are tried. Pairs grow with the square of the operands."""
_LEAST_EXPLAINED = 0.9
"""The operands must produce this share of the expected elements. Otherwise the sums are of something else."""

Terms = Callable[[Array, Array], Array]
"""Such a function returns the terms of the sums at some rows and columns, with shape (places, terms of one)."""


def detect_lost_tail(scene: Scene) -> Iterator[PatternMatch]:
    """Find the expected sums without their last terms, where operands that produce these terms are known."""
    at = np.flatnonzero(scene.wrong)
    at = at[np.linspace(0, at.size - 1, min(at.size, _SAMPLE_SIZE)).astype(int)]
    expected = scene.expected.ravel()[at].astype(np.float64)
    actual = scene.actual.ravel()[at].astype(np.float64)
    places = scene.first + at
    rows, columns = places // scene.tensor_columns, places % scene.tensor_columns
    for what, terms_at in itertools.islice(_sums(scene), _MOST_PAIRS):
        terms = terms_at(rows, columns)
        sums: Array = np.cumsum(terms, axis=1)
        room = _allowed_error(scene, terms)
        given: Array = sums[:, -1]
        if share(np.abs(given - expected) <= room) < _LEAST_EXPLAINED:
            continue
        yield from _match_shorter_sums(scene, what, sums, (actual, expected), room)
        return


def _allowed_error(scene: Scene, terms: Array) -> Array:
    """Return the rounding error that is allowed for each sum: some units in the last place of its terms' sizes."""
    if not scene.dtype.is_floating:
        return np.zeros(int(terms.shape[0]))
    sums: Array = terms.sum(axis=1)
    sizes: Array = np.abs(terms).sum(axis=1)
    return 2 * SPACING[scene.dtype] * np.abs(sums) + 2.0**-20 * sizes


def _match_shorter_sums(
    scene: Scene, what: str, sums: Array, values: tuple[Array, Array], room: Array
) -> Iterator[PatternMatch]:
    actual, expected = values
    count = int(sums.shape[1])
    told = np.abs(actual - expected) > 2 * room
    shorter: Array = sums[:, :-1]
    fits = (np.abs(actual[:, None] - shorter) <= room[:, None]) & told[:, None]
    if fits.shape[1] == 0 or not fits.any():
        return
    rates: Array = fits.mean(axis=0)
    kept = int(rates.argmax()) + 1
    hits = int(np.count_nonzero(fits[:, kept - 1]))
    near = np.abs(np.arange(1, count) - kept) <= 1  # the sums next to the best one nearly fit, too
    yield PatternMatch(
        pattern=Pattern.LOST_REDUCTION_TAIL,
        confidence=confidence(
            hits=hits,
            total=actual.size,
            chance=float(rates[~near].max(initial=0.0)),
            cost=math.log(count),
        ),
        evidence=f"{hits} of {actual.size} wrong elements looked at are {what} without the last {count - kept} of "
        f"{count} terms",
    )


def _sums(scene: Scene) -> Iterator[tuple[str, Terms]]:
    """Yield ways to get the expected elements from the operands: products of two matrices, sums of one's rows."""
    rows, columns = scene.tensor_rows, scene.tensor_columns
    small = [each for each in scene.operands if 0 < each.numel <= _MOST_ELEMENTS]
    for left, right in itertools.permutations(small, 2):
        height, inner = matrix_shape(left.shape)
        if height != rows or inner < 2:
            continue
        shape = matrix_shape(right.shape)
        if shape == (inner, columns):
            yield f"{left.name} times {right.name}", _product(left, right, transposed=False)
        if shape == (columns, inner):
            yield f"{left.name} times {right.name} transposed", _product(left, right, transposed=True)
    for operand in small:
        height, inner = matrix_shape(operand.shape)
        if inner > 1 and height == rows * columns:
            yield f"the sum of each row of {operand.name}", _row_sum(operand, columns)


def _product(left: TensorView, right: TensorView, *, transposed: bool) -> Terms:
    def terms(rows: Array, columns: Array) -> Array:
        a, b = _matrix(left)[rows], _matrix(right)
        products: Array = a * (b[columns] if transposed else b[:, columns].T)
        return products

    return terms


def _row_sum(operand: TensorView, columns: int) -> Terms:
    def terms(rows: Array, across: Array) -> Array:
        return _matrix(operand)[rows * columns + across]

    return terms


def _matrix(view: TensorView) -> Array:
    return run_values(view, 0, view.numel).astype(np.float64).reshape(matrix_shape(view.shape))


_LEAST_FILLED = 0.9
"""An area counts as filled from this share of NaN or Inf on. Some places may hold a finite value by chance."""


def detect_spread(scene: Scene) -> Iterator[PatternMatch]:
    """Find elements that are not finite, though expected is, and that fill one simple area."""
    if not scene.dtype.is_floating:
        return
    wild = ~np.isfinite(scene.actual) & np.isfinite(scene.expected)
    count = int(np.count_nonzero(wild))
    if count == 0:
        return
    row, column = (int(i) for i in np.argwhere(wild)[0])
    best: PatternMatch | None = None
    for area, what, cost in _areas(scene, wild):
        size = int(np.count_nonzero(area))
        hits = int(np.count_nonzero(wild & area))
        if size == wild.size or hits < _LEAST_FILLED * size:
            continue
        sure = place_confidence(
            wrong=(hits, count), sizes=(size, wild.size), strewn=log_ways(wild.size, count), cost=cost
        )
        if best is None or sure > best.confidence:
            first = f"the first is at row {scene.top + row}, column {scene.left + column}"
            evidence = f"{hits} of {count} NaN or Inf fill {what}; {first}"
            best = PatternMatch(pattern=Pattern.NON_FINITE_SPREAD, confidence=sure, evidence=evidence)
    if best is not None:
        yield best


def _areas(scene: Scene, wild: Array) -> Iterator[tuple[Array, str, float]]:
    """Yield areas, what they are called, and the nats that it takes to name one."""
    rows, columns = wild.mean(axis=1) >= _LEAST_FILLED, wild.mean(axis=0) >= _LEAST_FILLED
    costs = [log_ways(line.size, int(np.count_nonzero(line))) for line in (rows, columns)]
    for on_rows, on_columns in ((True, False), (False, True), (True, True)):
        area = (rows[:, None] & on_rows) | (columns[None, :] & on_columns)
        if area.any():
            parts = (
                _lines(rows, "row", scene.top) * on_rows + _lines(columns, "column", scene.left) * on_columns
            )
            yield area, " and ".join(parts), costs[0] * on_rows + costs[1] * on_columns
    after = np.zeros(wild.size, bool)
    first = int(np.flatnonzero(wild)[0])
    after[first:] = True
    yield after.reshape(wild.shape), "everything from the first on", math.log(wild.size)
    box = np.zeros(wild.shape, bool)
    at_rows, at_columns = np.flatnonzero(wild.any(axis=1)), np.flatnonzero(wild.any(axis=0))
    box[at_rows[0] : at_rows[-1] + 1, at_columns[0] : at_columns[-1] + 1] = True
    corners = (
        f"rows {scene.top + at_rows[0]}:{scene.top + at_rows[-1] + 1}, "
        f"columns {scene.left + at_columns[0]}:{scene.left + at_columns[-1] + 1}"
    )
    yield box, corners, log_ways(wild.shape[0] + 1, 2) + log_ways(wild.shape[1] + 1, 2)


def _lines(filled: Array, noun: str, origin: int) -> list[str]:
    numbers = np.flatnonzero(filled) + origin
    if numbers.size == 0:
        return []
    if numbers.size == 1:
        return [f"{noun} {numbers[0]}"]
    return [f"{numbers.size} {noun}s from {numbers[0]} to {numbers[-1]}"]


_LEAST_EXTREME = 0.9
"""This share of the elements with extreme values must be NaN or Inf, for these values to be the reason."""
_EXTREME_KINDS = 5
"""`_extremes` yields this many kinds of extremes. The confidence pays for having had the choice."""


def detect_non_finite_at_values(scene: Scene) -> Iterator[PatternMatch]:
    """Find elements that are not finite, though expected is, exactly where the expected value or an input is most
    extreme.
    """
    if not scene.dtype.is_floating:
        return
    tame = np.isfinite(scene.expected).ravel()
    wild = ~np.isfinite(scene.actual).ravel() & tame
    count = int(np.count_nonzero(wild))
    if count == 0 or count == np.count_nonzero(tame):
        return
    best: PatternMatch | None = None
    sources = list(_sources(scene))
    for name, values in sources:
        for area, what in _extremes(values, wild, tame):
            size, hits = int(np.count_nonzero(area)), int(np.count_nonzero(area & wild))
            if hits < _LEAST_EXTREME * size:
                continue
            whole = int(np.count_nonzero(tame))
            sure = place_confidence(
                wrong=(hits, count),
                sizes=(size, whole),
                strewn=log_ways(whole, count),
                cost=math.log(_EXTREME_KINDS * len(sources)) + math.log(abs(size - count) + 1),
            )
            if best is None or sure > best.confidence:
                evidence = (
                    f"{hits} of {count} NaN or Inf stand where {name} is {what}, which {size} elements are"
                )
                best = PatternMatch(pattern=Pattern.WILD_AT_VALUES, confidence=sure, evidence=evidence)
    if best is not None:
        yield best


def _sources(scene: Scene) -> Iterator[tuple[str, Array]]:
    """Yield values that may decide, flat and as float64: inputs with one element for each result, and expected."""
    for operand in scene.operands:
        if operand.numel == scene.tensor_rows * scene.tensor_columns:
            values = run_values(operand, scene.first, scene.first + scene.wrong.size)
            yield operand.name, values.astype(np.float64)
    yield "expected", scene.expected.ravel().astype(np.float64)


def _extremes(values: Array, wild: Array, tame: Array) -> Iterator[tuple[Array, str]]:
    """Yield areas of extreme values, bounded by the values at the NaN and Inf, and a description of each."""
    at = values[wild]
    if np.isnan(at).any():
        return
    low, high = float(at.min()), float(at.max())
    yield (values >= low) & tame, f"{low:.6g} or more"
    yield (values <= high) & tame, f"{high:.6g} or less"
    small, large = float(np.abs(at).min()), float(np.abs(at).max())
    yield (np.abs(values) >= small) & tame, f"{small:.6g} or more in size"
    yield (np.abs(values) <= large) & tame, f"{large:.6g} or less in size"
    if low == high:
        yield (values == low) & tame, f"{low:.6g}"
