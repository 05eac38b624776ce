"""Detectors of wrong sums, and of NaN and Inf.

- `detect_lower_precision` and `detect_other_order` find accumulation error, of a shorter type or of another order.
- `detect_lost_tail` finds matrix products and row sums that miss their last terms.
- `detect_spread` finds NaN or Inf that spread from one place over a row, a column, a block, or all that follows.
- `detect_non_finite_at_values` finds NaN or Inf exactly at extreme values of the result or of an input.
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
from .numeric_patterns import FLOAT_GRIDS, SPACING, RoundingMode, grid_step, is_on_grid, round_to_grid
from .statistics import matrix_shape

_MIN_WRONG = 8
"""A pattern of rounding needs this many wrong elements. Fewer may look like anything by chance."""
_ORDER_CONFIDENCE = 0.5
"""The confidence of another order is this or 0, because any rounding may cause such errors."""
_MAX_STEPS = 64
"""An accumulated error may be this many steps of the grid that is tried."""
_MAX_UNITS = 8
"""Another order may change a sum by this many units in the last place."""


def detect_lower_precision(scene: Scene) -> Iterator[PatternMatch]:
    """Find wrong elements that another type represents exactly, near the expected value.

    The type must represent the expected values less often.
    """
    sample = sample_places(scene.wrong_count)
    actual, expected = (
        values[sample].astype(np.float64) for values in (scene.wrong_actual, scene.wrong_expected)
    )
    finite = np.isfinite(actual) & np.isfinite(expected)
    actual, expected = actual[finite], expected[finite]
    if actual.size < _MIN_WRONG:
        return
    for grid in FLOAT_GRIDS:
        if grid.name == scene.dtype.value:
            continue
        on_grid, chance = is_on_grid(grid, actual), share(is_on_grid(grid, expected))
        magnitude = np.maximum(np.abs(expected), _root_mean_square(expected))
        steps = np.abs(actual - expected) / grid_step(grid, magnitude)
        near = on_grid & (steps <= _MAX_STEPS)
        are_rounded = actual == round_to_grid(grid, expected, RoundingMode.NEAREST_EVEN)
        if share(are_rounded) > 0.9 or share(steps[on_grid] > 1) < 0.05:
            continue  # a single rounding at the end explains the errors
        hits = int(np.count_nonzero(near))
        match_confidence = confidence(
            hits=hits, total=sample.size, chance=chance, cost=math.log(len(FLOAT_GRIDS))
        )
        if match_confidence >= 0.5:
            yield PatternMatch(
                pattern=Pattern.LOWER_PRECISION,
                confidence=match_confidence,
                evidence=f"{hits} of {sample.size} wrong elements looked at are {grid.name} numbers, "
                f"up to {steps[near].max():.0f} of its steps off",
            )
            return


def detect_other_order(scene: Scene) -> Iterator[PatternMatch]:
    """Find errors of a few ulps in both directions equally often.

    An ulp is taken at the larger of |expected| and the root mean square of all expected values.
    """
    if not scene.dtype.is_floating:
        return  # sums of integers do not depend on their order
    actual, expected = scene.finite_wrong
    if actual.size < _MIN_WRONG:
        return
    own = next(grid for grid in FLOAT_GRIDS if grid.name == scene.dtype.value)
    magnitude = np.maximum(np.abs(expected), _root_mean_square(scene.expected.astype(np.float64)))
    steps = np.abs(actual - expected) / grid_step(own, magnitude)
    near = steps <= _MAX_UNITS
    hits = int(np.count_nonzero(near))
    up = share(actual[near] > expected[near])
    balance = max(1.0 - 4.0 * abs(up - 0.5), 0.0)
    match_confidence = confidence(hits=hits, total=scene.wrong_count, chance=0.0) * balance
    yield PatternMatch(
        pattern=Pattern.OTHER_ORDER,
        confidence=_ORDER_CONFIDENCE if match_confidence >= _ORDER_CONFIDENCE else 0.0,
        evidence=f"{hits} of {scene.wrong_count} wrong elements are within {_MAX_UNITS} units in the last place "
        f"({own.name}, at the tensor's usual magnitude), {up:.0%} of them upwards",
    )


def _root_mean_square(values: Array) -> float:
    """Return the root mean square of the finite values; 0 if there are none."""
    finite = values[np.isfinite(values)]
    if finite.size == 0:
        return 0.0
    largest = float(np.abs(finite).max())
    return largest * float(np.sqrt(np.mean((finite / largest) ** 2))) if largest else 0.0


_SAMPLE_SIZE = 64
"""At most this many wrong elements are summed again, because each needs all terms of its sum."""
_MAX_ELEMENTS = 1 << 24
"""Operands with more elements are left out. They take 8 bytes an element, as float64."""
_MAX_SUM_CANDIDATES = 32
"""`detect_lost_tail` tries at most this many candidate sums.

Their number grows with the square of the number of operands."""
_MIN_EXPLAINED_SHARE = 0.9
"""The operands must produce this share of the expected elements. Otherwise they are not what was summed."""

Terms = Callable[[Array, Array], Array]
"""Returns the terms of the sums at some rows and columns, with shape (places, terms of one sum)."""


def detect_lost_tail(scene: Scene) -> Iterator[PatternMatch]:
    """Find actual values that equal the expected sum without its last terms. Its operands must be known."""
    sample = np.flatnonzero(scene.wrong)
    sample = sample[np.linspace(0, sample.size - 1, min(sample.size, _SAMPLE_SIZE)).astype(int)]
    expected = scene.expected.ravel()[sample].astype(np.float64)
    actual = scene.actual.ravel()[sample].astype(np.float64)
    places = scene.origin + sample
    rows, columns = places // scene.tensor_columns, places % scene.tensor_columns
    for description, compute_terms in itertools.islice(_sums(scene), _MAX_SUM_CANDIDATES):
        terms = compute_terms(rows, columns)
        sums: Array = np.cumsum(terms, axis=1)
        error = _allowed_error(scene, terms)
        whole: Array = sums[:, -1]
        if share(np.abs(whole - expected) <= error) < _MIN_EXPLAINED_SHARE:
            continue
        yield from _match_shorter_sums(scene, description, sums, (actual, expected), error)
        return


def _allowed_error(scene: Scene, terms: Array) -> Array:
    """Return the rounding error that is allowed for each sum."""
    if not scene.dtype.is_floating:
        return np.zeros(int(terms.shape[0]))
    sums: Array = terms.sum(axis=1)
    sizes: Array = np.abs(terms).sum(axis=1)
    return 2 * SPACING[scene.dtype] * np.abs(sums) + 2.0**-20 * sizes


def _match_shorter_sums(
    scene: Scene, description: str, sums: Array, values: tuple[Array, Array], error: Array
) -> Iterator[PatternMatch]:
    """Yield a match for the number of terms at which the largest share of the sums stops.

    `sums` has the sum of the first k + 1 terms in column k. `values` are actual and expected.
    """
    actual, expected = values
    count = int(sums.shape[1])
    distinguishable = np.abs(actual - expected) > 2 * error
    shorter: Array = sums[:, :-1]
    fits = (np.abs(actual[:, None] - shorter) <= error[:, None]) & distinguishable[:, None]
    if fits.shape[1] == 0 or not fits.any():
        return
    rates: Array = fits.mean(axis=0)
    kept = int(rates.argmax()) + 1
    hits = int(np.count_nonzero(fits[:, kept - 1]))
    near = np.abs(np.arange(1, count) - kept) <= 1  # sums of nearly this length nearly fit
    yield PatternMatch(
        pattern=Pattern.LOST_REDUCTION_TAIL,
        confidence=confidence(
            hits=hits,
            total=actual.size,
            chance=float(rates[~near].max(initial=0.0)),
            cost=math.log(count),
        ),
        evidence=f"{hits} of {actual.size} wrong elements looked at are {description} without the last "
        f"{count - kept} of {count} terms",
    )


def _sums(scene: Scene) -> Iterator[tuple[str, Terms]]:
    """Yield ways to get the expected elements from operands: products of two matrices, and sums of rows."""
    rows, columns = scene.tensor_rows, scene.tensor_columns
    small = [each for each in scene.operands if 0 < each.numel <= _MAX_ELEMENTS]
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


_MIN_FILLED_SHARE = 0.9
"""An area is filled if it has at least this share of NaN or Inf. Some elements may be finite by chance."""


def detect_spread(scene: Scene) -> Iterator[PatternMatch]:
    """Find unexpected NaN or Inf that fill one simple area. An element counts if its expected value is finite."""
    if not scene.dtype.is_floating:
        return
    non_finite = ~np.isfinite(scene.actual) & np.isfinite(scene.expected)
    count = int(np.count_nonzero(non_finite))
    if count == 0:
        return
    row, column = (int(i) for i in np.argwhere(non_finite)[0])
    best: PatternMatch | None = None
    for area, description, cost in _areas(scene, non_finite):
        size = int(np.count_nonzero(area))
        hits = int(np.count_nonzero(non_finite & area))
        if size == non_finite.size or hits < _MIN_FILLED_SHARE * size:
            continue
        match_confidence = place_confidence(
            wrong=(hits, count),
            sizes=(size, non_finite.size),
            null_nats=log_ways(non_finite.size, count),
            cost=cost,
        )
        if best is None or match_confidence > best.confidence:
            first = f"the first is at row {scene.top + row}, column {scene.left + column}"
            evidence = f"{hits} of {count} NaN or Inf fill {description}; {first}"
            best = PatternMatch(
                pattern=Pattern.NON_FINITE_SPREAD, confidence=match_confidence, evidence=evidence
            )
    if best is not None:
        yield best


def _areas(scene: Scene, non_finite: Array) -> Iterator[tuple[Array, str, float]]:
    """Yield each area with a description, and its description length in nats."""
    rows, columns = non_finite.mean(axis=1) >= _MIN_FILLED_SHARE, non_finite.mean(axis=0) >= _MIN_FILLED_SHARE
    row_cost, column_cost = (log_ways(lines.size, int(np.count_nonzero(lines))) for lines in (rows, columns))
    row_names = _line_names(rows, "row", scene.top)
    column_names = _line_names(columns, "column", scene.left)
    area_of_rows = np.broadcast_to(rows[:, None], non_finite.shape)
    area_of_columns = np.broadcast_to(columns[None, :], non_finite.shape)
    for area, names, cost in (
        (area_of_rows, row_names, row_cost),
        (area_of_columns, column_names, column_cost),
        (area_of_rows | area_of_columns, row_names + column_names, row_cost + column_cost),
    ):
        if area.any():
            yield area, " and ".join(names), cost
    after = np.zeros(non_finite.size, bool)
    first = int(np.flatnonzero(non_finite)[0])
    after[first:] = True
    yield after.reshape(non_finite.shape), "everything from the first on", math.log(non_finite.size)
    box = np.zeros(non_finite.shape, bool)
    at_rows, at_columns = np.flatnonzero(non_finite.any(axis=1)), np.flatnonzero(non_finite.any(axis=0))
    box[at_rows[0] : at_rows[-1] + 1, at_columns[0] : at_columns[-1] + 1] = True
    corners = (
        f"rows {scene.top + at_rows[0]}:{scene.top + at_rows[-1] + 1}, "
        f"columns {scene.left + at_columns[0]}:{scene.left + at_columns[-1] + 1}"
    )
    yield box, corners, log_ways(non_finite.shape[0] + 1, 2) + log_ways(non_finite.shape[1] + 1, 2)


def _line_names(filled: Array, noun: str, origin: int) -> list[str]:
    numbers = np.flatnonzero(filled) + origin
    if numbers.size == 0:
        return []
    if numbers.size == 1:
        return [f"{noun} {numbers[0]}"]
    return [f"{numbers.size} {noun}s from {numbers[0]} to {numbers[-1]}"]


_MIN_EXTREME_SHARE = 0.9
"""Extreme values are the cause only if this share of the elements that have them are NaN or Inf."""
_MAX_EXTREMES = 5
"""`_extremes` yields at most this many candidates. The cost includes the logarithm of their number."""


def detect_non_finite_at_values(scene: Scene) -> Iterator[PatternMatch]:
    """Find unexpected NaN or Inf located exactly at extreme values of expected or of an input."""
    if not scene.dtype.is_floating:
        return
    finite = np.isfinite(scene.expected).ravel()
    non_finite = ~np.isfinite(scene.actual).ravel() & finite
    count, whole = int(np.count_nonzero(non_finite)), int(np.count_nonzero(finite))
    if count in (0, whole):
        return
    best: PatternMatch | None = None
    sources = list(_sources(scene))
    for name, values in sources:
        for area, description in _extremes(values, non_finite, finite):
            size, hits = int(np.count_nonzero(area)), int(np.count_nonzero(area & non_finite))
            if size == whole or hits < _MIN_EXTREME_SHARE * size:
                continue
            match_confidence = place_confidence(
                wrong=(hits, count),
                sizes=(size, whole),
                null_nats=log_ways(whole, count),
                cost=math.log(_MAX_EXTREMES * len(sources)) + math.log(abs(size - count) + 1),
            )
            if best is None or match_confidence > best.confidence:
                evidence = (
                    f"{hits} of {count} NaN or Inf are at the {size} elements where {name} is {description}"
                )
                best = PatternMatch(
                    pattern=Pattern.NON_FINITE_AT_VALUES, confidence=match_confidence, evidence=evidence
                )
    if best is not None:
        yield best


def _sources(scene: Scene) -> Iterator[tuple[str, Array]]:
    """Yield each input of the result's size, and expected, by name. Values are flat float64."""
    for operand in scene.operands:
        if operand.numel == scene.tensor_rows * scene.tensor_columns:
            values = run_values(operand, scene.origin, scene.origin + scene.wrong.size)
            yield operand.name, values.astype(np.float64)
    yield "expected", scene.expected.ravel().astype(np.float64)


def _extremes(values: Array, non_finite: Array, finite: Array) -> Iterator[tuple[Array, str]]:
    """Yield areas of extreme values with a description.

    The smallest and largest values at the `non_finite` places bound each area.
    """
    wrong_values = values[non_finite]
    if np.isnan(wrong_values).any():
        return
    low, high = float(wrong_values.min()), float(wrong_values.max())
    yield (values >= low) & finite, f"{low:.6g} or more"
    yield (values <= high) & finite, f"{high:.6g} or less"
    small, large = float(np.abs(wrong_values).min()), float(np.abs(wrong_values).max())
    yield (np.abs(values) >= small) & finite, f"{small:.6g} or more in size"
    yield (np.abs(values) <= large) & finite, f"{large:.6g} or less in size"
    if low == high:
        yield (values == low) & finite, f"{low:.6g}"
