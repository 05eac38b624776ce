"""Detectors of right values at wrong places, of foreign values, and of wrong areas.

- `detect_never_written` and `detect_stale` find other values in place of the result: a fill, zeros, or the buffer's
  earlier values.
- `detect_shift`, `detect_transposition` and `detect_reversed_axis` find right values at other places.
- `detect_swapped_lines` and `detect_permuted_blocks` find whole rows, columns or blocks in the place of others.
- `detect_placement` finds where wrong elements are: in tiles, in tails, in every k-th row or column.
- `detect_outlier_channel` finds one row or column that is far more wrong than all others.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from ..tensor import DType
from .elements import Array
from .finding import (
    Pattern,
    PatternMatch,
    Scene,
    confidence,
    log_ways,
    place_confidence,
    whole_move_confidence,
)

_HEIGHTS = (1, 8, 16, 32, 64, 128, 256)
"""The heights of blocks that may be exchanged, in rows: those of usual tiles, and single rows."""
_WIDTHS = (8, 16, 32, 64, 128, 256)
"""The widths of blocks that may be exchanged, in columns: those of usual tiles."""
_SEED = 2026
"""Surrogates are random with this seed, so that the same tensors always give the same answer."""
_MULTIPLIER = np.uint64(0x9E3779B97F4A7C15)
"""Hashes are multiplied by 2^64 over the golden ratio. This number is odd, and its bits look random."""


@dataclass(frozen=True, kw_only=True, eq=False)
class _Exchange:
    """The blocks of one size, and the blocks of expected that are in their places.

    Attributes:
        wrong: which blocks have wrong elements.
        fits: which of these are equal to another block of expected.
        source: the index of that block.
    """

    height: int
    width: int
    wrong: Array
    fits: Array
    source: Array

    @property
    def explained_share(self) -> float:
        """Return the share of the wrong blocks that fit, in steps of 5 %."""
        return round(20 * int(np.count_nonzero(self.fits)) / max(int(np.count_nonzero(self.wrong)), 1)) / 20


def detect_permuted_blocks(scene: Scene) -> Iterator[PatternMatch]:
    """Find whole blocks of expected in the place of other blocks."""
    sizes = [
        (height, width)
        for height, width in itertools.product(_HEIGHTS, (*_WIDTHS, scene.columns))
        if scene.rows % height == 0
        and scene.columns % width == 0
        and 1 < height * width < scene.wrong.size
        and (width <= scene.columns // 2 or width == scene.columns)
    ]
    exchanges = [
        match_blocks(scene, scene.actual_bits, scene.wrong, height, width) for height, width in sizes
    ]
    fitting = [exchange for exchange in exchanges if exchange.explained_share]
    if not fitting:
        return
    best = max(fitting, key=lambda exchange: (exchange.explained_share, exchange.height * exchange.width))
    across = scene.columns // best.width
    target = int(np.flatnonzero(best.fits)[0])
    corners = (divmod(place, across) for place in (target, int(best.source[target])))
    target_place, source_place = (
        f"rows from {scene.top + row * best.height}, columns from {scene.left + column * best.width}"
        for row, column in corners
    )
    yield PatternMatch(
        pattern=Pattern.PERMUTED_BLOCKS,
        confidence=exchange_confidence(scene, best),
        evidence=f"{np.count_nonzero(best.fits)} of {np.count_nonzero(best.wrong)} wrong blocks of "
        f"{best.height}x{best.width} are other blocks of expected: {target_place} holds {source_place}",
    )


def exchange_confidence(scene: Scene, exchange: _Exchange) -> float:
    """Return the confidence in an exchange of blocks, against the same wrong values in a random arrangement."""
    height, width = exchange.height, exchange.width
    wrong = split_blocks(scene.wrong, height, width)
    by_chance = max(_fitting_share(scene, surrogate, height, width) for surrogate in _surrogates(scene))
    blocks = int(np.count_nonzero(exchange.fits))
    return confidence(
        hits=int(np.count_nonzero(wrong & exchange.fits[:, None])),
        total=scene.wrong_count,
        chance=max(by_chance, scene.null_model.collision_rate),
        cost=blocks * math.log(exchange.fits.size) + math.log(len(_HEIGHTS) * len(_WIDTHS)),
    )


def _surrogates(scene: Scene) -> Iterator[Array]:
    """Yield expected with the wrong values in random order at the wrong places, then at random places."""
    random = np.random.default_rng(_SEED)
    values = random.permutation(scene.wrong_actual_bits)
    permuted, scattered = scene.expected_bits.copy(), scene.expected_bits.copy()
    permuted[scene.wrong] = values
    yield permuted
    scattered.ravel()[random.choice(scattered.size, values.size, replace=False)] = values
    yield scattered


def _fitting_share(scene: Scene, actual: Array, height: int, width: int) -> float:
    """Return the share of the wrong blocks of `actual` that are other blocks of expected."""
    exchange = match_blocks(scene, actual, actual != scene.expected_bits, height, width)
    return int(np.count_nonzero(exchange.fits)) / max(int(np.count_nonzero(exchange.wrong)), 1)


def match_blocks(scene: Scene, actual: Array, wrong: Array, height: int, width: int) -> _Exchange:
    """Return which blocks of `actual` are other blocks of expected. `wrong` are the wrong elements of `actual`."""
    is_wrong: Array = np.any(split_blocks(wrong, height, width), axis=1)
    expected_hashes = block_hashes(split_blocks(scene.expected_bits, height, width))
    blocks = split_blocks(actual, height, width)
    actual_hashes = block_hashes(blocks)
    order = np.argsort(expected_hashes, kind="stable")
    source = order[
        np.minimum(np.searchsorted(expected_hashes[order], actual_hashes), expected_hashes.size - 1)
    ]
    varied = (blocks != blocks[:, :1]).any(axis=1)  # blocks with a single value prove nothing
    moved = source != np.arange(expected_hashes.size)
    fits: Array = np.logical_and.reduce([is_wrong, varied, expected_hashes[source] == actual_hashes, moved])
    return _Exchange(height=height, width=width, wrong=is_wrong, fits=fits, source=source)


def split_blocks(matrix: Array, height: int, width: int) -> Array:
    """Return the blocks in row-major order, with shape (blocks, elements of one)."""
    rows, columns = matrix.shape
    split = matrix.reshape(rows // height, height, columns // width, width)
    return split.transpose(0, 2, 1, 3).reshape(-1, height * width)


def block_hashes(blocks: Array) -> Array:
    """Return a hash of each block."""
    places = np.arange(1, blocks.shape[1] + 1, dtype=np.uint64) * _MULTIPLIER
    mixed = (blocks.astype(np.uint64) + np.uint64(1)) * _MULTIPLIER
    mixed ^= mixed >> np.uint64(31)
    return (mixed * (places | np.uint64(1))).sum(axis=1, dtype=np.uint64)


_MIN_LINES = 8
"""An outlier is sought only among at least this many rows and columns. Among fewer, one always stands out."""
_OUTLIER_RATIO = 8.0
"""The errors of an outlier are this many times the largest of the others. Smaller ones may be chance."""
_OUTLIER_QUANTILE = 0.99
"""The errors of an outlier are compared with this quantile of the others."""


def detect_outlier_channel(scene: Scene) -> Iterator[PatternMatch]:
    """Find a row or column whose errors are many times those of all others, which have errors too.

    Its errors must be larger both in size and relative to the values. Larger values alone make larger errors, and
    smaller values alone make larger relative errors.
    """
    if min(scene.rows, scene.columns) < _MIN_LINES or scene.wrong_count < 0.1 * scene.wrong.size:
        return
    expected = np.abs(scene.expected.astype(np.float64))
    errors = np.abs(scene.actual.astype(np.float64) - scene.expected.astype(np.float64))
    if not np.isfinite(errors).all():
        return
    for noun, axis, origin in (("column", 0, scene.left), ("row", 1, scene.top)):
        middle = np.median(errors, axis=axis)
        sizes = np.median(expected, axis=axis)
        at = int(middle.argmax())
        if not (_stands_out(middle, at) and _stands_out(middle / np.maximum(sizes, 1e-300), at)):
            continue
        line = errors[:, at] if axis == 0 else errors[at]
        others = np.quantile(np.delete(middle, at), _OUTLIER_QUANTILE)
        hits = int(np.count_nonzero(line > _OUTLIER_RATIO / 2 * others))
        times = middle[at] / others
        yield PatternMatch(
            pattern=Pattern.OUTLIER_CHANNEL,
            confidence=confidence(
                hits=hits, total=line.size, chance=1.0 - _OUTLIER_QUANTILE, cost=math.log(middle.size)
            ),
            evidence=f"the errors in {noun} {origin + at} are {times:.3g} times those of the other {noun}s, in the "
            f"middle {middle[at]:.3g}",
        )
        return


def _stands_out(sizes: Array, at: int) -> bool:
    """Return whether the size at index `at` is several times any other, and the others are mostly not zero."""
    others = np.delete(sizes, at)
    return bool(np.median(others) > 0 and sizes[at] > _OUTLIER_RATIO * others.max())


def detect_swapped_lines(scene: Scene) -> Iterator[PatternMatch]:
    """Find wrong rows that are other rows of expected, or wrong columns that are other columns."""
    if scene.rows < 2 or scene.columns < 2:
        return
    for noun, height, width, origin in (
        ("row", 1, scene.columns, scene.top),
        ("column", scene.rows, 1, scene.left),
    ):
        exchange = match_blocks(scene, scene.actual_bits, scene.wrong, height, width)
        if not exchange.fits.any() or _are_bands(exchange.fits, exchange.source):
            continue
        target = int(np.flatnonzero(exchange.fits)[0])
        source = int(exchange.source[target])
        yield PatternMatch(
            pattern=Pattern.SWAPPED_LINES,
            confidence=exchange_confidence(scene, exchange),
            evidence=f"{np.count_nonzero(exchange.fits)} of {np.count_nonzero(exchange.wrong)} wrong {noun}s are other "
            f"{noun}s of expected: {noun} {origin + target} holds {noun} {origin + source}",
        )


def _are_bands(fits: Array, source: Array) -> bool:
    """Return whether most lines moved together with a neighbour. Then they are blocks."""
    moved = np.flatnonzero(fits)
    together = (np.diff(moved) == 1) & (np.diff(source[moved]) == 1)
    return int(np.count_nonzero(together)) > moved.size // 2


_SAMPLE_SIZE = 4096
"""At most this many wrong places are looked up in expected. A few are enough to find a shift."""
_TRANSPOSED_BLOCKS = (8, 16, 32, 64, 128)
"""The sides of square blocks that may be transposed, in elements: those of usual tiles."""
_FRACTALS = ((16, 8), (16, 16), (16, 32))
"""The heights and widths of blocks in the NZ layout, for types of 4, 2 and 1 bytes."""
_MAX_TRANSPOSITIONS = 20
"""At most this many transpositions are tried. The confidence is reduced for the choice."""


def detect_shift(scene: Scene) -> Iterator[PatternMatch]:
    """Find actual[i] = expected[i + k] in row-major order. Rows, or the whole tensor, may wrap around."""
    steps = _common_steps(scene)
    if not steps:
        return
    main, *other_steps = steps
    expected_bits = scene.expected_bits.ravel()
    places = np.flatnonzero(scene.wrong)
    wraps = [step for step in other_steps if abs(step - main) in (scene.columns, expected_bits.size)]
    shifted = _shift_values(expected_bits, places, main)
    for step in wraps:
        shifted = np.where(
            scene.wrong_actual_bits == shifted, shifted, _shift_values(expected_bits, places, step)
        )
    hits = int(np.count_nonzero(scene.wrong_actual_bits == shifted))
    rows, rest = divmod(abs(main), scene.columns)
    distance = f"{abs(main)} elements" if rest or not rows else f"{rows} rows"
    are_halves = wraps and 2 * abs(main) == scene.columns
    wrapping = ", wrapping around" + (": halves of rows that changed places" if are_halves else "")
    moved = np.roll(expected_bits, -main).reshape(scene.wrong.shape)
    yield PatternMatch(
        pattern=Pattern.SHIFTED,
        confidence=move_confidence(scene, shifted, hits, math.log(2 * expected_bits.size), moved),
        evidence=f"{hits} of {places.size} wrong elements are those {distance} "
        f"{'further on' if main > 0 else 'further back'}{wrapping if wraps else ''}",
    )


def move_confidence(scene: Scene, predicted: Array, hits: int, cost: float, moved: Array) -> float:
    """Return the confidence in a move that predicts the patterns `predicted` for the wrong elements.

    `hits` wrong elements have them. If there are few values, a wrong element proves little, but the right elements may
    still prove that the whole tensor has moved. `moved` is the whole matrix after the move.
    """
    chance = scene.null_model.chance(predicted)
    value_confidence = confidence(hits=hits, total=predicted.size, chance=chance, cost=cost)
    if value_confidence >= 0.5 or hits < 0.9 * predicted.size:
        return value_confidence
    agree = int(np.count_nonzero(scene.actual_bits == moved))
    unmoved = int(np.count_nonzero(scene.expected_bits == moved))
    return max(
        value_confidence, whole_move_confidence(agree=agree, unmoved=unmoved, total=moved.size, cost=cost)
    )


def _shift_values(values: Array, places: Array, step: int) -> Array:
    """Return `values[places + step]`. Beyond the ends, it is the value at the place itself, which never fits."""
    source = places + step
    return values[np.where((source >= 0) & (source < values.size), source, places)]


def _common_steps(scene: Scene) -> list[int]:
    """Return the most frequent distances from runs of wrong elements to equal runs in expected."""
    width = 48 if scene.dtype is DType.BOOL else 8
    if scene.wrong.size <= width:
        return []
    sample = np.flatnonzero(scene.wrong)
    sample = sample[sample <= scene.wrong.size - width]
    sample = (
        sample[np.linspace(0, sample.size - 1, min(_SAMPLE_SIZE, sample.size)).astype(int)]
        if sample.size
        else sample
    )
    expected_hashes = _run_hashes(scene.expected_bits.ravel(), width)
    actual_hashes = _run_hashes(scene.actual_bits.ravel(), width)[sample]
    order = np.argsort(expected_hashes, kind="stable")
    slot = np.minimum(np.searchsorted(expected_hashes[order], actual_hashes), expected_hashes.size - 1)
    source = order[slot]
    steps = (source - sample)[expected_hashes[source] == actual_hashes]
    values, counts = np.unique(steps[steps != 0], return_counts=True)
    ranked = values[np.argsort(-counts, kind="stable")]
    return [int(step) for step in ranked[:4]]


def _run_hashes(values: Array, width: int) -> Array:
    """Return a hash of each run of `width` values."""
    count = values.size - width + 1
    hashes = np.zeros(count, np.uint64)
    for k in range(width):
        hashes = (hashes + values[k : k + count].astype(np.uint64) + np.uint64(1)) * _MULTIPLIER
        hashes ^= hashes >> np.uint64(29)
    return hashes


def detect_transposition(scene: Scene) -> Iterator[PatternMatch]:
    """Find expected with two axes exchanged, as a whole or block by block."""
    best: tuple[int, str, Array] | None = None
    for description, moved in _transpositions(scene):
        hits = int(np.count_nonzero(scene.wrong_actual_bits == moved[scene.wrong]))
        if hits and (best is None or hits > best[0]):
            best = hits, description, moved
    if best is None:
        return
    hits, description, moved = best
    yield PatternMatch(
        pattern=Pattern.TRANSPOSED,
        confidence=move_confidence(scene, moved[scene.wrong], hits, math.log(_MAX_TRANSPOSITIONS), moved),
        evidence=f"{hits} of {scene.wrong_count} wrong elements are as in expected with {description}",
    )


def _transpositions(scene: Scene) -> Iterator[tuple[str, Array]]:
    expected_bits, rows, columns = scene.expected_bits, scene.rows, scene.columns
    tensor = expected_bits.reshape(scene.shape)
    for i, j in itertools.combinations(range(len(scene.shape)), 2):
        if scene.shape[i] > 1 and scene.shape[j] > 1:
            yield f"axes {i} and {j} exchanged", tensor.swapaxes(i, j).reshape(rows, columns)
    if rows > 1 and columns > 1 and rows != columns:
        yield (
            "rows and columns exchanged, read back by the other shape",
            expected_bits.reshape(columns, rows).T,
        )
    for side in _TRANSPOSED_BLOCKS:
        if rows % side == columns % side == 0 and (rows, columns) != (side, side):
            blocks = expected_bits.reshape(rows // side, side, columns // side, side)
            yield f"each {side}x{side} block transposed", blocks.transpose(0, 3, 2, 1).reshape(rows, columns)
    for height, width in _FRACTALS:
        if rows % height == columns % width == 0 and columns > width:
            blocks = expected_bits.reshape(rows // height, height, columns // width, width)
            yield (
                f"{height}x{width} fractals stored column of blocks by column of blocks (NZ)",
                blocks.transpose(2, 0, 1, 3).reshape(rows, columns),
            )
            strips = expected_bits.reshape(columns // width, rows // height, height, width)
            yield (
                f"{height}x{width} fractals (NZ) read as if they were rows",
                strips.transpose(1, 2, 0, 3).reshape(rows, columns),
            )


_MAX_PERIOD = 512
"""The longest period that is sought, in rows or columns. Vectors and tiles of kernels are shorter."""
_PERIOD_WINDOW = 1 << 14
"""A period is sought in at most this many rows or columns."""
_MIN_REGULARITY = 0.95
"""At least this share of the rows or columns of a period must be hit."""
_MIN_HIT_SHARE = 0.25
"""An area, row or column is hit if at least this share of its elements is wrong."""
_MIN_AREA_ELEMENTS = 4
"""An area needs this many wrong elements, because any few points are in some rectangle."""
_SIDES = (256, 128, 64, 32, 16, 8)
"""The sides of tiles that are tried, in elements: those of usual kernels."""


def detect_placement(scene: Scene) -> Iterator[PatternMatch]:
    """Find the area that describes best where the wrong elements are."""
    if scene.wrong_count < _MIN_AREA_ELEMENTS:
        return
    candidates = [
        *_box(scene),
        *_tiles(scene),
        *_periodic_lines(scene, scene.wrong.mean(axis=0), axis=1),
        *_periodic_lines(scene, scene.wrong.mean(axis=1), axis=0),
    ]
    if candidates:
        yield max(candidates, key=lambda match: match.confidence)


def _match_area(
    scene: Scene, pattern: Pattern, area: Array, description: str, cost: float
) -> Iterator[PatternMatch]:
    """Yield a match if enough of `area`, a mask of the scene, is wrong."""
    size, hits = int(np.count_nonzero(area)), int(np.count_nonzero(scene.wrong & area))
    for match in _match_counts(
        scene, pattern, description, (hits, scene.wrong_count), (size, area.size), cost
    ):
        yield replace(match, evidence=match.evidence + scene.window_note)


def _match_counts(
    scene: Scene,
    pattern: Pattern,
    description: str,
    wrong: tuple[int, int],
    sizes: tuple[int, int],
    cost: float,
) -> Iterator[PatternMatch]:
    """Yield a match if enough of an area is wrong.

    `wrong` are the numbers of wrong elements in the area and in the whole. `sizes` are the numbers of all elements.
    """
    (hits, total), (size, whole) = wrong, sizes
    if size in (0, whole) or hits < _MIN_HIT_SHARE * size:
        return
    null_nats = scene.place_nats * total / scene.wrong_count
    yield PatternMatch(
        pattern=pattern,
        confidence=place_confidence(wrong=wrong, sizes=sizes, null_nats=null_nats, cost=cost),
        evidence=f"{hits} of {total} wrong elements are in {description}, where {hits / size:.0%} are wrong",
    )


def _box(scene: Scene) -> Iterator[PatternMatch]:
    """Match the smallest rectangle around all wrong elements of the tensor."""
    extent, rows, columns = scene.extent, scene.tensor_rows, scene.tensor_columns
    height, width = extent.bottom - extent.top, extent.right - extent.left
    if width == columns and extent.bottom == rows:
        pattern, description = Pattern.TAIL, f"the last {height} of {rows} rows"
    elif height == rows and extent.right == columns:
        pattern, description = Pattern.TAIL, f"the last {width} of {columns} columns"
    else:
        pattern = Pattern.TILE
        description = f"rows {extent.top}:{extent.bottom}, columns {extent.left}:{extent.right}"
    sizes = (height * width, rows * columns)
    cost = log_ways(rows + 1, 2) + log_ways(columns + 1, 2)
    yield from _match_counts(scene, pattern, description, (extent.count, extent.count), sizes, cost)


def _tiles(scene: Scene) -> Iterator[PatternMatch]:
    """Match the most wrong tiles of each regular tiling that fits."""
    for height in _SIDES:
        for width in _SIDES:
            if scene.rows % height or scene.columns % width:
                continue
            grid = scene.wrong.reshape(scene.rows // height, height, scene.columns // width, width)
            shares = grid.mean(axis=(1, 3))
            hit = shares >= 0.5 * shares.max()
            count = int(np.count_nonzero(hit))
            if shares.max() < _MIN_HIT_SHARE or count > hit.size // 2:
                continue
            area = np.repeat(np.repeat(hit, height, axis=0), width, axis=1)
            row, column = (int(i) for i in np.argwhere(hit)[0])
            first = f"rows from {scene.top + row * height}, columns from {scene.left + column * width}"
            description = f"{count} of {hit.size} tiles of {height}x{width} (the first: {first})"
            cost = math.log(len(_SIDES) ** 2) + log_ways(hit.size, count)
            yield from _match_area(scene, Pattern.TILE, area, description, cost)


def _periodic_lines(scene: Scene, shares: Array, *, axis: int) -> Iterator[PatternMatch]:
    """Match rows or columns that are hit with the shortest period: every k-th, or the same part of every k.

    `shares` are the shares of wrong elements in each row (`axis` 0) or column (`axis` 1).
    """
    hit = shares >= max(0.5 * float(shares.max()), _MIN_HIT_SHARE)
    count = int(np.count_nonzero(hit))
    if count < 3 or count > 0.75 * hit.size:
        return
    first = int(np.flatnonzero(hit)[0])
    window = hit[first : first + _PERIOD_WINDOW]
    places = first + np.flatnonzero(window)
    origin = scene.left if axis else scene.top
    for period in range(2, min(hit.size // 3, _MAX_PERIOD) + 1):
        residues = np.unique(places % period)
        predicted = residues.size * (window.size // period)
        if residues.size == period or places.size < _MIN_REGULARITY * predicted:
            continue
        lines = np.isin(np.arange(hit.size) % period, residues)
        area = np.broadcast_to(lines[None, :] if axis else lines[:, None], scene.wrong.shape)
        pattern, description = _phase(
            np.sort((residues + origin) % period), period, "columns" if axis else "rows"
        )
        cost = math.log(2 * _MAX_PERIOD) + log_ways(period, int(residues.size))
        yield from _match_area(scene, pattern, area, description, cost)
        return


def _phase(residues: Array, period: int, noun: str) -> tuple[Pattern, str]:
    """Return the pattern and the description of the lines with these `residues`, ascending, modulo the period."""
    first, last = int(residues[0]), int(residues[-1])
    if residues.size == 1:
        return Pattern.PERIODIC, f"one of every {period} {noun}, from {first} on"
    is_range = last - first + 1 == residues.size
    if is_range and last == period - 1:
        return Pattern.TAIL, f"the last {residues.size} of every {period} {noun}"
    listed = f"{first}:{last + 1}" if is_range else str(residues.tolist())
    return Pattern.PERIODIC, f"{noun} {listed} of every {period}"


_SHORT_AXIS = 3
"""Along an axis of at most this many places, an exchange of two of them may be a reversal."""


def detect_reversed_axis(scene: Scene) -> Iterator[PatternMatch]:
    """Find expected with one axis, or all of them, reversed."""
    if scene.is_window:
        return  # the other end of the tensor is outside
    tensor = scene.expected_bits.reshape(scene.shape)
    axes = [axis for axis, extent in enumerate(scene.shape) if extent > 1]
    choices = [(axis,) for axis in axes] + ([tuple(axes)] if len(axes) > 1 else [])
    for flipped in choices:
        if len(flipped) == 1 and _is_exchange(scene, flipped[0]):
            continue
        moved = np.flip(tensor, flipped).reshape(scene.wrong.shape)
        predicted = moved[scene.wrong]
        hits = int(np.count_nonzero(scene.wrong_actual_bits == predicted))
        if hits < 0.5 * predicted.size:
            continue
        description = f"axis {flipped[0]}" if len(flipped) == 1 else "all axes"
        yield PatternMatch(
            pattern=Pattern.REVERSED,
            confidence=move_confidence(scene, predicted, hits, math.log(len(choices)), moved),
            evidence=f"{hits} of {predicted.size} wrong elements are as in expected with {description} reversed",
        )


def _is_exchange(scene: Scene, axis: int) -> bool:
    """Return whether exactly two places along a longer axis have wrong elements. Then these two were exchanged."""
    wrong = scene.wrong.reshape(scene.shape)
    others = tuple(other for other in range(wrong.ndim) if other != axis)
    return scene.shape[axis] > _SHORT_AXIS and int(np.count_nonzero(wrong.any(axis=others))) == 2


def detect_never_written(scene: Scene) -> Iterator[PatternMatch]:
    """Find wrong elements that all have one value: zero, or the fill of the buffer."""
    actual_bits = scene.wrong_actual_bits
    values, counts = np.unique(actual_bits, return_counts=True)
    fill, hits = values[counts.argmax()], int(counts.max())
    value = float(scene.wrong_actual[np.flatnonzero(actual_bits == fill)[0]])
    expected = scene.wrong_expected[actual_bits == fill]
    if value != 0 and (scene.is_limit(value, expected) or _is_overflow(scene, value, expected)):
        return  # the values are clipped, not filled
    # A value other than zero was picked from the data, so its first element proves nothing.
    picked = int(value != 0)
    description = "0" if value == 0 else f"the fill {value:g} (0x{int(fill):0{2 * scene.dtype.itemsize}x})"
    yield PatternMatch(
        pattern=Pattern.NEVER_WRITTEN,
        confidence=confidence(
            hits=hits - picked,
            total=actual_bits.size - picked,
            chance=scene.null_model.fill_chance(int(fill)),
            cost=picked * math.log(values.size),
        ),
        evidence=f"{hits} of {actual_bits.size} wrong elements hold {description}",
    )


def _is_overflow(scene: Scene, value: float, expected: Array) -> bool:
    """Return whether `value` is infinite, and the values `expected` are larger than all correct elements."""
    correct = np.abs(scene.expected[~scene.wrong])
    return math.isinf(value) and correct.size > 0 and bool(np.abs(expected).min() > correct.max())


def detect_stale(scene: Scene) -> Iterator[PatternMatch]:
    """Find wrong elements that are bit for bit those of another tensor at the same places."""
    for other in scene.stale_candidates:
        stale = scene.bits_of(other)[scene.wrong]
        hits = int(np.count_nonzero(scene.wrong_actual_bits == stale))
        if hits == 0:
            continue
        yield PatternMatch(
            pattern=Pattern.STALE,
            confidence=confidence(
                hits=hits,
                total=stale.size,
                chance=scene.null_model.chance(stale),
                cost=math.log(len(scene.stale_candidates)),
            ),
            evidence=f"{hits} of {stale.size} wrong elements equal those of {other.name}",
        )
