"""Builds ahead: what is finished is taken up, what is stopped leaves nothing behind, and all yield to the case."""

import os
import select
from pathlib import Path

import psutil
import pytest

from precision_bisect.runner.probe.pool import AheadBuilder, Setup, WorkerPool
from precision_bisect.store.vocabulary import BuildSource, Judgement
from tests.runner.small_stack import SmallStack


@pytest.fixture(name="told")
def make_told(small: SmallStack) -> Path:
    """Where a build says that it has begun: its process and its niceness. It goes on for long, unless `soon` is there,
    and says nothing where `go` is."""
    told = small.folder / "told"
    os.mkfifo(told)
    goes_on = f"[ -e {small.folder}/soon ] || exec sleep 600"
    begins = f"[ -e {small.folder}/go ] || {{ echo $$ $(nice) > {told}; {goes_on}; }}"
    script = f"{begins}; mkdir out; echo . >> {small.folder}/built"
    step = {
        "command": ["sh", "-c", script],
        "cwd": "{slot}",
        "inputs": ["tool"],
        "outputs": ["out"],
        "timeout": 60,
    }
    small.steps = {"make": step}
    return told


def ahead_of(small: SmallStack) -> AheadBuilder:
    setup = Setup(stack=small.stack(), home=small.home, variables=dict(os.environ), max_probes=1)
    return AheadBuilder(lambda: WorkerPool(setup, jobs=1))


def begun(told: Path) -> tuple[psutil.Process, int]:
    """Wait for a build: its process and its niceness."""
    process, niceness = told.read_text().split()
    return psutil.Process(int(process)), int(niceness)


def test_a_build_that_is_stopped_is_gone_and_is_made_by_whoever_needs_it(
    small: SmallStack, told: Path
) -> None:
    with small.prober() as prober, ahead_of(small) as ahead:
        ahead.begin(small.request(directory=small.folder / "ahead"))
        process, niceness = begun(told)
        assert niceness == 19
        ahead.stop()
        psutil.wait_procs([process], timeout=30)
        assert not process.is_running()
        (small.folder / "go").touch()
        result = small.probe(prober)
        assert result.build_source is BuildSource.BUILT
        assert result.judgement is Judgement.GOOD
        assert (small.folder / "built").read_text() == ".\n"


def test_another_build_takes_the_place_of_the_one_before(small: SmallStack, told: Path) -> None:
    with ahead_of(small) as ahead:
        ahead.begin(small.request(directory=small.folder / "ahead"))
        first, _ = begun(told)
        small.tool.commit("another", {"tool.txt": "good 2\n"})
        ahead.begin(small.request(directory=small.folder / "ahead"))
        psutil.wait_procs([first], timeout=30)
        # The worker tells that it has stopped before it is given more.
        reader = os.open(told, os.O_RDWR)
        while not select.select([reader], [], [], 0.1)[0]:
            ahead.catch_up()
        os.close(reader)
    assert not first.is_running()


def test_the_end_of_all_is_that_of_a_build_too(small: SmallStack, told: Path) -> None:
    with ahead_of(small) as ahead:
        ahead.begin(small.request(directory=small.folder / "ahead"))
        process, _ = begun(told)
    assert not process.is_running()


def test_a_build_that_is_not_stopped_is_waited_for_and_taken_from_the_cache(
    small: SmallStack, told: Path
) -> None:
    (small.folder / "soon").touch()
    with small.prober() as prober, ahead_of(small) as ahead:
        ahead.begin(small.request(directory=small.folder / "ahead"))
        assert told.read_text()
        result = small.probe(prober)
    assert result.build_source is BuildSource.CACHED
    assert result.judgement is Judgement.GOOD
    assert (small.folder / "built").read_text() == ".\n"


def test_nobody_works_before_the_first_build(small: SmallStack) -> None:
    def refuse() -> WorkerPool:
        raise AssertionError("nothing was to be built")

    with AheadBuilder(refuse) as ahead:
        ahead.catch_up()
        ahead.stop()
