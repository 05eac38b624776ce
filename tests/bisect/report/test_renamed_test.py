"""A note where the culprit adds the name of the failing test."""

from dataclasses import replace
from pathlib import Path

import pytest

from precision_bisect.bisect.engine.answer import Conclusion
from precision_bisect.bisect.report.advice import find_caveats
from precision_bisect.bisect.report.report_builder import both_sides
from precision_bisect.runner.commit_diff import CommitDiff, Hunk
from precision_bisect.runner.verdict.symptoms import Family, Symptom, Symptoms
from precision_bisect.store.vocabulary import BisectionOutcome, Phase, Verdict
from tests.bisect.report.conftest import begin, named
from tests.bisect.report.stored_bisection import sha


def caveats(folder: Path, *, failing: str, path: str, lines: tuple[str, ...]) -> tuple[str, ...]:
    """Test `failing` fails from c5 on, another test fails at c4, and c5 changes `lines` of the file at `path`."""

    def failure(test: str) -> Symptoms:
        return Symptoms(exit_code=1, shown=(Symptom(Family.TEST, test, "assert 1 == 2"),))

    stored, stage = begin(folder)
    earlier = stored.probe(
        stage, sha("c4"), Verdict.MISMATCH, symptoms=failure("test_a.py::test_sum").to_json()
    )
    stored.probe(stage, sha("c5"), Verdict.MISMATCH, phase=Phase.CONFIRM, symptoms=failure(failing).to_json())
    diff = CommitDiff(
        commit=sha("c5"),
        parent=sha("c4"),
        files=(),
        changed_files=1,
        added=len(lines),
        removed=0,
        hunks=(Hunk(path=path, header="@@ -1 +1 @@", lines=lines),),
    )
    stored.conclude(
        Conclusion(
            outcome=BisectionOutcome.CULPRIT,
            message="compiler c5 introduced it",
            culprits=(named("c5", "c4"),),
            fail_otherwise=(earlier,),
            diffs=(diff,),
        )
    )
    rows = stored.rows()
    rows = replace(rows, request=rows.request.model_copy(update={"command": True, "bad_when": None}))
    return find_caveats(rows, both_sides(rows))


@pytest.mark.parametrize(
    ("failing", "path", "is_noted"),
    [
        ("test_a.py::test_total", "test_a.py", True),
        ("test_a.py::test_total", "tests/test_a.py", True),
        ("test_a.py::test_total", "tests/other_test_a.py", False),
        ("test_total (test_a.Sums)", "tests/test_a.py", True),
    ],
)
def test_a_name_that_the_culprit_adds_to_the_file_of_the_test_is_noted(
    tmp_path: Path, failing: str, path: str, is_noted: bool
) -> None:
    """A name without a file may be in any file."""
    found = caveats(tmp_path, failing=failing, path=path, lines=("+def test_total():",))
    assert any(note.startswith(f"it adds the failing test's name ({failing})") for note in found) is is_noted


def test_a_name_that_stood_in_the_file_before_is_not_noted(tmp_path: Path) -> None:
    lines = ("-def test_total(a):", "+def test_total():")
    found = caveats(tmp_path, failing="test_a.py::test_total", path="test_a.py", lines=lines)
    assert not [note for note in found if "test_total" in note]
