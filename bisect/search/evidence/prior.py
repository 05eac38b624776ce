"""How likely each commit is to blame for a failing case, judged by the names of what it touches."""

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from math import log

import numpy as np

from ..graph.graph import Floats

_MOST = 8.0
_WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[0-9]+[a-z]+")
_LEAST_LETTERS = 3


def prior_weights(files: Sequence[Iterable[str]], near: Iterable[str]) -> Floats | None:
    """A weight for each commit, from 1 to 8, by the words that the paths it touches share with the names in `near`.

    files: for each commit the paths that it changes. near: names of the case, its kernels. A word counts for
    more the fewer commits touch it (inverse document frequency; Sparck Jones, 1972): one that all of them touch says
    nothing. The commit with the largest sum weighs 8, one without a word in common 1, those between by their
    sum in the exponent. None where no commit has one: nothing is known then.

    >>> prior_weights([["docs/index.md"], ["ops/rms_norm.py", "setup.py"], ["ops/add.py"]], ["test_rms_norm.py::small"])
    array([1., 8., 1.])
    """
    wanted = _words(near)
    shared = [_words(paths) & wanted for paths in files]
    commits = Counter(word for words in shared for word in words)
    scores = np.array([sum(log(len(files) / commits[word]) for word in words) for words in shared])
    if not scores.any():
        return None
    return _MOST ** (scores / scores.max())


def _words(names: Iterable[str]) -> set[str]:
    """The words of some names, whichever way they are joined."""
    return {word.lower() for name in names for word in _WORD.findall(name) if len(word) >= _LEAST_LETTERS}
