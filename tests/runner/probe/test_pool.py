"""A pool of one worker on this machine: probes are made, cancelled, and begun again when a worker is killed."""

import itertools
import multiprocessing
import os
import tempfile
import threading
import time
from collections.abc import Generator
from pathlib import Path
from typing import Any

import psutil
import pytest

from precision_bisect.runner.errors import UserError
from precision_bisect.runner.probe import pool as pool_module
from precision_bisect.runner.probe.pool import (
    Activity,
    Backend,
    Event,
    ProbeDone,
    ProbeLost,
    Setup,
    WorkerPool,
    check_backend,
    run_worker,
)
from precision_bisect.store.vocabulary import Judgement
from tests.runner.small_stack import SmallStack


@pytest.fixture(name="pool")
def make_pool(small: SmallStack) -> Generator[WorkerPool]:
    script = f"test -e {small.folder}/go || sleep 600; grep -q good {{tool}}/tool.txt && echo RIGHT"
    small.case = {"command": ["sh", "-c", script]}
    with WorkerPool(setup_of(small), jobs=1) as pool:
        yield pool


def setup_of(small: SmallStack) -> Setup:
    return Setup(stack=small.stack(), home=small.home, variables=dict(os.environ), max_probes=1)


def until(pool: WorkerPool, kind: type[Event] | tuple[type[Event], ...]) -> Event:
    """The next event of a kind, or of some."""
    latest = time.monotonic() + 120
    while not isinstance(event := pool.next_event(timeout=60), kind):
        assert time.monotonic() < latest, "nothing of that kind was told in two minutes"
    return event


def until_running(pool: WorkerPool) -> None:
    while not (isinstance(event := pool.next_event(timeout=60), Activity) and event.text == "running"):
        pass


def test_a_probe_is_made_and_another_one_cancelled(pool: WorkerPool, small: SmallStack) -> None:
    first = pool.begin(small.request(directory=small.folder / "1"))
    second = pool.begin(small.request(directory=small.folder / "2"))
    until_running(pool)
    pool.cancel(first)
    (small.folder / "go").touch()
    done = until(pool, ProbeDone)
    assert isinstance(done, ProbeDone)
    assert done.number == second
    assert done.result is not None
    assert done.result.judgement is Judgement.GOOD
    assert pool.next_event(timeout=0.1) is None


def test_the_path_of_temporary_files_may_be_long(
    small: SmallStack, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """That of a socket may not."""
    (tmp_path / ("x" * 120)).mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / ("x" * 120)))
    process: Any = multiprocessing.current_process()
    monkeypatch.setitem(process._config, "tempdir", None)
    small.case = {"command": ["echo", "RIGHT"]}
    with WorkerPool(setup_of(small), jobs=1) as pool:
        pool.begin(small.request())
        done = until(pool, ProbeDone)
    assert isinstance(done, ProbeDone)
    assert done.result is not None
    assert done.result.judgement is Judgement.GOOD


@pytest.mark.long
def test_the_probe_of_a_killed_worker_is_told_as_lost(small: SmallStack) -> None:
    small.case = {"command": ["sh", "-c", f"test -e {small.folder}/go || sleep 600; echo RIGHT"]}
    with WorkerPool(setup_of(small), jobs=2) as pool:
        number = pool.begin(small.request())
        until_running(pool)
        for child in psutil.Process().children():
            if any("popen_loky" in word for word in child.cmdline()):
                child.kill()
        assert until(pool, ProbeLost) == ProbeLost(number)
        (small.folder / "go").touch()
        # The other worker was killed too: a probe that was handed to it before that was noticed is lost as well.
        again = pool.begin(small.request())
        while isinstance(event := until(pool, (ProbeDone, ProbeLost)), ProbeLost):
            assert event == ProbeLost(again)
            again = pool.begin(small.request())
        assert isinstance(event, ProbeDone)
        assert event.number == again


def test_a_probe_that_no_worker_can_make_is_the_users_error(small: SmallStack) -> None:
    setup = setup_of(small)
    request = small.request()
    (small.folder / "tool").rename(small.folder / "gone")
    with WorkerPool(setup, jobs=1) as pool:
        pool.begin(request)
        with pytest.raises(UserError, match="tool"):
            until(pool, ProbeDone)


def test_the_failure_of_a_worker_counts_although_its_end_is_noticed_first(
    small: SmallStack, monkeypatch: pytest.MonkeyPatch
) -> None:
    call, read = pool_module.call_in_parallel, WorkerPool._read
    calls, is_ended = itertools.count(), threading.Event()

    def call_once(*arguments: Any, **options: Any) -> None:
        if next(calls) == 0:
            call(*arguments, **options)
        else:
            is_ended.set()

    def read_late(pool: WorkerPool, worker: Any) -> None:
        assert is_ended.wait(60)
        read(pool, worker)

    monkeypatch.setattr(pool_module, "call_in_parallel", call_once)
    monkeypatch.setattr(WorkerPool, "_read", read_late)
    request = small.request()
    (small.folder / "tool").rename(small.folder / "gone")
    with WorkerPool(setup_of(small), jobs=1) as pool:
        pool.begin(request)
        with pytest.raises(UserError, match="tool"):
            until(pool, ProbeDone)


def test_workers_that_end_without_an_error_are_told_as_such(
    small: SmallStack, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pool_module, "call_in_parallel", lambda *_, **__: None)
    monkeypatch.setattr(pool_module, "_RESTART_DELAY", 0.0)
    with WorkerPool(setup_of(small), jobs=1) as pool:
        pool.begin(small.request())
        with pytest.raises(UserError, match="finishes a probe: no worker says why; is there enough memory"):
            until(pool, ProbeDone)


def test_a_worker_whose_driver_is_gone_ends_by_itself(tmp_path: Path) -> None:
    begun = time.monotonic()
    run_worker(str(tmp_path / "no socket"), b"key")
    assert time.monotonic() - begun < 30


@pytest.mark.parametrize(
    ("backend", "variable"), [("dask", "DASK_SCHEDULER_ADDRESS"), ("ray", "RAY_ADDRESS")]
)
def test_a_backend_without_its_cluster_is_refused(
    backend: Backend, variable: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv(variable, raising=False)
    with pytest.raises(UserError, match=f"--backend {backend}"):
        check_backend(backend)


def test_more_workers_than_the_cores_can_carry_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "cpu_count", lambda: 2)
    check_backend("loky", jobs=32)
    with pytest.raises(UserError, match="--jobs 33: expected at most 32 runs at once on the 2 cores"):
        check_backend("loky", jobs=33)


def test_a_probe_is_made_elsewhere_than_in_the_places_that_it_avoids(small: SmallStack) -> None:
    small.case = {"command": ["sh", "-c", "echo RIGHT"]}

    def place_name(pool: WorkerPool, avoid: frozenset[str]) -> str:
        pool.begin(small.request(avoid=avoid))
        done = until(pool, ProbeDone)
        assert isinstance(done, ProbeDone)
        assert done.result is not None
        return done.result.place

    with WorkerPool(setup_of(small), jobs=2) as pool:
        first = place_name(pool, frozenset())
        second = place_name(pool, frozenset({first}))
        assert second != first
        assert place_name(pool, frozenset({first})) == second
        assert place_name(pool, frozenset({second})) == first
        # There is no other place: it is made all the same.
        assert place_name(pool, frozenset({first, second})) in {first, second}
