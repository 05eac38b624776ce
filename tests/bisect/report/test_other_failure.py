"""A note where the culprit fails otherwise than the end."""

from pathlib import Path

import pytest

from precision_bisect.bisect.engine.answer import Conclusion, NamedCommit
from precision_bisect.store.vocabulary import BisectionOutcome, Phase, Verdict
from tests.bisect.report.conftest import begin
from tests.bisect.report.stored_bisection import StoredBisection, sha

MARKER, FORMAT = (
    "exit code 1: version control conflict marker in file",
    "exit code 1: no member named 'format_to'",
)


def concluded(folder: Path, signatures: list[str | None]) -> StoredBisection:
    """c5 is found; it failed so in its runs."""
    stored, stage = begin(folder)
    stored.probe(stage, sha("c4"), Verdict.PASS)
    for signature in signatures:
        stored.probe(stage, sha("c5"), Verdict.MISMATCH, signature=signature, phase=Phase.CONFIRM)
    named = NamedCommit(
        repository="compiler", commit=sha("c5"), parent=sha("c4"), confidence=0.995, merge=False
    )
    stored.conclude(
        Conclusion(outcome=BisectionOutcome.CULPRIT, message="compiler c5 introduced it", culprits=(named,))
    )
    return stored


def test_another_failure_than_the_end_s_is_told_with_what_to_do(tmp_path: Path) -> None:
    (note,) = concluded(tmp_path, [FORMAT, MARKER]).report().caveats
    assert note.startswith(
        f"{sha('c5')[:12]} fails with exit code 1: no member named 'format_to', but the failing end"
    )
    assert note.endswith(
        "to find the commit that introduced out: 3/512 differ, ask with --bad-when 'signature:out: 3/512 differ'"
    )


@pytest.mark.parametrize("signatures", [["out: 3/512 differ"], [FORMAT, "out: 3/512 differ"], [None]])
def test_a_failure_that_the_end_shows_too_or_none_that_is_named_is_not_noted(
    tmp_path: Path, signatures: list[str | None]
) -> None:
    caveats = concluded(tmp_path, signatures).report().caveats
    assert not [note for note in caveats if "but the failing end" in note]
