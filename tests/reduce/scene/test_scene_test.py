"""The scene test that is written into a build: which tensors and scalars it hands over, and with which tolerance."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from precision_bisect.reduce.scene.test import FILE_NAME, wrap
from precision_bisect.runner.compare.statistics.statistics import Tolerance
from precision_bisect.runner.errors import UserError
from tests.reduce.small_builds import SHIFT, small_build


def constants(file: Path) -> dict[str, object]:
    """What the file assigns at its top, where that is a literal."""
    found: dict[str, object] = {}
    for statement in ast.parse(file.read_text()).body:
        if isinstance(statement, ast.Assign) and isinstance(statement.targets[0], ast.Name):
            try:
                found[statement.targets[0].id] = ast.literal_eval(statement.value)
            except ValueError:
                continue
    return found


def test_a_build_is_written_with_its_tensors_and_may_be_written_again(tmp_path: Path) -> None:
    build = small_build(tmp_path / "build", SHIFT)
    for rtol in (1e-3, 1e-4):
        file = wrap(build, None, Tolerance(rtol=rtol, atol=0.5))
        assert file == build / FILE_NAME
        assert f"RTOL = {rtol}\n" in file.read_text()
    assert "    ATOL = 0.5\n" in file.read_text()
    written = constants(file)
    assert written["TENSORS"] == [
        ("x0", (8,), "float32", True, False),
        ("x1", (8,), "float32", False, True),
        ("x2", (8,), "float32", False, True),
    ]
    assert written["SCALARS"] == []
    assert "@" not in file.read_text().replace("@scene_test", "")


def test_frozen_data_from_elsewhere_are_named(tmp_path: Path) -> None:
    build, other = small_build(tmp_path / "build", SHIFT), small_build(tmp_path / "other", SHIFT)
    file = wrap(build, other / "data", Tolerance())
    assert f"DATA = Path({str(other / 'data')!r})" in file.read_text()


def test_a_file_of_someone_else_is_left_alone(tmp_path: Path) -> None:
    build = small_build(tmp_path / "build", SHIFT)
    (build / FILE_NAME).write_text("mine = 1\n")
    with pytest.raises(UserError, match="found another file"):
        wrap(build, None, Tolerance())
    assert (build / FILE_NAME).read_text() == "mine = 1\n"
