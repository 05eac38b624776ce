"""The runtime searched alone, under the build directory that a failing run left."""

import json
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from precision_bisect.demo.scenarios import Scenario
from tests.system.conftest import DemoStack


@pytest.mark.long
def test_the_runtime_is_searched_under_a_frozen_build(make: Callable[..., DemoStack], tmp_path: Path) -> None:
    """The fault is in a header of the runtime, which the frozen kernels include: binaries must not be reused."""
    stack = make(Scenario.RUNTIME_BUMP)
    assert stack.run(*stack.arguments).code == 0
    report = stack.report()
    (inner,) = [each for each in report["ranges"] if each["repository"] == "minirt"]
    build = next(
        Path(run["build_directory"])
        for probe in report["probes"]
        for run in probe["runs"]
        if run["verdict"] == "mismatch" and run["build_directory"]
    )
    golden = next(Path(tmp_path, "home").rglob("golden/*/in")).parent
    output = tmp_path / "runtime-report"
    alone = [
        *("--stack", str(stack.directory / "stack.toml"), "--repo", "minirt"),
        *("--good", inner["good"], "--bad", inner["bad"]),
    ]
    data = ["--golden-data", str(golden)]
    arguments = [*alone, *data, "--case", stack.truth.case]
    before = sorted(build.rglob("*"))
    done = stack.run(*arguments, "--runtime-dir", str(build), "-o", str(output))
    assert done.code == 0, done.err
    found = json.loads((output / "report.json").read_text())
    assert found["culprits"][0]["commit"] == stack.truth.culprits[0].commit
    assert sorted(build.rglob("*")) == before

    # Without the script of the case, by what the build directory and the data say of themselves.
    done = stack.run(*alone, *data, "--runtime-dir", str(build), "-o", str(tmp_path / "replayed"))
    assert done.code == 0, done.err
    replayed = json.loads((tmp_path / "replayed" / "report.json").read_text())
    assert replayed["case"] == str(build)
    assert replayed["culprits"][0]["commit"] == stack.truth.culprits[0].commit
    assert sorted(build.rglob("*")) == before
    script = subprocess.run(
        ["sh", tmp_path / "replayed" / "reproduce-bad.sh", tmp_path / "again"], capture_output=True, text=True
    )
    assert script.returncode == 1
    assert "does not match golden" in script.stdout + script.stderr
    logs = [Path(run["log"]) for probe in found["probes"] for run in probe["runs"]]
    assert logs
    for probe in found["probes"]:
        for run in probe["runs"]:
            assert "--runtime-dir" in run["command"]
    assert "in place of compiling the case" in (output / "report.md").read_text()
    assert "--runtime-dir" in (output / "reproduce-bad.sh").read_text()

    for wrong, says in (
        ([*arguments, "--runtime-dir", str(tmp_path)], "expected a build directory"),
        ([*alone, "--runtime-dir", str(build)], "expected frozen data in its data/"),
        ([*alone, "--runtime-dir", str(build), "--golden-data", str(build)], "that can be run on its data"),
        ([*stack.arguments, "--runtime-dir", str(build)], "expected --repo"),
    ):
        refused = stack.run(*wrong)
        assert refused.code == 2
        assert says in refused.err
        assert len(refused.err.splitlines()) == 1
