"""A sum that ends too early: the last terms of a product of matrices, or of a sum of rows, were left out."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator

import numpy as np

from ....tensor.chunks import run_values
from ....tensor.view import TensorView
from ...kernels.elements import Array
from ...statistics.rows import matrix_shape
from ..finding import Pattern, PatternMatch
from ..numeric.arithmetic import SPACING
from ..odds import confidence, share
from ..scene import Scene

_SAMPLED = 64
_MOST_ELEMENTS = 1 << 24
_MOST_PAIRS = 32
_EXPLAINED = 0.9  # share of the expected elements that the operands must give

Terms = Callable[[Array, Array], Array]
"""The terms whose sums stand at some rows and columns: shape (places, terms of one)."""


def lost_tail(scene: Scene) -> Iterator[PatternMatch]:
    """The wrong elements are the expected sums without their last terms, where operands that give these are known."""
    at = np.flatnonzero(scene.wrong)
    at = at[np.linspace(0, at.size - 1, min(at.size, _SAMPLED)).astype(int)]
    expected = scene.expected.ravel()[at].astype(np.float64)
    actual = scene.actual.ravel()[at].astype(np.float64)
    places = scene.first + at
    rows, columns = places // scene.tensor_columns, places % scene.tensor_columns
    for what, terms_at in itertools.islice(_sums(scene), _MOST_PAIRS):
        terms = terms_at(rows, columns)
        sums: Array = np.cumsum(terms, axis=1)
        room = _room(scene, terms)
        given: Array = sums[:, -1]
        if share(np.abs(given - expected) <= room) < _EXPLAINED:
            continue
        yield from _shorter(scene, what, sums, (actual, expected), room)
        return


def _room(scene: Scene, terms: Array) -> Array:
    """What rounding may make of each sum: some units in the last place of its terms' sizes."""
    if not scene.dtype.is_floating:
        return np.zeros(int(terms.shape[0]))
    sums: Array = terms.sum(axis=1)
    sizes: Array = np.abs(terms).sum(axis=1)
    return 2 * SPACING[scene.dtype] * np.abs(sums) + 2.0**-20 * sizes


def _shorter(
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
    near = np.abs(np.arange(1, count) - kept) <= 1  # the sums beside the best one are nearly it
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
    """Ways to get the expected elements from the operands: products of two matrices, sums of one's rows."""
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
