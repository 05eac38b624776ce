"""Detectors of right values at wrong places, of foreign values, and of areas that are wrong.

- `detect_never_written` and `detect_stale` find other values in place of the result: a fill, zeros, or the buffer's
  earlier content.
- `detect_shift`, `detect_transposition` and `detect_reversed_axis` find the right values at other places, or in the
  opposite order.
- `detect_swapped_lines` and `detect_permuted_blocks` find whole rows, columns or blocks in the place of others.
- `detect_placement` says where the wrong elements lie: in tiles, in tails, in every k-th row or column.
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
"""Blocks of these heights may be exchanged, in rows. They are those of usual tiles, and single rows."""
_WIDTHS = (8, 16, 32, 64, 128, 256)
"""Blocks of these widths may be exchanged, in columns. They are those of usual tiles."""
_SEED = 2026
"""The surrogates have this seed. A fixed one makes the same tensors give the same answer again."""
_MULTIPLIER = np.uint64(0x9E3779B97F4A7C15)
"""Hashes are multiplied by this number: 2^64 over the golden ratio. It is odd, and its bits look random."""


@dataclass(frozen=True, kw_only=True, eq=False)
class _Exchange:
    """The blocks of one size: which are wrong, which of these equal another block of expected, and which that is."""

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
    best: _Exchange | None = None
    for height, width in itertools.product(_HEIGHTS, (*_WIDTHS, scene.columns)):
        if scene.rows % height or scene.columns % width or height * width == scene.wrong.size:
            continue
        if height * width == 1 or (width > scene.columns // 2 and width != scene.columns):
            continue
        tried = match_blocks(scene, scene.actual_bits, scene.wrong, height, width)
        if tried.explained_share and (best is None or _rank(tried) > _rank(best)):
            best = tried
    if best is not None:
        across = scene.columns // best.width
        target = int(np.flatnonzero(best.fits)[0])
        places = (divmod(place, across) for place in (target, int(best.source[target])))
        held, there = (
            f"rows from {scene.top + row * best.height}, columns from {scene.left + column * best.width}"
            for row, column in places
        )
        yield PatternMatch(
            pattern=Pattern.PERMUTED_BLOCKS,
            confidence=exchange_confidence(scene, best),
            evidence=f"{np.count_nonzero(best.fits)} of {np.count_nonzero(best.wrong)} wrong blocks of "
            f"{best.height}x{best.width} are other blocks of expected: {held} holds {there}",
        )


def _rank(tried: _Exchange) -> tuple[float, int]:
    return tried.explained_share, tried.height * tried.width


def exchange_confidence(scene: Scene, found: _Exchange) -> float:
    """Return how sure an exchange is. Wrong elements put anywhere, or with exchanged values, are the alternatives."""
    height, width = found.height, found.width
    inside = np.broadcast_to(found.fits[:, None], (found.fits.size, height * width)) & split_blocks(
        scene.wrong, height, width
    )
    hits = int(np.count_nonzero(inside))
    by_chance = max(_fitting_share(scene, surrogate, height, width) for surrogate in _surrogates(scene))
    blocks = int(np.count_nonzero(found.fits))
    return confidence(
        hits=hits,
        total=scene.wrong_count,
        chance=max(by_chance, scene.null_model.collision_rate),
        cost=blocks * math.log(found.fits.size) + math.log(len(_HEIGHTS) * len(_WIDTHS)),
    )


def _surrogates(scene: Scene) -> Iterator[Array]:
    random = np.random.default_rng(_SEED)
    values = random.permutation(scene.wrong_actual_bits)
    exchanged, strewn = scene.expected_bits.copy(), scene.expected_bits.copy()
    exchanged[scene.wrong] = values
    yield exchanged
    strewn.ravel()[random.choice(strewn.size, values.size, replace=False)] = values
    yield strewn


def _fitting_share(scene: Scene, actual: Array, height: int, width: int) -> float:
    """Return the share of the wrong blocks that are other blocks, if `actual` was found."""
    found = match_blocks(scene, actual, actual != scene.expected_bits, height, width)
    return int(np.count_nonzero(found.fits)) / max(int(np.count_nonzero(found.wrong)), 1)


def match_blocks(scene: Scene, actual: Array, wrong: Array, height: int, width: int) -> _Exchange:
    """Return what became of the blocks of one size, if `actual` was found and is wrong where `wrong` says so."""
    at: Array = np.any(split_blocks(wrong, height, width), axis=1)
    known = block_hashes(split_blocks(scene.expected_bits, height, width))
    blocks = split_blocks(actual, height, width)
    found = block_hashes(blocks)
    order = np.argsort(known, kind="stable")
    source = order[np.minimum(np.searchsorted(known[order], found), known.size - 1)]
    varied = (blocks != blocks[:, :1]).any(axis=1)  # equal fills prove nothing
    moved = source != np.arange(known.size)
    fits: Array = np.logical_and.reduce([at, varied, known[source] == found, moved])
    return _Exchange(height=height, width=width, wrong=at, fits=fits, source=source)


def split_blocks(matrix: Array, height: int, width: int) -> Array:
    """Return the blocks in row-major order, with shape (blocks, elements of one)."""
    rows, columns = matrix.shape
    split = matrix.reshape(rows // height, height, columns // width, width)
    return split.transpose(0, 2, 1, 3).reshape(-1, height * width)


def block_hashes(blocks: Array) -> Array:
    """Return one number a block, equal for equal blocks."""
    places = np.arange(1, blocks.shape[1] + 1, dtype=np.uint64) * _MULTIPLIER
    mixed = (blocks.astype(np.uint64) + np.uint64(1)) * _MULTIPLIER
    mixed ^= mixed >> np.uint64(31)
    return (mixed * (places | np.uint64(1))).sum(axis=1, dtype=np.uint64)


_FEWEST = 8
"""An outlier is looked for only among this many rows and columns. Among fewer, one always stands out."""
_OUTLIER_RATIO = 8.0
"""An outlier's errors are this many times the largest of the others'. Smaller ones stand out by chance."""
_OUTLIER_QUANTILE = 0.99
"""An outlier's errors are compared with this quantile of the others' errors."""


def detect_outlier_channel(scene: Scene) -> Iterator[PatternMatch]:
    """Find a row or column whose errors are many times those of all others, which have errors too.

    They must be larger both in absolute size and relative to the values. A channel with larger values may have larger
    errors without being more wrong. One with smaller values may have larger relative errors.
    """
    if min(scene.rows, scene.columns) < _FEWEST or scene.wrong_count < 0.1 * scene.wrong.size:
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
    """Return whether the size `at` one place is several times that at any other, and the others are not zero."""
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
        found = match_blocks(scene, scene.actual_bits, scene.wrong, height, width)
        if not found.fits.any() or _are_bands(found.fits, found.source):
            continue
        target = int(np.flatnonzero(found.fits)[0])
        source = int(found.source[target])
        yield PatternMatch(
            pattern=Pattern.SWAPPED_LINES,
            confidence=exchange_confidence(scene, found),
            evidence=f"{np.count_nonzero(found.fits)} of {np.count_nonzero(found.wrong)} wrong {noun}s are other "
            f"{noun}s of expected: {noun} {origin + target} holds {noun} {origin + source}",
        )


def _are_bands(fits: Array, source: Array) -> bool:
    """Return whether most lines moved with their neighbours. Then blocks describe it better."""
    moved = np.flatnonzero(fits)
    together = (np.diff(moved) == 1) & (np.diff(source[moved]) == 1)
    return int(np.count_nonzero(together)) > moved.size // 2


_SAMPLE_SIZE = 4096
"""At most this many wrong places are looked up in expected. A true shift is found from a few."""
_TRANSPOSED_BLOCKS = (8, 16, 32, 64, 128)
"""Square blocks of these sides are tried as transposed, in elements. They are those of usual tiles."""
_FRACTALS = ((16, 8), (16, 16), (16, 32))
"""Blocks in the NZ layout have these heights and widths, for types of 4, 2 and 1 bytes."""
_MOST_TRANSPOSITIONS = 20
"""At most this many transpositions are tried. The confidence pays for having had the choice."""
_MOVEMENT_MULTIPLIER = np.uint64(0x9E3779B97F4A7C15)
"""Hashes of runs are multiplied by this number, which is that of `_MULTIPLIER`."""


def detect_shift(scene: Scene) -> Iterator[PatternMatch]:
    """Find actual[i] = expected[i + k], counted in row-major order, also where a row or the whole wraps around."""
    steps = _common_steps(scene)
    if not steps:
        return
    main, *more = steps
    wanted = scene.expected_bits.ravel()
    places = np.flatnonzero(scene.wrong)
    wraps = [step for step in more if abs(step - main) in (scene.columns, wanted.size)]
    there = _shift_values(wanted, places, main)
    for step in wraps:
        there = np.where(scene.wrong_actual_bits == there, there, _shift_values(wanted, places, step))
    hits = int(np.count_nonzero(scene.wrong_actual_bits == there))
    rows, rest = divmod(abs(main), scene.columns)
    distance = f"{abs(main)} elements" if rest or not rows else f"{rows} rows"
    halves = wraps and 2 * abs(main) == scene.columns
    wrapping = ", wrapping around" + (": halves of rows that changed places" if halves else "")
    yield PatternMatch(
        pattern=Pattern.SHIFTED,
        confidence=move_confidence(scene, there, hits, math.log(2 * wanted.size), _moved_matrix(scene, main)),
        evidence=f"{hits} of {places.size} wrong elements are those {distance} "
        f"{'further on' if main > 0 else 'further back'}{wrapping if wraps else ''}",
    )


def _moved_matrix(scene: Scene, step: int) -> Array:
    return np.roll(scene.expected_bits.ravel(), -step).reshape(scene.wrong.shape)


def move_confidence(scene: Scene, there: Array, hits: int, cost: float, whole: Array | None) -> float:
    """Return how sure it is that the wrong elements, `hits` of them, are the patterns `there`.

    Where values are few, a wrong element proves little. Then the elements that are right may still prove a move of all.
    `whole` is what each element of the matrix would be if all of them had moved.
    """
    chance = scene.null_model.chance(there)
    sure = confidence(hits=hits, total=there.size, chance=chance, cost=cost)
    if whole is None or sure >= 0.5 or hits < 0.9 * there.size:
        return sure
    agree = int(np.count_nonzero(scene.actual_bits == whole))
    unmoved = int(np.count_nonzero(scene.expected_bits == whole))
    return max(sure, whole_move_confidence(agree=agree, unmoved=unmoved, total=whole.size, cost=cost))


def _shift_values(values: Array, places: Array, step: int) -> Array:
    """Return `values[places + step]`. Beyond the ends it is the value at the place itself, which is no hit."""
    source = places + step
    return values[np.where((source >= 0) & (source < values.size), source, places)]


def _common_steps(scene: Scene) -> list[int]:
    """Return the steps by which runs of wrong elements are most often found again in expected, most frequent first."""
    width = 48 if scene.dtype is DType.BOOL else 8
    if scene.wrong.size <= width:
        return []
    at = np.flatnonzero(scene.wrong)
    at = at[at <= scene.wrong.size - width]
    at = at[np.linspace(0, at.size - 1, min(_SAMPLE_SIZE, at.size)).astype(int)] if at.size else at
    known = _run_hashes(scene.expected_bits.ravel(), width)
    sought = _run_hashes(scene.actual_bits.ravel(), width)[at]
    order = np.argsort(known, kind="stable")
    slot = np.minimum(np.searchsorted(known[order], sought), known.size - 1)
    source = order[slot]
    steps = (source - at)[known[source] == sought]
    values, counts = np.unique(steps[steps != 0], return_counts=True)
    ranked = values[np.argsort(-counts, kind="stable")]
    return [int(step) for step in ranked[:4]]


def _run_hashes(values: Array, width: int) -> Array:
    """Return a hash of every run of `width` values."""
    count = values.size - width + 1
    hashes = np.zeros(count, np.uint64)
    for k in range(width):
        hashes = (hashes + values[k : k + count].astype(np.uint64) + np.uint64(1)) * _MOVEMENT_MULTIPLIER
        hashes ^= hashes >> np.uint64(29)
    return hashes


def detect_transposition(scene: Scene) -> Iterator[PatternMatch]:
    """Find the elements of expected with two axes exchanged, as a whole or block by block."""
    best: tuple[int, str, Array] | None = None
    for what, moved in _transpositions(scene):
        hits = int(np.count_nonzero(scene.wrong_actual_bits == moved[scene.wrong]))
        if hits and (best is None or hits > best[0]):
            best = hits, what, moved
    if best is None:
        return
    hits, what, moved = best
    yield PatternMatch(
        pattern=Pattern.TRANSPOSED,
        confidence=move_confidence(scene, moved[scene.wrong], hits, math.log(_MOST_TRANSPOSITIONS), moved),
        evidence=f"{hits} of {scene.wrong_count} wrong elements are as in expected with {what}",
    )


def _transpositions(scene: Scene) -> Iterator[tuple[str, Array]]:
    wanted, rows, columns = scene.expected_bits, scene.rows, scene.columns
    tensor = wanted.reshape(scene.shape)
    for i, j in itertools.combinations(range(len(scene.shape)), 2):
        if scene.shape[i] > 1 and scene.shape[j] > 1:
            yield f"axes {i} and {j} exchanged", tensor.swapaxes(i, j).reshape(rows, columns)
    if rows > 1 and columns > 1 and rows != columns:
        yield "rows and columns exchanged, read back by the other shape", wanted.reshape(columns, rows).T
    for side in _TRANSPOSED_BLOCKS:
        if rows % side == columns % side == 0 and (rows, columns) != (side, side):
            blocks = wanted.reshape(rows // side, side, columns // side, side)
            yield f"each {side}x{side} block transposed", blocks.transpose(0, 3, 2, 1).reshape(rows, columns)
    for height, width in _FRACTALS:
        if rows % height == columns % width == 0 and columns > width:
            blocks = wanted.reshape(rows // height, height, columns // width, width)
            yield (
                f"{height}x{width} fractals stored column of blocks by column of blocks (NZ)",
                blocks.transpose(2, 0, 1, 3).reshape(rows, columns),
            )
            strips = wanted.reshape(columns // width, rows // height, height, width)
            yield (
                f"{height}x{width} fractals (NZ) read as if they were rows",
                strips.transpose(1, 2, 0, 3).reshape(rows, columns),
            )


_LONGEST_PERIOD = 512
"""Longer periods, in rows or columns, are not looked for. Vectors and tiles of kernels are shorter."""
_PERIOD_WINDOW = 1 << 14
"""A period is sought in at most this many rows or columns."""
_LEAST_REGULARITY = 0.95
"""A period must hit this share of its places."""
_LEAST_HIT_SHARE = 0.25
"""A structure counts as hit once this share of its elements is wrong."""
_FEWEST_PLACED = 4
"""Fewer wrong elements have no describable place: any few points lie in some rectangle."""
_SIDES = (256, 128, 64, 32, 16, 8)
"""Tiles of these sides are tried, in elements, from large to small. They are those of usual kernels."""


def detect_placement(scene: Scene) -> Iterator[PatternMatch]:
    """Find the one structure that describes best where the wrong elements are."""
    if scene.wrong_count < _FEWEST_PLACED:
        return
    candidates = [
        *_box(scene),
        *_tiles(scene),
        *_periodic(scene, scene.wrong.mean(axis=0), axis=1),
        *_periodic(scene, scene.wrong.mean(axis=1), axis=0),
    ]
    if candidates:
        yield max(candidates, key=lambda finding: finding.confidence)


def _match_area(
    scene: Scene, pattern: Pattern, area: Array, what: str, cost: float
) -> Iterator[PatternMatch]:
    """Yield a finding that the wrong elements of the matrix lie in `area` (a mask), if enough of it is wrong."""
    size, hits = int(np.count_nonzero(area)), int(np.count_nonzero(scene.wrong & area))
    for match in _match_counts(scene, pattern, what, (hits, scene.wrong_count), (size, area.size), cost):
        yield replace(match, evidence=match.evidence + scene.window_note)


def _match_counts(
    scene: Scene, pattern: Pattern, what: str, wrong: tuple[int, int], sizes: tuple[int, int], cost: float
) -> Iterator[PatternMatch]:
    """Yield a finding for an area, if enough of it is wrong.

    `wrong` and `sizes` are pairs of counts: wrong elements, and all elements, within the area and in the whole.
    """
    hits, size = wrong[0], sizes[0]
    if size == 0 or size == sizes[1] or hits < _LEAST_HIT_SHARE * size:
        return
    yield PatternMatch(
        pattern=pattern,
        confidence=place_confidence(
            wrong=wrong, sizes=sizes, strewn=scene.place_nats * wrong[1] / scene.wrong_count, cost=cost
        ),
        evidence=f"{hits} of {wrong[1]} wrong elements are in {what}, where {hits / size:.0%} are wrong",
    )


def _box(scene: Scene) -> Iterator[PatternMatch]:
    """Describe the smallest rectangle around all wrong elements of the tensor."""
    around, rows, columns = scene.extent, scene.tensor_rows, scene.tensor_columns
    height, width = around.bottom - around.top, around.right - around.left
    if width == columns and around.bottom == rows:
        pattern, what = Pattern.TAIL, f"the last {height} of {rows} rows"
    elif height == rows and around.right == columns:
        pattern, what = Pattern.TAIL, f"the last {width} of {columns} columns"
    else:
        pattern = Pattern.TILE
        what = f"rows {around.top}:{around.bottom}, columns {around.left}:{around.right}"
    sizes = (height * width, rows * columns)
    cost = log_ways(rows + 1, 2) + log_ways(columns + 1, 2)
    yield from _match_counts(scene, pattern, what, (around.count, around.count), sizes, cost)


def _tiles(scene: Scene) -> Iterator[PatternMatch]:
    """Describe a few tiles of a regular tiling, for each tiling that fits."""
    for height in _SIDES:
        for width in _SIDES:
            if scene.rows % height or scene.columns % width:
                continue
            grid = scene.wrong.reshape(scene.rows // height, height, scene.columns // width, width)
            share = grid.mean(axis=(1, 3))
            hot = share >= 0.5 * share.max()
            if share.max() < _LEAST_HIT_SHARE or np.count_nonzero(hot) > hot.size // 2:
                continue
            area = np.repeat(np.repeat(hot, height, axis=0), width, axis=1)
            row, column = (int(i) for i in np.argwhere(hot)[0])
            first = f"rows from {scene.top + row * height}, columns from {scene.left + column * width}"
            what = f"{np.count_nonzero(hot)} of {hot.size} tiles of {height}x{width} (the first: {first})"
            cost = math.log(len(_SIDES) ** 2) + log_ways(hot.size, int(np.count_nonzero(hot)))
            yield from _match_area(scene, Pattern.TILE, area, what, cost)


def _periodic(scene: Scene, share: Array, *, axis: int) -> Iterator[PatternMatch]:
    """Describe rows or columns that are hit with a period: every k-th, or the same part of every k."""
    hot = share >= max(0.5 * float(share.max()), _LEAST_HIT_SHARE)
    count = int(np.count_nonzero(hot))
    if count < 3 or count > 0.75 * hot.size:
        return
    first = int(np.flatnonzero(hot)[0])
    leading = hot[first : first + _PERIOD_WINDOW]
    places = first + np.flatnonzero(leading)
    origin = scene.left if axis else scene.top
    for period in range(2, min(hot.size // 3, _LONGEST_PERIOD) + 1):
        residues = np.unique(places % period)
        if residues.size == period or places.size < _LEAST_REGULARITY * residues.size * (
            leading.size // period
        ):
            continue
        again = np.isin(np.arange(hot.size) % period, residues)
        area = np.broadcast_to(again[None, :] if axis else again[:, None], scene.wrong.shape)
        pattern, what = _phase(np.sort((residues + origin) % period), period, "columns" if axis else "rows")
        cost = math.log(2 * _LONGEST_PERIOD) + log_ways(period, int(residues.size))
        yield from _match_area(scene, pattern, area, what, cost)
        return


def _phase(residues: Array, period: int, noun: str) -> tuple[Pattern, str]:
    first, last = int(residues[0]), int(residues[-1])
    if residues.size == 1:
        return Pattern.PERIODIC, f"one of every {period} {noun}, from {first} on"
    if last - first + 1 == residues.size and last == period - 1:
        return Pattern.TAIL, f"the last {residues.size} of every {period} {noun}"
    listed = f"{first}:{last + 1}" if last - first + 1 == residues.size else str(residues.tolist())
    return Pattern.PERIODIC, f"{noun} {listed} of every {period}"


_FEW = 3
"""Along an axis of at most this many places, a swap of two of them may be a reversal. A reversal of two or three places
leaves at most one of them right."""


def detect_reversed_axis(scene: Scene) -> Iterator[PatternMatch]:
    """Find the elements of expected with one axis, or all of them, read backwards."""
    if scene.windowed:
        return  # the other end lies outside
    tensor = scene.expected_bits.reshape(scene.shape)
    axes = [axis for axis, extent in enumerate(scene.shape) if extent > 1]
    choices = [(axis,) for axis in axes] + ([tuple(axes)] if len(axes) > 1 else [])
    for flipped in choices:
        if len(flipped) == 1 and _is_exchange(scene, flipped[0]):
            continue
        moved = np.flip(tensor, flipped).reshape(scene.wrong.shape)
        there = moved[scene.wrong]
        hits = int(np.count_nonzero(scene.wrong_actual_bits == there))
        if hits < 0.5 * there.size:
            continue
        what = f"axis {flipped[0]}" if len(flipped) == 1 else "all axes"
        yield PatternMatch(
            pattern=Pattern.REVERSED,
            confidence=move_confidence(scene, there, hits, math.log(len(choices)), moved),
            evidence=f"{hits} of {there.size} wrong elements are as in expected with {what} reversed",
        )


def _is_exchange(scene: Scene, axis: int) -> bool:
    """Return whether exactly two places along a longer axis hold wrong elements. Then these two changed places."""
    wrong = scene.wrong.reshape(scene.shape)
    others = tuple(other for other in range(wrong.ndim) if other != axis)
    return scene.shape[axis] > _FEW and int(np.count_nonzero(wrong.any(axis=others))) == 2


def detect_never_written(scene: Scene) -> Iterator[PatternMatch]:
    """Find wrong elements that all hold one value: zero, or whatever the buffer was filled with."""
    found = scene.wrong_actual_bits
    values, counts = np.unique(found, return_counts=True)
    fill, hits = values[counts.argmax()], int(counts.max())
    value = float(scene.wrong_actual[np.flatnonzero(found == fill)[0]])
    beside = scene.wrong_expected[found == fill]
    if value != 0 and (scene.is_limit(value, beside) or _is_overflow(scene, value, beside)):
        return  # the values are clipped, not filled
    # A value other than zero was picked from the data, so its first occurrence proves nothing.
    picked = int(value != 0)
    what = "0" if value == 0 else f"the fill {value:g} (0x{int(fill):0{2 * scene.dtype.itemsize}x})"
    yield PatternMatch(
        pattern=Pattern.NEVER_WRITTEN,
        confidence=confidence(
            hits=hits - picked,
            total=found.size - picked,
            chance=scene.null_model.fill_chance(int(fill)),
            cost=picked * math.log(values.size),
        ),
        evidence=f"{hits} of {found.size} wrong elements hold {what}",
    )


def _is_overflow(scene: Scene, value: float, beside: Array) -> bool:
    """Return whether the value is infinite and stands only where expected is larger than wherever all is right."""
    right = np.abs(scene.expected[~scene.wrong])
    return math.isinf(value) and right.size > 0 and bool(np.abs(beside).min() > right.max())


def detect_stale(scene: Scene) -> Iterator[PatternMatch]:
    """Find wrong elements that equal, bit for bit, another tensor's at the same places."""
    for other in scene.others:
        there = scene.bits_of(other)[scene.wrong]
        hits = int(np.count_nonzero(scene.wrong_actual_bits == there))
        if hits == 0:
            continue
        yield PatternMatch(
            pattern=Pattern.STALE,
            confidence=confidence(
                hits=hits,
                total=there.size,
                chance=scene.null_model.chance(there),
                cost=math.log(len(scene.others)),
            ),
            evidence=f"{hits} of {there.size} wrong elements equal those of {other.name}",
        )
