"""A farm of hosts that share nothing: neither a folder nor a name, with a driver that sees none of their files."""

import shutil
import signal
import subprocess
from collections.abc import Callable, Generator
from pathlib import Path

import pytest

from precision_bisect.store.vocabulary import BuildSource, ProbeState
from tests.system.slow_line import SlowLine
from tests.system.test_stops import wait_for_a_run
from tests.system.workers.namespaces import Farm, absent
from tests.system.workers.ray_hosts import RayFarm

pytestmark = pytest.mark.long

ON_DASK = pytest.param(("distributed", Farm), id="dask")
ON_RAY = pytest.param(("ray", RayFarm), id="ray", marks=pytest.mark.xdist_group("ray"))


@pytest.fixture(name="open_farm", params=[ON_DASK, ON_RAY])
def make_open_farm(tmp_path: Path, request: pytest.FixtureRequest) -> Callable[..., Farm]:
    package, kind = request.param
    if (why := absent(package)) is not None:
        pytest.skip(why)
    return lambda **options: kind(tmp_path, ("a", "b", "c"), **options)


@pytest.fixture(name="farm")
def make_farm(open_farm: Callable[..., Farm]) -> Generator[Farm]:
    with open_farm() as farm:
        yield farm


@pytest.fixture(name="make")
def make_line(tmp_path: Path) -> Generator[Callable[..., SlowLine]]:
    def of(**options: object) -> SlowLine:
        return SlowLine(tmp_path, **options)  # type: ignore[arg-type]

    yield of
    shutil.rmtree(tmp_path, ignore_errors=True)


@pytest.mark.parametrize("open_farm", [ON_DASK], indirect=True)
def test_three_hosts_that_share_nothing_find_it(farm: Farm, make: Callable[..., SlowLine]) -> None:
    line = make()
    process = farm.drive(line, *line.arguments)
    _, err = process.communicate()
    assert process.returncode == 0, err
    probes = line.check()
    finished = [probe for probe in probes if probe.state is ProbeState.FINISHED]
    assert {probe.host for probe in finished} == {"a", "b", "c"}
    assert not (line.folder / "built").exists()
    for name in farm.names:
        built = farm.read(name, "built")
        assert sorted(built) == sorted(set(built))
        assert {str(line.shas.index(probe.commit)) for probe in finished if probe.host == name} <= {*built}
    logs = {log.parent.name for log in (line.folder / "home").glob("state/bisections/*/probes/*/run.log.gz")}
    assert {f"{probe.ordinal:04d}" for probe in finished} <= logs


def test_what_one_host_built_no_other_builds(
    open_farm: Callable[..., Farm], make: Callable[..., SlowLine]
) -> None:
    pytest.importorskip("moto.server", reason="moto is not installed")
    pytest.importorskip("s3fs", reason="s3fs is not installed")
    line = make()
    stored = ("--build-store", "s3://team/builds")
    with open_farm(stores=True) as farm:
        process = farm.drive(line, *line.arguments, *stored)
        _, err = process.communicate()
        assert process.returncode == 0, err
        line.check()
        # A host's own builds are run where they are; a new driver does not know where that is.
        process = farm.drive(line, *line.arguments, *stored, "--fresh")
        _, err = process.communicate()
        assert process.returncode == 0, err
        built = {name: farm.read(name, "built") for name in farm.names}
    everywhere = [number for numbers in built.values() for number in numbers]
    assert sorted(everywhere) == sorted(set(everywhere))
    finished = [probe for probe in line.probes() if probe.state is ProbeState.FINISHED]
    assert {str(line.shas.index(probe.commit)) for probe in finished} <= {*everywhere}
    elsewhere = [
        probe for probe in finished if str(line.shas.index(probe.commit)) not in built[probe.host or ""]
    ]
    assert elsewhere
    assert {probe.build_source for probe in elsewhere} <= {BuildSource.CACHED, BuildSource.PRESENT}


def test_a_host_without_power_costs_its_run_alone(farm: Farm, make: Callable[..., SlowLine]) -> None:
    line = make(commits=64)
    process = farm.drive(line, *line.arguments)
    wait_for_a_run(process, 4)
    farm.kill("b")
    _, err = process.communicate()
    assert process.returncode == 0, err
    line.check()


def test_links_that_are_cut_for_a_minute_cost_nothing_that_counts(
    farm: Farm, make: Callable[..., SlowLine]
) -> None:
    """A minute is longer than dask and ray bear silence: they give the workers up, and these themselves."""
    line = make(commits=64)
    process = farm.drive(line, *line.arguments)
    wait_for_a_run(process, 4)
    for name in farm.names:
        farm.cut(name)
    with pytest.raises(subprocess.TimeoutExpired):
        process.communicate(timeout=60)
    for name in farm.names:
        farm.restore(name)
    _, err = process.communicate()
    assert process.returncode == 0, err
    line.check()


@pytest.mark.parametrize("open_farm", [ON_RAY], indirect=True)
def test_a_driver_that_was_killed_finds_its_runs(farm: Farm, make: Callable[..., SlowLine]) -> None:
    line = make()
    process = farm.drive(line, *line.arguments)
    wait_for_a_run(process, 5)
    process.send_signal(signal.SIGKILL)
    process.communicate()
    process = farm.drive(line, "--resume")
    _, err = process.communicate()
    assert process.returncode == 0, err
    line.check()
    for numbers in (farm.read(name, "built") for name in farm.names):
        assert sorted(numbers) == sorted(set(numbers))
