"""The engine of dask, with a scheduler and one worker in this process."""

import logging
import platform
import shutil
import subprocess
import threading
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest

from precision_bisect.runner.errors import UserError
from precision_bisect.runner.farm.dask import DaskEngine
from precision_bisect.runner.farm.farm import Delivery, LostWorkerError, TaskActivity, TaskBegin, TaskEnd
from precision_bisect.runner.farm.host import HostProbeResult, ParcelMaker, find_missing
from precision_bisect.store.vocabulary import Judgement
from tests.runner.farm.engine_driver import EngineDriver
from tests.runner.small_stack import SmallStack

dask: Any = pytest.importorskip("dask", reason="dask is not installed")
distributed: Any = pytest.importorskip("distributed", reason="dask's distributed is not installed")


@pytest.fixture(name="host")
def make_host(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    home = str(tmp_path / "home-of-host")
    monkeypatch.setenv("PRECISION_BISECT_HOME", home)
    return home


def cluster_of_one(**options: object) -> Any:
    return cluster_of(1, **options)


def cluster_of(workers: int, **options: object) -> Any:
    return distributed.LocalCluster(
        n_workers=workers,
        threads_per_worker=1,
        processes=False,
        protocol="tcp",
        dashboard_address=None,
        **options,
    )


@pytest.fixture(name="address")
def make_cluster(host: str) -> Generator[str]:
    with cluster_of_one() as cluster:
        yield cluster.scheduler_address


def open_driver(address: str, small: SmallStack) -> EngineDriver:
    return EngineDriver(lambda tell: DaskEngine(address, tell), small)


def test_a_task_tells_what_it_does_and_is_found_by_the_driver_that_comes_after(
    address: str, small: SmallStack
) -> None:
    first = open_driver(address, small)
    first.start(small, "key")
    began = first.until(lambda told: isinstance(told, TaskBegin))
    place = first.deliver(small)
    assert began == TaskBegin("key", place, platform.node())
    first.until(lambda told: isinstance(told, TaskActivity) and told.text == "running")
    first.engine.close()
    second = open_driver(address, small)
    assert (second.engine.existing_tasks("ke"), second.engine.existing_tasks("another")) == (["key"], [])
    second.start(small, "key")
    ended = second.until(lambda told: isinstance(told, TaskEnd))
    assert isinstance(ended, TaskEnd)
    assert isinstance(ended.result, HostProbeResult)
    assert ended.result.result.judgement is Judgement.GOOD
    assert second.told.empty()
    fetched = small.folder / "fetched"
    result = (
        Delivery(second.engine, second.parcels).fetch(ended.result, ended.place, fetched).move_to(fetched)
    )
    assert result.log == small.folder / "fetched" / "run.log.gz"
    assert result.log.is_file()
    second.engine.release("key")
    second.engine.close()


class GivenUp(logging.Handler):
    """Waits until a client of dask has given up its scheduler."""

    def __init__(self) -> None:
        super().__init__()
        self.told = threading.Event()

    def emit(self, record: logging.LogRecord) -> None:
        if "Failed to reconnect" in record.getMessage():
            self.told.set()


@pytest.mark.parametrize("given_up", [False, True], ids=["soon", "late"])
def test_another_scheduler_at_the_same_address_is_heard_too(
    given_up: bool, small: SmallStack, host: str
) -> None:
    log, logger = GivenUp(), logging.getLogger("distributed.client")
    logger.addHandler(log)
    with cluster_of_one() as cluster, dask.config.set({"distributed.comm.timeouts.connect": "1s"}):
        address: str = cluster.scheduler_address
        driver = open_driver(address, small)
        driver.start(small, "first")
        driver.until(lambda told: isinstance(told, TaskBegin))
        # Or the worker would wait half a minute for its thread, which waits for contents.
        cluster.sync(cluster.workers[0].close, executor_wait=False)
    driver.until(lambda told: told == TaskEnd("first", "", None))
    assert not given_up or log.told.wait(60)
    logger.removeHandler(log)
    with cluster_of_one(scheduler_port=int(address.rpartition(":")[2])):
        driver.start(small, "second")
        driver.deliver(small)
        ended = driver.until(lambda told: isinstance(told, TaskEnd))
        assert isinstance(ended, TaskEnd)
        assert isinstance(ended.result, HostProbeResult)
        driver.engine.release("second")
        driver.engine.close()


def certified(folder: Path) -> dict[str, object]:
    """Settings of dask with a certificate of their own."""
    openssl = shutil.which("openssl")
    if openssl is None:
        pytest.skip("openssl is not installed")
    folder.mkdir()
    key, certificate = str(folder / "key.pem"), str(folder / "certificate.pem")
    words = ("req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=farm")
    subprocess.run([openssl, *words, "-keyout", key, "-out", certificate], check=True, capture_output=True)
    settings: dict[str, object] = {
        "distributed.comm.tls.ca-file": certificate,
        "distributed.comm.require-encryption": True,
    }
    for role in ("client", "scheduler", "worker"):
        settings |= {
            f"distributed.comm.tls.{role}.{kind}": file
            for kind, file in (("key", key), ("cert", certificate))
        }
    return settings


def secured_cluster(workers: int) -> Any:
    return distributed.LocalCluster(
        n_workers=workers,
        threads_per_worker=1,
        processes=False,
        protocol="tls",
        security=distributed.Security(),
        dashboard_address=None,
    )


def test_a_certificate_that_is_refused_is_told(tmp_path: Path) -> None:
    with dask.config.set(certified(tmp_path / "one")), secured_cluster(0) as cluster:
        other = dask.config.set(certified(tmp_path / "other"))
        with (
            other,
            pytest.raises(UserError, match=r"certificate does not match.*settings distributed\.comm\.tls"),
        ):
            DaskEngine(cluster.scheduler_address, lambda told: None)


def test_certificates_of_dask_secure_all_that_travels(small: SmallStack, tmp_path: Path, host: str) -> None:
    with dask.config.set(certified(tmp_path / "tls")), secured_cluster(1) as cluster:
        assert cluster.scheduler_address.startswith("tls://")
        driver = open_driver(cluster.scheduler_address, small)
        driver.start(small, "key")
        driver.deliver(small)
        ended = driver.until(lambda told: isinstance(told, TaskEnd))
        assert isinstance(ended, TaskEnd)
        assert isinstance(ended.result, HostProbeResult)
        driver.engine.release("key")
        driver.engine.close()


def test_a_stopped_task_ends_and_is_not_heard_of(address: str, small: SmallStack) -> None:
    small.case = {"command": ["sleep", "600"]}
    driver = open_driver(address, small)
    driver.start(small, "first")
    driver.deliver(small)
    driver.until(lambda told: isinstance(told, TaskActivity) and told.text == "running")
    driver.engine.stop("first")
    small.case = {"command": ["echo", "RIGHT"]}
    # It is the only worker: the second begins when the first has ended.
    driver.parcels = ParcelMaker(small.stack(), small.workspace(), small.folder / "packed")
    driver.start(small, "second")
    ended = driver.until(lambda told: isinstance(told, TaskEnd))
    assert ended.key == "second"
    driver.engine.close()


def test_a_board_that_no_worker_has_is_asked_for_at_once(address: str, small: SmallStack) -> None:
    driver = open_driver(address, small)
    with pytest.raises(UserError, match="expected a worker with a board a2a3, found none among 1"):
        driver.start(small, "key", a2a3=1)
    driver.engine.close()


def test_the_only_worker_with_a_board_makes_a_probe_that_avoids_it(small: SmallStack, host: str) -> None:
    """Another worker could never make it, for it has no board."""
    with cluster_of_one() as cluster, distributed.Client(cluster) as client:
        (plain,) = client.scheduler_info()["workers"]
        spec = {"cls": cluster.new_spec["cls"], "options": {**cluster.new_spec["options"]}}
        spec["options"]["resources"] = {"a2a3": 1}
        cluster.worker_spec["board"] = spec
        cluster.sync(cluster._correct_state)
        client.wait_for_workers(2)
        (board,) = client.scheduler_info(n_workers=-1)["workers"].keys() - {plain}
        driver = open_driver(cluster.scheduler_address, small)
        driver.start(small, "key", avoid=frozenset({board}), a2a3=1)
        began = driver.until(lambda told: isinstance(told, TaskBegin))
        assert began == TaskBegin("key", board, platform.node())
        driver.engine.stop("key")
        driver.engine.close()


def test_a_scheduler_without_a_worker_says_how_one_is_started(host: str) -> None:
    with cluster_of(0) as cluster:
        engine = DaskEngine(cluster.scheduler_address, lambda told: None)
        assert f"start one: dask worker {cluster.scheduler_address} --nthreads 1" in (
            engine.no_worker_notice() or ""
        )
        cluster.scale(1)
        cluster.wait_for_workers(1)
        assert engine.no_worker_notice() is None
        engine.close()


def test_a_worker_that_is_gone_is_told_so(address: str, small: SmallStack) -> None:
    driver = open_driver(address, small)
    impatient = dask.config.set({"distributed.comm.timeouts.connect": "1s"})
    with impatient, pytest.raises(LostWorkerError):
        driver.engine.ask("tcp://127.0.0.1:9", find_missing, driver.parcels.parcel(small.request()))
    driver.engine.close()


def test_a_scheduler_that_does_not_answer() -> None:
    impatient = dask.config.set({"distributed.comm.timeouts.connect": "1s"})
    with impatient, pytest.raises(UserError, match="expected a scheduler of dask") as caught:
        DaskEngine("tcp://bob:hush-hush@127.0.0.1:9", lambda told: None)
    assert "hush-hush" not in str(caught.value)


def test_a_variable_of_the_worker_reaches_the_case_whatever_its_value(
    address: str, small: SmallStack, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DEFAULT_DTYPE", "None")
    small.case = {"command": ["sh", "-c", 'test "$DEFAULT_DTYPE" = None && echo RIGHT']}
    driver = open_driver(address, small)
    driver.start(small, "key")
    driver.deliver(small)
    ended = driver.until(lambda told: isinstance(told, TaskEnd))
    assert isinstance(ended, TaskEnd)
    assert isinstance(ended.result, HostProbeResult)
    assert ended.result.result.judgement is Judgement.GOOD
    driver.engine.release("key")
    driver.engine.close()
