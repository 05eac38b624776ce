"""Numbers too small for the normal form of a type came out as zero."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np

from ....tensor.view import DType
from ..finding import Pattern, PatternMatch
from ..odds import confidence
from ..scene import Scene

_SMALLEST_NORMAL = {"float16": 2.0**-14, "float32 and bfloat16": 2.0**-126, "float64": 2.0**-1022}
_FLOATS = (DType.FLOAT64, DType.FLOAT32, DType.FLOAT16, DType.BFLOAT16)


def flushed_denormals(scene: Scene) -> Iterator[PatternMatch]:
    """The wrong elements are zero where a denormal number was expected, of the tensor's type or of a narrower one.

    What tells is that the other elements, none of them denormal, are right.
    """
    if scene.dtype not in _FLOATS:
        return
    size = np.abs(scene.expected)
    for name, normal in _SMALLEST_NORMAL.items():
        denormal = (size < normal) & (size > 0)
        flushed = denormal & scene.wrong & (scene.actual == 0)
        hits, expected = int(np.count_nonzero(flushed)), int(np.count_nonzero(denormal))
        if hits == 0 or hits < 0.9 * expected:
            continue
        yield PatternMatch(
            pattern=Pattern.FLUSHED_DENORMALS,
            confidence=confidence(
                hits=hits,
                total=scene.wrong_count,
                chance=expected / int(np.count_nonzero(size > 0)),
                cost=math.log(len(_SMALLEST_NORMAL)),
            ),
            evidence=f"{hits} of {scene.wrong_count} wrong elements are 0, and {hits} of {expected} where expected "
            f"is a denormal number of {name} (below {normal:.3g})",
        )
        return
