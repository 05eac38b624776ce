"""What one change alone does not explain: a second culprit beside it, or an earlier fault that was mended.

A fault may be cherry-picked to a parallel line, and a range may be broken, mended, and broken again. Then commits fail
that do not have the culprit among their ancestors. Such a hypothesis is a culprit c with a region of further bad
commits: the descendants of another commit d, on a line beside it; or those of an earlier one that are not yet
descendants of its mending. It counts for c. A region that no failure asks for is left out, and so is what explains
the runs as one change alone does. Where a commit undoes another, the region between the two is likely to be such a one:
it was undone for a reason, which some say and most do not.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from ..graph.graph import Floats, Integers, Mask
from ..graph.window import Window
from .groups import Groups

_ANOTHER_LINE = 0.3
_BROKEN_BEFORE = 0.03
_REVERTED, _BROUGHT_BACK = 0.3, 0.1
"""That one of the regions between a commit and its undoing in which something failed is of this kind: where the undoing
says so itself, and where it only brings a file back to what it was."""
_MOST = 96
"""Hypotheses."""
_MOST_CULPRITS = 32
_WORSE = 5.0
"""Hypotheses that explain so many commits less than the best one are left out."""


class SecondChanges(NamedTuple):
    """Hypotheses of two changes. culprit: the group of each; shape [e]. bad: which of the t commits that were run are
    bad under each; shape [t, e]. log_prior: beside the culprit alone; shape [e]."""

    culprit: Integers
    bad: Mask
    log_prior: Floats


def second_changes(
    groups: Groups, bad: Mask, fails: Floats, passes: Floats, *, windows: Sequence[Window] = ()
) -> SecondChanges:
    """The hypotheses of two changes that explain the runs best. Where one culprit would explain each failure, though
    not each pass, only regions count that are known to be mended: flaky commits would make others likely. bad: as of
    `Groups.sides`; fails, passes: of the commits that were run; shape [t]. windows: between a change and its
    undoing. A pair that explains the runs as one change would is left out.
    """
    if not fails.any():
        return SecondChanges(np.zeros(0, dtype=np.int64), bad[:, :0], np.zeros(0))
    unexplained = ((fails > 0)[:, None] & ~bad).sum(axis=0)
    told = (fails > 0).astype(np.float64) - (passes > 0)
    regions, priors = _undone(groups, windows, fails)
    if unexplained.min() > 0:
        regions, priors = _together((regions, priors), _regions(bad, groups.share, told))
    if not len(priors):
        return SecondChanges(np.zeros(0, dtype=np.int64), bad[:, :0], np.zeros(0))
    culprits = np.argsort(unexplained + ((passes > 0)[:, None] & bad).sum(axis=0), kind="stable")
    culprits = culprits[:_MOST_CULPRITS]
    # How many commits each pair calls bad which failed, less those which passed.
    inside, beside = bad[:, culprits].astype(np.float64), regions.astype(np.float64)
    score = (told @ inside)[:, None] + (told @ beside)[None] - inside.T @ (told[:, None] * beside)
    # Each of the two explains failures that the other does not.
    failed = (fails > 0)[:, None]
    needed = ((1 - inside).T @ (failed * beside) > 0) & ((failed * inside).T @ (1 - beside) > 0)
    score = np.where(needed, score, -np.inf)
    best = np.argsort(-score, axis=None, kind="stable")[:_MOST]
    best = best[np.isfinite(score.ravel()[best]) & (score.ravel()[best] >= score.max() - _WORSE)]
    of_culprit, of_region = np.unravel_index(best, score.shape)
    culprit, both = culprits[of_culprit], bad[:, culprits[of_culprit]] | regions[:, of_region]
    alone = {column.tobytes() for column in bad.T}
    new = np.array([column.tobytes() not in alone for column in both.T], dtype=np.bool_)
    return SecondChanges(culprit[new], both[:, new], np.log(priors[of_region[new]]))


def _regions(bad: Mask, share: Floats, told: Floats) -> tuple[Mask, Floats]:
    """Different regions of the commits that were run, those first that hold most failures and least passes, and the
    chance of each. Shapes [t, k], [k]. told: 1 for a commit that failed, -1 for one that passed; shape [t]."""
    signatures, place = np.unique(bad, axis=1, return_inverse=True)
    shares = np.bincount(place.ravel(), weights=share)
    begun = signatures.astype(np.float64)
    # The last column: never mended.
    score = np.append(
        (told @ begun)[:, None] - begun.T @ (told[:, None] * begun), (told @ begun)[:, None], axis=1
    )
    chance = np.append(_BROKEN_BEFORE * np.outer(shares, shares), _ANOTHER_LINE * shares[:, None], axis=1)
    mended = np.append(signatures, np.zeros((len(bad), 1), dtype=np.bool_), axis=1)
    best = np.argsort(-score, axis=None, kind="stable")[:_MOST]
    first, last = np.unravel_index(best, score.shape)
    return _together((signatures[:, first] & ~mended[:, last], chance.ravel()[best].astype(np.float64)))


def _undone(groups: Groups, windows: Sequence[Window], fails: Floats) -> tuple[Mask, Floats]:
    """The regions between commits and their undoing in which there was a failure, and the chance of each."""
    below = np.array([*groups.below.values()], dtype=np.bool_)
    parts: list[tuple[Mask, Floats]] = []
    for reverted, chance in ((True, _REVERTED), (False, _BROUGHT_BACK)):
        ends = [(window.start, window.end) for window in windows if window.reverted is reverted]
        start, end = np.array(ends, dtype=np.int64).reshape(-1, 2).T
        undone = below[:, start] & ~below[:, end]
        regions: Mask = np.unique(undone[:, undone[fails > 0].any(axis=0)], axis=1)
        count = len(regions.T)
        parts.append((regions, np.full(count, chance / max(1, count), dtype=np.float64)))
    return _together(*parts)


def _together(*parts: tuple[Mask, Floats]) -> tuple[Mask, Floats]:
    """Different regions, and the chance of each."""
    masks, of_mask = np.unique(
        np.concatenate([each for each, _ in parts], axis=1), axis=1, return_inverse=True
    )
    chance = np.concatenate([each for _, each in parts])
    return masks, np.bincount(of_mask.ravel(), weights=chance).astype(np.float64)
