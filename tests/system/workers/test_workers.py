"""Several workers: what one worker finds they find too, whatever is killed; builds once, and no false verdict."""

import contextlib
import json
import os
import random
import signal
import subprocess
import sys
from collections.abc import Callable, Generator
from pathlib import Path

import psutil
import pytest

from precision_bisect.store.vocabulary import ProbeState
from tests.support import postgresql
from tests.support.program import kill_driver
from tests.system.slow_line import SlowLine
from tests.system.test_stops import resume_words, wait_for_a_run

KILLS = 3


def loky_workers(driver: "subprocess.Popen[str]") -> list[psutil.Process]:
    """The processes that make probes."""
    return [
        child
        for child in psutil.Process(driver.pid).children()
        if any("popen_loky" in word for word in child.cmdline())
    ]


def test_three_workers_find_it_and_build_nothing_twice(make: Callable[..., SlowLine]) -> None:
    line = make(hangs=(1, 23))
    process = line.start(*line.arguments, "--jobs", "3")
    line.hold.wait(process, 3)
    line.let_go()
    _, err = process.communicate()
    assert process.returncode == 0, err
    probes = line.check()
    ended = {str(line.shas.index(probe.commit)) for probe in probes if probe.state is ProbeState.FINISHED}
    assert [line.builds().count(number) for number in ended] == [1] * len(ended)


@pytest.mark.long
def test_a_run_that_has_lost_its_value_is_stopped(make: Callable[..., SlowLine]) -> None:
    """The culprit comes early: beside the first run that fails, those of later commits tell nothing."""
    line = make(commits=64, culprit=3, hangs=(30, 60))
    done = line.run(*line.arguments, "--jobs", "2")
    assert done.returncode == 0, done.stderr
    states = [(line.shas.index(probe.commit), probe.state) for probe in line.check()]
    cancelled = [number for number, state in states if state is ProbeState.CANCELLED]
    assert [number for number in cancelled if 30 <= number < 60]
    assert "stopped: its result is not waited for any more" in done.stderr


@pytest.mark.long
def test_a_worker_that_is_killed_is_replaced_and_its_run_made_again(make: Callable[..., SlowLine]) -> None:
    line = make(hangs=(1, 23))
    process = line.start(*line.arguments, "--jobs", "2")
    line.hold.wait(process, 2)
    loky_workers(process)[0].kill()
    line.let_go()
    _, err = process.communicate()
    assert process.returncode == 0, err
    assert "a worker was killed in run" in err
    assert max(probe.attempt for probe in line.check()) > 1


@pytest.mark.long
def test_a_worker_that_is_killed_in_the_same_run_each_time_ends_it(make: Callable[..., SlowLine]) -> None:
    line = make()
    (line.folder / "case.sh").write_text(f"{kill_driver('KILL')}; sleep 100")
    done = line.run(*line.arguments, "--jobs", "2")
    assert done.returncode == 1
    assert "expected workers that live" in done.stderr, done.stderr
    assert resume_words(done.stderr)
    assert not [probe for probe in line.probes() if probe.state is ProbeState.FINISHED]


@pytest.mark.long
def test_killed_at_random_instants_nothing_is_lost_and_nothing_false_is_noted(
    make: Callable[..., SlowLine],
) -> None:
    line = make(commits=64)
    chance = random.Random(5)
    finished = 0
    process = line.start(*line.arguments, "--jobs", "2")
    for _ in range(KILLS):
        wait_for_a_run(process, finished + 2)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(chance.uniform(0, 0.6))
        process.kill()
        process.communicate()
        psutil.wait_procs(line.processes(), timeout=60)
        assert line.processes() == []
        finished = sum(probe.state is ProbeState.FINISHED for probe in line.probes())
        process = line.start("--resume", "--jobs", "2")
    _, err = process.communicate()
    assert process.returncode == 0, err
    line.check()


@pytest.mark.long
def test_ctrl_c_records_nothing_and_says_how_to_go_on(make: Callable[..., SlowLine]) -> None:
    line = make(hangs=(1, 23))
    process = line.start(*line.arguments, "--jobs", "2")
    line.hold.wait(process, 2)
    process.send_signal(signal.SIGINT)
    _, err = process.communicate()
    assert process.returncode == 130, err
    assert "Traceback" not in err
    assert line.processes() == []
    ends = (line.shas[0], line.shas[-1])
    held = [probe for probe in line.probes() if probe.commit not in ends]
    assert [probe.state for probe in held] == [ProbeState.STARTED] * 2
    assert "--jobs 2" in err
    line.let_go()
    done = line.run(*resume_words(err), "--jobs", "2")
    assert done.returncode == 0, done.stderr
    line.check()


@pytest.mark.long
def test_a_budget_ends_with_what_is_known(make: Callable[..., SlowLine]) -> None:
    line = make(hangs=(1, 23))
    process = line.start(*line.arguments, "--jobs", "2")
    # Of two workers each waits for a commit that does not end: the ends are known by now.
    line.hold.wait(process, 2)
    process.send_signal(signal.SIGINT)
    process.communicate()
    spent = line.run("--resume", "--jobs", "2", "--budget", "0.01s")
    assert spent.returncode == 6, spent.stderr
    assert "the budget is spent, and no run came to its end; to resume with a larger one:" in spent.stderr
    assert "--jobs 2 --budget 0.02s --resume " in spent.stderr, "the same would be spent in vain again"
    report = line.report()
    assert report["outcome"] == "budget"
    suspects = [suspect["commit"] for suspect in report["suspects"]]
    assert line.shas[line.culprit] in suspects
    assert line.shas[0] not in suspects
    line.let_go()
    done = line.run("--resume", "--jobs", "2", "--budget", "2h")
    assert done.returncode == 0, done.stderr
    line.check()


@pytest.mark.parametrize("budget", ["soon", "-3m", "0", "1w"])
def test_a_budget_that_is_no_time(budget: str, make: Callable[..., SlowLine]) -> None:
    line = make(commits=2, culprit=1)
    done = line.run(*line.arguments, f"--budget={budget}")
    assert done.returncode == 2
    assert "expected a time such as 20m or 6h" in done.stderr


@pytest.mark.long
def test_a_cluster_that_is_not_named(make: Callable[..., SlowLine]) -> None:
    line = make(commits=2, culprit=1)
    line.variables.pop("DASK_SCHEDULER_ADDRESS", None)
    done = line.run(*line.arguments, "--backend", "dask")
    assert done.returncode == 2
    assert "DASK_SCHEDULER_ADDRESS" in done.stderr


@pytest.fixture
def dask_cluster(tmp_path: Path) -> Generator[tuple[str, Callable[[], list[psutil.Process]]]]:
    """A scheduler and three worker processes on this machine: its address, and the workers."""
    distributed = pytest.importorskip("distributed", reason="dask's distributed is not installed")
    file = tmp_path / "scheduler.json"
    variables = {
        **os.environ,
        "DASK_DISTRIBUTED__LOGGING__DISTRIBUTED": "error",
        "PRECISION_BISECT_HOME": str(tmp_path / "home-of-workers"),
    }

    def start(program: str, *options: str) -> "subprocess.Popen[bytes]":
        words = [sys.executable, "-m", f"distributed.cli.{program}", "--scheduler-file", str(file)]
        return subprocess.Popen(
            [*words, "--no-dashboard", *options], stderr=subprocess.DEVNULL, env=variables
        )

    scheduler = start("dask_scheduler", "--host", "127.0.0.1", "--port", "0")
    workers = start(
        "dask_worker", "--nworkers", "3", "--nthreads", "1", "--local-directory", str(tmp_path / "dask")
    )

    def processes() -> list[psutil.Process]:
        return [
            child
            for child in psutil.Process(workers.pid).children()
            if any("spawn_main" in word for word in child.cmdline())
        ]

    try:
        with distributed.Client(scheduler_file=str(file), timeout=60) as client:
            client.wait_for_workers(3, timeout=60)
        yield json.loads(file.read_text())["address"], processes
    finally:
        for process in (workers, scheduler):
            process.terminate()
            process.wait()


def workers_in_their_cases(
    line: SlowLine,
    driver: "subprocess.Popen[str]",
    workers: Callable[[], list[psutil.Process]],
    count: int,
) -> list[psutil.Process]:
    """The workers whose cases are held, once `count` are or more: a run is said to start when it is handed out."""
    cases = [psutil.Process(int(number)) for number in line.hold.wait(driver, count)]
    inside = [process for process in workers() if any(process in case.parents() for case in cases)]
    assert len(inside) >= count
    return inside


@pytest.mark.long
def test_a_cluster_of_processes_one_of_which_is_killed(
    make: Callable[..., SlowLine], dask_cluster: tuple[str, Callable[[], list[psutil.Process]]]
) -> None:
    address, workers = dask_cluster
    line = make(hangs=(1, 23))
    line.variables["DASK_SCHEDULER_ADDRESS"] = address
    process = line.start(*line.arguments, "--jobs", "3", "--backend", "dask")
    workers_in_their_cases(line, process, workers, 2)[0].kill()
    # The others are held until then: their results could make that of the lost one worthless.
    assert process.stderr is not None
    assert any("was lost: it is made again" in told for told in process.stderr)
    line.let_go()
    _, err = process.communicate()
    assert process.returncode == 0, err
    assert max(probe.attempt for probe in line.check()) > 1


@pytest.mark.long
def test_two_workers_and_a_store_on_postgresql(make: Callable[..., SlowLine]) -> None:
    if postgresql.programs() is None:
        pytest.skip(postgresql.ABSENT)
    line = make()
    with postgresql.server() as url:
        done = line.run(*line.arguments, "--jobs", "2", "--store", url)
        assert done.returncode == 0, done.stderr
        line.check(url)
