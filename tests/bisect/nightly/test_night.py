"""In which order a night asks its cells, and where it is written."""

from pathlib import Path

import pytest

from precision_bisect.bisect.nightly.matrix import NightlyConfig, load_config
from precision_bisect.bisect.nightly.night import matrix, night_folder
from precision_bisect.runner.errors import UsageError

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


def test_a_misspelt_key_is_told_with_the_one_that_was_meant(tmp_path: Path) -> None:
    file = tmp_path / "night.toml"
    for line, says in (
        ('budgett = "6h"', "budgett: unknown key: did you mean budget?"),
        ("platforms.sim.runz = 3", "platforms.sim.runz: unknown key: did you mean runs?"),
        ('budget = "soon"\nplatforms.sim.runs = 1', "budget: expected a time"),
    ):
        file.write_text(f'job = "j"\nstack = "pypto"\ncases = ["a.py"]\n{line}\n')
        with pytest.raises(UsageError) as caught:
            load_config(file)
        assert says in str(caught.value)


@pytest.mark.parametrize("case", ["", "'a.py", "../a.py"])
def test_a_case_that_cannot_be_run_is_told_before_the_night(case: str, tmp_path: Path) -> None:
    file = tmp_path / "night.toml"
    file.write_text(f'job = "j"\nstack = "pypto"\ncases = ["a.py", "{case}"]\n[platforms.a2a3sim]\n')
    with pytest.raises(UsageError, match=r"night.toml: cases.*: expected a"):
        load_config(file)


def test_nights_are_written_beside_each_other() -> None:
    assert night_folder(CONFIG, 12) == Path("/nights/night-0012")
