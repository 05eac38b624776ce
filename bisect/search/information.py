"""Information, in bits."""

import numpy as np

from .graph import Floats


def entropy(probability: Floats) -> Floats:
    """The entropy of a yes-or-no outcome, elementwise: 1 at 1/2, 0 at 0 and 1."""
    yes = np.clip(probability, 0.0, 1.0)
    no = 1.0 - yes
    return -(yes * np.log2(yes, where=yes > 0, out=np.zeros_like(yes))) - (
        no * np.log2(no, where=no > 0, out=np.zeros_like(no))
    )
