"""Which records of an argument dump have no payload that may be compared, and why; all at once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from .records import Flaw, Geometry

FLAWS = (None, *Flaw)
"""Flaws by their code in a column."""

Booleans = npt.NDArray[np.bool_]


@dataclass(frozen=True, kw_only=True)
class Payloads:
    """What the records say of their payloads, as columns; `geometry_numbers` index `geometries`."""

    geometries: Sequence[Geometry]
    geometry_numbers: npt.NDArray[np.int32]
    numels: npt.NDArray[np.int64]
    bin_offsets: npt.NDArray[np.int64]
    bin_sizes: npt.NDArray[np.int64]
    truncated: Booleans
    overwritten: Booleans
    scalar: Booleans


def find_flaws(payloads: Payloads, file_bytes: int) -> npt.NDArray[np.uint8]:
    """Code in `FLAWS` of each record's first flaw, in a payload file of `file_bytes`; scalars have none."""
    itemsizes = _column(payloads, [one.itemsize for one in payloads.geometries])
    numels = _column(payloads, [-1 if one.numel is None else one.numel for one in payloads.geometries])
    sizes = payloads.bin_sizes
    # Subtracting cannot overflow where the offset is in the file, and elsewhere the result is not needed.
    outside_file = (
        (sizes < 0)
        | (payloads.bin_offsets < 0)
        | (payloads.bin_offsets > file_bytes)
        | (sizes > file_bytes - payloads.bin_offsets)
    )
    flaws = {
        Flaw.OVERWRITTEN: payloads.overwritten,
        Flaw.TRUNCATED: payloads.truncated,
        Flaw.UNKNOWN_DTYPE: itemsizes == 0,
        Flaw.BAD_GEOMETRY: (numels < 0) | (numels != payloads.numels),
        Flaw.NO_PAYLOAD: (sizes == 0) & (numels > 0),
        Flaw.OUTSIDE_FILE: outside_file & (sizes != 0),
        Flaw.SIZE_MISMATCH: sizes != numels * itemsizes,
    }
    codes = [FLAWS.index(flaw) for flaw in flaws]
    found = np.select(list(flaws.values()), codes, default=0).astype(np.uint8)
    found[payloads.scalar] = 0
    return found


def _column(payloads: Payloads, table: list[int]) -> npt.NDArray[np.int64]:
    """One entry a record of a table with one entry a geometry."""
    return np.array(table, np.int64)[payloads.geometry_numbers]
