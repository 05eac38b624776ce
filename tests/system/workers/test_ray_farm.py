"""A farm of hosts that share nothing, on ray: what holds on dask holds here."""

import shutil
import signal
import subprocess
from collections.abc import Generator
from importlib.util import find_spec
from pathlib import Path

import pytest

from precision_bisect.store.vocabulary import ProbeState
from tests.support.interrupts import obey_interrupts
from tests.support.program import PROGRAM
from tests.system.slow_line import SlowLine
from tests.system.test_stops import wait_for_a_run
from tests.system.workers import namespaces
from tests.system.workers.ray_hosts import RayFarm

NAMES = ("a", "b", "c")

pytestmark = [
    pytest.mark.long,
    pytest.mark.xdist_group("ray"),
    pytest.mark.skipif(find_spec("ray") is None, reason="ray is not installed"),
]


@pytest.fixture(name="folder")
def make_folder(tmp_path: Path) -> Generator[Path]:
    why = namespaces.absent()
    if why is not None:
        pytest.skip(why)
    yield tmp_path
    shutil.rmtree(tmp_path, ignore_errors=True)


def start(farm: RayFarm, line: SlowLine, *words: str) -> "subprocess.Popen[str]":
    """Start the driver beside the head."""
    return subprocess.Popen(
        farm.middle.words(*PROGRAM, *words, "--jobs", "3", "--backend", "ray"),
        cwd=line.folder,
        env={**line.variables, **farm.variables},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=obey_interrupts,
    )


def test_three_hosts_that_share_nothing_but_their_builds_find_it(folder: Path) -> None:
    pytest.importorskip("moto.server", reason="moto is not installed")
    pytest.importorskip("s3fs", reason="s3fs is not installed")
    line = SlowLine(folder)
    with RayFarm(folder, NAMES, stores=True) as farm:
        process = start(farm, line, *line.arguments, "--build-store", "s3://team/builds")
        _, err = process.communicate()
        assert process.returncode == 0, err
        finished = [probe for probe in line.check() if probe.state is ProbeState.FINISHED]
        built = [number for name in NAMES for number in farm.read(name, "built")]
    assert {probe.host for probe in finished} == {*NAMES}
    assert not (folder / "built").exists()
    assert sorted(built) == sorted(set(built))
    assert {str(line.shas.index(probe.commit)) for probe in finished} <= {*built}
    logs = {log.parent.name for log in (folder / "home").glob("state/bisections/*/probes/*/run.log.gz")}
    assert {f"{probe.ordinal:04d}" for probe in finished} <= logs


def test_a_host_without_power_costs_its_run_alone(folder: Path) -> None:
    line = SlowLine(folder, commits=64)
    with RayFarm(folder, NAMES) as farm:
        process = start(farm, line, *line.arguments)
        wait_for_a_run(process, 4)
        farm.kill("b")
        _, err = process.communicate()
        assert process.returncode == 0, err
        line.check()


def test_a_driver_that_was_killed_finds_its_runs(folder: Path) -> None:
    line = SlowLine(folder)
    with RayFarm(folder, NAMES) as farm:
        process = start(farm, line, *line.arguments)
        wait_for_a_run(process, 5)
        process.send_signal(signal.SIGKILL)
        process.communicate()
        process = start(farm, line, "--resume")
        _, err = process.communicate()
        assert process.returncode == 0, err
        line.check()
        built = {name: farm.read(name, "built") for name in NAMES}
    for numbers in built.values():
        assert sorted(numbers) == sorted(set(numbers))
