"""In which order a night asks its cells, and where it is written."""

from pathlib import Path

from precision_bisect.bisect.nightly.config import NightlyConfig
from precision_bisect.bisect.nightly.night import folder_of, matrix

CONFIG = NightlyConfig.model_validate(
    {
        "job": "small",
        "stack": "demo",
        "branches": ["main", "gone", "next"],
        "cases": ["a.py", "b.py"],
        "platforms": {"sim": {}},
        "tolerances": {"loose": ["--rtol", "1"], "tight": []},
        "output": "/nights",
    }
)


def test_cells_of_one_commit_follow_each_other_and_branches_without_a_head_are_left_out() -> None:
    cells = [(key.branch, key.case, key.tolerance) for key in matrix(CONFIG, {"next": "2", "main": "1"})]
    of_a_branch = [("a.py", "loose"), ("a.py", "tight"), ("b.py", "loose"), ("b.py", "tight")]
    assert cells == [(branch, *rest) for branch in ("main", "next") for rest in of_a_branch]


def test_nights_are_written_beside_each_other() -> None:
    assert folder_of(CONFIG, 12) == Path("/nights/night-0012")
