"""A farm of hosts that share nothing: neither a folder nor a name, with a driver that sees none of their files."""

import shutil
import subprocess
from collections.abc import Callable, Generator
from pathlib import Path

import pytest

from precision_bisect.store.vocabulary import BuildSource, ProbeState
from tests.support.interrupts import obey_interrupts
from tests.support.program import PROGRAM
from tests.system.slow_line import SlowLine
from tests.system.test_stops import wait_for_a_run
from tests.system.workers import namespaces

pytest.importorskip("distributed", reason="dask's distributed is not installed")


@pytest.fixture(name="farm")
def make_farm(tmp_path: Path) -> Generator[namespaces.Farm]:
    why = namespaces.absent()
    if why is not None:
        pytest.skip(why)
    with namespaces.Farm(tmp_path, ("a", "b", "c")) as farm:
        yield farm


@pytest.fixture(name="make")
def make_line(tmp_path: Path) -> Generator[Callable[..., SlowLine]]:
    def of(**options: object) -> SlowLine:
        return SlowLine(tmp_path, **options)  # type: ignore[arg-type]

    yield of
    shutil.rmtree(tmp_path, ignore_errors=True)


def start(farm: namespaces.Farm, line: SlowLine, *words: str) -> "subprocess.Popen[str]":
    """Start the driver beside the scheduler."""
    return subprocess.Popen(
        farm.middle.words(*PROGRAM, *words),
        cwd=line.folder,
        env={**line.variables, "DASK_SCHEDULER_ADDRESS": farm.address},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=obey_interrupts,
    )


@pytest.mark.long
def test_three_hosts_that_share_nothing_find_it(farm: namespaces.Farm, make: Callable[..., SlowLine]) -> None:
    line = make()
    process = start(farm, line, *line.arguments, "--jobs", "3", "--backend", "dask")
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


@pytest.mark.long
def test_what_one_host_built_no_other_builds(tmp_path: Path, make: Callable[..., SlowLine]) -> None:
    pytest.importorskip("moto.server", reason="moto is not installed")
    pytest.importorskip("s3fs", reason="s3fs is not installed")
    if (why := namespaces.absent()) is not None:
        pytest.skip(why)
    line = make()
    with namespaces.Farm(tmp_path, ("a", "b", "c"), stores=True) as farm:
        options = ("--jobs", "3", "--backend", "dask", "--build-store", "s3://team/builds")
        process = start(farm, line, *line.arguments, *options)
        _, err = process.communicate()
        assert process.returncode == 0, err
        finished = [probe for probe in line.check() if probe.state is ProbeState.FINISHED]
        built = {name: farm.read(name, "built") for name in farm.names}
    everywhere = [number for numbers in built.values() for number in numbers]
    assert sorted(everywhere) == sorted(set(everywhere))
    assert {str(line.shas.index(probe.commit)) for probe in finished} <= {*everywhere}
    elsewhere = [
        probe for probe in finished if str(line.shas.index(probe.commit)) not in built[probe.host or ""]
    ]
    assert elsewhere
    assert {probe.build_source for probe in elsewhere} <= {BuildSource.CACHED, BuildSource.PRESENT}


@pytest.mark.long
def test_a_host_without_power_costs_its_run_alone(
    farm: namespaces.Farm, make: Callable[..., SlowLine]
) -> None:
    line = make(commits=64)
    process = start(farm, line, *line.arguments, "--jobs", "3", "--backend", "dask")
    wait_for_a_run(process, 4)
    farm.kill("b")
    _, err = process.communicate()
    assert process.returncode == 0, err
    line.check()


@pytest.mark.long
def test_links_that_are_cut_for_a_minute_cost_nothing_that_counts(
    farm: namespaces.Farm, make: Callable[..., SlowLine]
) -> None:
    """A minute is longer than dask bears silence: it gives the workers up, and they themselves."""
    line = make(commits=64)
    process = start(farm, line, *line.arguments, "--jobs", "3", "--backend", "dask")
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
