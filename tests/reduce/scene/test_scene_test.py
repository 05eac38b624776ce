"""The scene test that is written into a build: which tensors and scalars it hands over, and with which tolerance."""

from __future__ import annotations

import ast
from pathlib import Path

from precision_bisect.reduce.scene import FILE_NAME, write_scene_test
from precision_bisect.runner.build_output.directory import BuildDirectory
from precision_bisect.runner.case.preflight import entry_arguments
from precision_bisect.runner.compare.statistics import Tolerance
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
    build = BuildDirectory.open(small_build(tmp_path / "build", SHIFT))
    arguments = entry_arguments(build, build.golden_data())
    for rtol in (1e-3, 1e-4):
        file = write_scene_test(tmp_path / "build", arguments, Tolerance(rtol=rtol, atol=0.5))
        assert file == tmp_path / "build" / FILE_NAME
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
