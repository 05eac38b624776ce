"""Which of a scene test's cases is localized: the one that its run says failed."""

import gzip
from pathlib import Path

import pytest

from precision_bisect.bisect.drive.hand_over import find_failed_case
from precision_bisect.store.tables import ArtifactRow, ProbeRow


def probe(log: Path) -> ProbeRow:
    return ProbeRow(artifacts=[ArtifactRow(kind="log", path=str(log), bytes=1)])


@pytest.mark.parametrize(
    ("lines", "named"),
    [
        (
            "  TestA::one ...\n  TestA::one PASSED\n  TestA::two ...\n  TestA::two FAILED: Golden mismatch",
            "TestA::two",
        ),
        ("  TestA::one ... FAILED: Golden mismatch on 'f'", "TestA::one"),
        ("  TestA::one FAILED: run failed with code -100\n  TestA::two FAILED: the same", "TestA::one"),
        ("it FAILED: TestA::one\n  TestA::one PASSED", None),
    ],
)
def test_the_first_case_that_is_said_to_fail(tmp_path: Path, lines: str, named: str | None) -> None:
    log = tmp_path / "run.log.gz"
    with gzip.open(log, "wt") as text:
        text.write(lines)
    assert find_failed_case(probe(log)) == named


def test_a_log_that_is_gone_names_none(tmp_path: Path) -> None:
    assert find_failed_case(probe(tmp_path / "gone")) is None
