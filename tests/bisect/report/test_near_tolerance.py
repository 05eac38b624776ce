"""A note where the culprit did no more than tip its case over the tolerance."""

from pathlib import Path

import pytest

from precision_bisect.bisect.engine.answer import Conclusion
from precision_bisect.store.vocabulary import BisectionOutcome, Phase, Verdict
from tests.bisect.report.conftest import begin, named
from tests.bisect.report.stored_bisection import StoredBisection, sha


def concluded(folder: Path, *, start: float | None, parent: float | None, culprit: float) -> StoredBisection:
    """c5 is found; the worst error of the good end, of c4 before it and of c5, in tolerances."""

    def measured(size: float | None) -> dict[str, dict[str, float]]:
        return {} if size is None else {"x": {"times_tolerance": 0.0}, "y": {"times_tolerance": size}}

    stored, stage = begin(folder)
    stored.probe(stage, sha("c0"), Verdict.PASS, phase=Phase.ENDPOINT, metrics=measured(start))
    stored.probe(stage, sha("c4"), Verdict.PASS, metrics=measured(parent))
    for _ in range(2):
        stored.probe(stage, sha("c5"), Verdict.MISMATCH, phase=Phase.CONFIRM, metrics=measured(culprit))
    stored.conclude(
        Conclusion(
            outcome=BisectionOutcome.CULPRIT,
            message="compiler c5 introduced it",
            culprits=(named("c5", "c4"),),
        )
    )
    return stored


def test_an_error_that_grew_before_is_told_with_what_finds_its_commit(tmp_path: Path) -> None:
    (caveat,) = concluded(tmp_path, start=1e-4, parent=0.95, culprit=1.1).report().caveats
    assert caveat == (
        f"the worst error is 1.1 times the tolerance at {sha('c5')[:12]}, and 0.95 times at {sha('c4')[:12]}, which "
        "passes; it was 0.0001 times at the good end: an earlier commit made it grow; to find that one, ask with "
        "--bad-when times_tolerance:1e-02"
    )


def test_an_error_that_was_there_from_the_start_may_be_rounding(tmp_path: Path) -> None:
    (caveat,) = concluded(tmp_path, start=0.7, parent=0.6, culprit=1.01).report().caveats
    assert caveat.endswith(
        "it was 0.7 times at the good end: rounding alone may decide which commits fail, and the tolerance may be too "
        "tight"
    )


@pytest.mark.parametrize(("parent", "culprit"), [(0.5, 1.0), (0.0, 1.1), (None, 1.1), (1e-4, 300.0)])
def test_an_error_of_another_size_than_before_needs_no_note(
    tmp_path: Path, parent: float | None, culprit: float
) -> None:
    assert concluded(tmp_path, start=1e-4, parent=parent, culprit=culprit).report().caveats == ()
