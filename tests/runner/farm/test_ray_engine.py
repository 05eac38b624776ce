"""The engine of ray, with a cluster of one node on this machine."""

import gzip
import importlib
import os
import platform
import secrets
import signal
import threading
from collections.abc import Callable, Generator
from importlib.util import find_spec
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from precision_bisect.runner.errors import UserError
from precision_bisect.runner.farm.farm import (
    Delivery,
    LostEngineError,
    LostWorkerError,
    TaskActivity,
    TaskBegin,
    TaskEnd,
)
from precision_bisect.runner.farm.host import HostProbeResult, ParcelMaker, find_missing
from precision_bisect.runner.farm.ray import RayEngine
from precision_bisect.store.vocabulary import Judgement
from tests.runner.farm.engine_driver import EngineDriver
from tests.runner.farm.ray_node import end_node, ray_node
from tests.runner.small_stack import SmallStack

pytestmark = [
    pytest.mark.long,
    pytest.mark.skipif(find_spec("ray") is None, reason="ray is not installed"),
    pytest.mark.xdist_group("ray"),  # one process of the tests has the node
]

ELSEWHERE = "away " + "0f" * 28
"""A place that there is not."""
TOKEN = secrets.token_hex(32)
"""One for as long as this process lives: tests of other files may come between these, which start the node anew."""


@pytest.fixture(name="token", scope="module", autouse=True)
def make_token() -> Generator[None]:
    """Ray takes the user's where it finds no other when it is first imported, and keeps what it took."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RAY_AUTH_MODE", "token")
        patch.setenv("RAY_AUTH_TOKEN", TOKEN)
        yield


@pytest.fixture(name="node_home", scope="module")
def make_node_home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("node")


@pytest.fixture(name="address", scope="module")
def make_cluster(node_home: Path, token: None) -> Generator[str]:
    own = {"PRECISION_BISECT_HOME": str(node_home), "GREETING": "of the host"}
    with ray_node(os.environ | own, processors=1) as node:
        yield node.address


@pytest.fixture(name="open_driver")
def make_open_driver(address: str, small: SmallStack) -> Generator[Callable[[], EngineDriver]]:
    opened: list[EngineDriver] = []

    def of() -> EngineDriver:
        opened.append(EngineDriver(lambda tell: RayEngine(address, tell), small))
        return opened[-1]

    yield of
    for driver in opened:
        driver.engine.close()


def test_a_probe_tells_what_it_does_and_is_found_by_the_driver_that_comes_after(
    open_driver: Callable[[], EngineDriver], small: SmallStack
) -> None:
    script = f"echo run >> {small.folder}/runs; env | grep -E 'GREETING|OMP_|RAY_'; echo RIGHT"
    small.case = {"command": ["sh", "-c", script]}
    first = open_driver()
    first.start(small, "key")
    began = first.until(lambda told: isinstance(told, TaskBegin))
    place = first.deliver(small)
    assert began == TaskBegin("key", place, platform.node())
    assert first.engine.no_worker_notice() is None
    first.until(lambda told: isinstance(told, TaskActivity) and told.text == "running")
    first.engine.close()
    second = open_driver()
    assert (second.engine.existing_tasks("ke"), second.engine.existing_tasks("another")) == (["key"], [])
    second.start(small, "key")
    ended = second.until(lambda told: isinstance(told, TaskEnd))
    assert isinstance(ended, TaskEnd)
    assert isinstance(ended.result, HostProbeResult)
    assert ended.result.result.judgement is Judgement.GOOD
    fetched = small.folder / "fetched"
    result = (
        Delivery(second.engine, second.parcels).fetch(ended.result, ended.place, fetched).move_to(fetched)
    )
    with gzip.open(result.log, "rt") as log:
        assert "GREETING=of the host" in (text := log.read())
    assert "RAY_" not in text
    assert (small.folder / "runs").read_text() == "run\n"
    second.engine.release("key")


@pytest.mark.parametrize("by_another", [False, True], ids=["by its driver", "by the next one"])
def test_a_stopped_probe_ends_and_is_not_heard_of(
    by_another: bool, open_driver: Callable[[], EngineDriver], small: SmallStack
) -> None:
    small.case = {"command": ["sleep", "600"]}
    driver = open_driver()
    driver.start(small, "first")
    driver.deliver(small)
    driver.until(lambda told: isinstance(told, TaskActivity) and told.text == "running")
    if by_another:
        driver.engine.close()
        driver = open_driver()
        assert driver.engine.existing_tasks("first") == ["first"]
    driver.engine.stop("first")
    small.case = {"command": ["echo", "RIGHT"]}
    # There is one processor: the second begins when the first has ended.
    driver.parcels = ParcelMaker(small.stack(), small.workspace(), small.folder / "packed")
    parcel = driver.parcels.parcel(small.request())
    driver.engine.start("second", parcel, resources={}, avoid=frozenset({ELSEWHERE}))
    assert driver.until(lambda told: isinstance(told, TaskEnd)).key == "second"
    driver.engine.release("second")


def test_what_no_node_has_and_a_node_that_is_gone(
    open_driver: Callable[[], EngineDriver], small: SmallStack
) -> None:
    driver = open_driver()
    with pytest.raises(UserError, match="expected a node with a board a2a3, found none among 1"):
        driver.start(small, "key", a2a3=1)
    with pytest.raises(LostWorkerError):
        driver.engine.ask(ELSEWHERE, find_missing, driver.parcels.parcel(small.request()))


def test_who_still_waits_for_a_node_when_the_driver_lets_go_is_told_so(
    open_driver: Callable[[], EngineDriver], small: SmallStack, tmp_path: Path
) -> None:
    obeys = signal.getsignal(signal.SIGTERM)
    driver = open_driver()
    assert signal.getsignal(signal.SIGTERM) is obeys
    driver.start(small, "key")
    began = driver.until(lambda told: isinstance(told, TaskBegin))
    assert isinstance(began, TaskBegin)
    begun, ever = tmp_path / "begun", tmp_path / "ever"
    os.mkfifo(begun)
    os.mkfifo(ever)

    def wait(_: object) -> None:
        begun.open("w").close()
        ever.open().close()

    def ask() -> None:
        with pytest.raises(LostWorkerError, match="lets go"):
            driver.engine.ask(began.place, wait)
        told.append("lost")

    told: list[str] = []
    asking = threading.Thread(target=ask)
    asking.start()
    begun.open().close()
    driver.engine.stop("key")
    driver.engine.close()
    asking.join()
    assert told == ["lost"]
    with pytest.raises(LostWorkerError, match="has let go"):
        driver.engine.ask(began.place, wait)
    assert not importlib.import_module("ray").is_initialized()


def test_a_cluster_that_does_not_answer() -> None:
    with pytest.raises(UserError, match="expected a cluster of ray"):
        RayEngine("127.0.0.1:9", lambda told: None)


def test_a_head_that_goes_takes_all_with_it(small: SmallStack, tmp_path: Path) -> None:
    small.case = {"command": ["sleep", "600"]}
    with ray_node(os.environ | {"PRECISION_BISECT_HOME": str(tmp_path / "node")}, processors=1) as node:
        driver = EngineDriver(lambda tell: RayEngine(node.address, tell), small)
        driver.start(small, "key")
        driver.deliver(small)
        driver.until(lambda told: isinstance(told, TaskActivity) and told.text == "running")
        end_node(node.process)
        ended = driver.until(
            lambda told: isinstance(told, TaskEnd) and isinstance(told.result, LostEngineError)
        )
        assert isinstance(ended, TaskEnd)
        with pytest.raises(LostEngineError, match="start the head and the nodes again, then resume"):
            driver.start(small, "another")
        driver.engine.stop("key")
        driver.engine.close()
    assert not importlib.import_module("ray").is_initialized()


def test_who_waits_for_a_head_to_make_an_actor_keeps_nobody_else_waiting() -> None:
    """Else nobody could let go of ray once the head is gone."""
    asked, gate = threading.Event(), threading.Event()

    class Slow:
        def options(self, **_options: object) -> "Slow":
            return self

        def remote(self) -> str:
            asked.set()
            gate.wait()
            return "actor"

    engine: Any = object.__new__(RayEngine)
    engine._ray = SimpleNamespace(remote=lambda _kind: Slow())
    engine._change, engine._hosts = threading.Condition(), {}
    thread = threading.Thread(target=engine._host, args=(ELSEWHERE,))
    thread.start()
    asked.wait()
    is_free = engine._change.acquire(blocking=False)
    gate.set()
    if is_free:
        engine._change.release()
    thread.join()
    assert is_free
    assert engine._host(ELSEWHERE) == "actor"
