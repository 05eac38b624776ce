"""A farm of two hosts that share nothing with the driver or each other: probes, golden data, losses, refusals."""

import os
import threading
import time
from collections.abc import Callable, Generator
from pathlib import Path

import pytest

from precision_bisect.runner.case.case import FrozenGolden, RunOptions
from precision_bisect.runner.errors import UsageError, UserError
from precision_bisect.runner.farm.farm import Farm, LostWorkerError, PlaceNames, TaskBegin
from precision_bisect.runner.probe.build_cache import digest_of
from precision_bisect.runner.probe.pool import Activity, ProbeDelay, ProbeDone, ProbeRestart
from precision_bisect.runner.probe.probe import ProbeResult
from precision_bisect.store.vocabulary import BuildSource, Judgement, Verdict
from tests.runner.farm.hosts import Hosts
from tests.runner.small_stack import SmallStack

BUILD = {
    "tool": {
        "command": ["sh", "-c", "cp tool.txt out"],
        "cwd": "{tool}",
        "inputs": ["tool"],
        "outputs": ["tool/out"],
    }
}


@pytest.fixture(name="hosts")
def make_hosts(tmp_path: Path) -> Hosts:
    return Hosts(tmp_path / "hosts")


@pytest.fixture(name="farm")
def make_farm(small: SmallStack, hosts: Hosts) -> Generator[Callable[[], Farm]]:
    farms: list[Farm] = []

    def of() -> Farm:
        farm = Farm(small.stack(), small.home, jobs=2, open_engine=hosts.open)
        farms.append(farm.__enter__())
        return farm

    yield of
    for farm in farms:
        farm.__exit__(None, None, None)


def results(farm: Farm, count: int = 1) -> tuple[dict[int, ProbeResult], list[ProbeRestart]]:
    """The next results by number, and what was told of probes made again meanwhile."""
    found: dict[int, ProbeResult] = {}
    again: list[ProbeRestart] = []
    while len(found) < count:
        event = farm.next_event(timeout=60)
        if isinstance(event, ProbeDone):
            assert event.result is not None
            found[event.number] = event.result
        elif isinstance(event, ProbeRestart):
            again.append(event)
    return found, again


def test_a_probe_is_made_of_what_was_sent_and_comes_back_with_its_files(
    small: SmallStack, farm: Callable[[], Farm], hosts: Hosts, tmp_path: Path
) -> None:
    (tmp_path / "own.sh").write_text("echo $PWD; mkdir -p out/run; cp tool/tool.txt out/run; echo RIGHT")
    small.case = {"command": ["sh", str(tmp_path / "own.sh")], "cwd": "{slot}", "build_output": "out"}
    workers = farm()
    request = small.request()
    number = workers.begin(request)
    found, again = results(workers)
    result = found[number]
    assert (result.judgement, again) == (Judgement.GOOD, [])
    assert result.log == request.directory / "run.log.gz"
    assert result.log.is_file()
    assert result.build_directory == request.directory / "build"
    assert (request.directory / "build" / "tool.txt").read_text() == "good 1\n"
    assert str(small.home.cache) not in " ".join(result.command)
    assert not [*hosts.home("a").probe_results.iterdir()]
    assert not small.home.slots.exists()


def test_only_what_a_host_lacks_travels(small: SmallStack, farm: Callable[[], Farm], hosts: Hosts) -> None:
    hosts.names = ("a",)
    small.tool.commit("large", {"large.bin": os.urandom(200_000).hex()})
    workers = farm()
    workers.begin(small.request(directory=small.folder / "1"))
    results(workers)
    first = hosts.pieces["a"]
    assert first > 200_000
    workers.begin(small.request(directory=small.folder / "2"))
    results(workers)
    assert hosts.pieces["a"] == first
    small.tool.commit("bad", {"tool.txt": "bad 2\n"})
    workers.begin(small.request(directory=small.folder / "3"))
    ((_, result),) = results(workers)[0].items()
    assert result.judgement is Judgement.BAD
    assert hosts.pieces["a"] - first < 2_000


def test_a_lost_file_is_a_skip_until_it_was_put_back(
    small: SmallStack, farm: Callable[[], Farm], hosts: Hosts
) -> None:
    """As it is here, also where the host has later commits, behind which git would take the file for known."""
    hosts.names = ("a",)
    lost = small.tool.commit("lost", {"tool.txt": "good, for a while\n"})
    small.tool.commit("bad", {"tool.txt": "bad 2\n"})
    name = small.tool.git("rev-parse", f"{lost}:tool.txt")
    file = small.tool.path / ".git" / "objects" / name[:2] / name[2:]
    away = file.rename(small.folder / "away")
    here = small.probe(small.prober(), chosen={"tool": lost}, directory=small.folder / "here")

    def probe(place: str, **chosen: str) -> ProbeResult:
        workers = farm()
        number = workers.begin(small.request(directory=small.folder / place, chosen=chosen))
        found, again = results(workers)
        assert again == []
        return found[number]

    there = probe("lost", tool=lost)
    assert (there.judgement, there.classification) == (here.judgement, here.classification)
    assert there.judgement is Judgement.SKIP
    assert "lacks 1 object of its files" in there.classification.evidence[0].text
    assert probe("later").judgement is Judgement.BAD
    away.rename(file)
    assert probe("put back", tool=lost).judgement is Judgement.GOOD


def test_a_host_keeps_its_builds(small: SmallStack, farm: Callable[[], Farm], hosts: Hosts) -> None:
    hosts.names = ("a",)
    small.steps = BUILD
    workers = farm()
    for number in range(2):
        workers.begin(small.request(directory=small.folder / str(number)))
    found, again = results(workers, 2)
    assert [found[number].build_source for number in sorted(found)] == [
        BuildSource.BUILT,
        BuildSource.PRESENT,
    ]
    assert again == []


def test_a_probe_whose_host_is_lost_is_made_at_another(
    small: SmallStack, farm: Callable[[], Farm], hosts: Hosts
) -> None:
    def lose_the_first(key: str, place: str) -> None:
        if len(hosts.started) == 1:
            hosts.lose(key, place)

    hosts.on_start = lose_the_first
    workers = farm()
    number = workers.begin(small.request())
    found, again = results(workers)
    assert again == [ProbeRestart(number, "its worker at host a was lost")]
    assert found[number].judgement is Judgement.GOOD
    assert [place for _, place in hosts.started] == ["a", "b"]


def test_a_host_that_cannot_make_a_probe_is_avoided(
    small: SmallStack, farm: Callable[[], Farm], hosts: Hosts
) -> None:
    (hosts.folder / "a").mkdir(parents=True)
    (hosts.folder / "a" / "cache").write_text("no folder")
    workers = farm()
    number = workers.begin(small.request())
    found, (again,) = results(workers)
    assert found[number].judgement is Judgement.GOOD
    assert again.why.startswith("host a: ")
    assert "to write here" in again.why


def test_that_there_is_no_worker_is_told_once_a_minute(small: SmallStack, hosts: Hosts) -> None:
    now = [0.0]
    hosts.names = ()
    with Farm(small.stack(), small.home, jobs=1, open_engine=hosts.open, clock=lambda: now[0]) as farm:
        assert farm.next_event(timeout=0) is None
        number = farm.begin(small.request())
        told: list[object] = []
        for seconds in (0, 1, 59, 60, 61):
            now[0] = seconds
            told.append(farm.next_event(timeout=0))
    waits = ProbeDelay(number, "no host has joined")
    assert told == [waits, None, None, waits, None]


def test_places_are_named_by_their_hosts_and_apart_where_two_share_a_name() -> None:
    names = PlaceNames()
    names.record("tcp://10.0.0.1:5", "board-1")
    names.record("tcp://10.0.0.2:5", "board-2")
    assert [names.name_of("tcp://10.0.0.1:5"), names.name_of("elsewhere")] == ["board-1", "elsewhere"]
    names.record("tcp://10.0.0.3:5", "board-1")
    assert names.name_of("tcp://10.0.0.1:5") == "board-1 (tcp://10.0.0.1:5)"
    assert names.name_of("tcp://10.0.0.2:5") == "board-2"


def test_a_host_that_could_not_make_a_probe_is_tried_again_later(small: SmallStack, hosts: Hosts) -> None:
    now = [0.0]
    trouble = hosts.folder / "a" / "cache"
    trouble.parent.mkdir(parents=True)
    trouble.write_text("no folder")
    with Farm(small.stack(), small.home, jobs=1, open_engine=hosts.open, clock=lambda: now[0]) as farm:
        for directory, later in (("1", 0), ("2", 1), ("3", 300)):
            now[0] += later
            farm.begin(small.request(directory=small.folder / directory))
            results(farm)
            if directory == "2":
                trouble.unlink()
    assert [place for _, place in hosts.started] == ["a", "b", "b", "a"]


def test_what_a_host_keeps_is_bounded(small: SmallStack, farm: Callable[[], Farm], hosts: Hosts) -> None:
    small.limits = {"build_cache_gib": 1e-6}
    for folder in (hosts.home("a").objects, hosts.home("a").probe_results):
        folder.mkdir(parents=True)
        for name, age in (("old", 9000), ("older", 9001), ("young", 9)):
            (folder / name).write_bytes(b"x" * 800)
            when = time.time() - age
            os.utime(folder / name, (when, when))
    workers = farm()
    workers.begin(small.request())
    results(workers)
    for folder in (hosts.home("a").objects, hosts.home("a").probe_results):
        assert {path.name for path in folder.iterdir()} == {"young"}


def test_frozen_data_that_no_probe_needs_any_more_go_too(
    small: SmallStack, farm: Callable[[], Farm], hosts: Hosts
) -> None:
    hosts.names = ("a",)
    small.limits = {"build_cache_gib": 1e-6}
    small.case = {
        "command": ["sh", "-c", 'cat "$2/in/x.pt"', "sh"],
        "help": ["echo", "--golden-data"],
        "flags": {"golden_data": ["--golden-data"]},
    }
    workers = farm()
    for name in ("old", "new"):
        file = small.folder / "golden" / name / "in" / "x.pt"
        file.parent.mkdir(parents=True)
        file.write_text(f"RIGHT\n{name}\n" + "x" * 2000)
        golden = FrozenGolden(name, file.parent.parent, {"in/x.pt": digest_of(file)})
        request = small.request(
            golden=golden, options=RunOptions(golden_data=golden.directory), directory=small.folder / name
        )
        number = workers.begin(request)
        assert results(workers)[0][number].judgement is Judgement.GOOD
        for path in (hosts.folder / "a").rglob("*"):
            if name == "old" and not path.is_symlink():
                os.utime(path, (0, 0))
    files = (
        path for path in (hosts.folder / "a").rglob("*") if path.is_file() and path.stat().st_size < 3000
    )
    assert {
        text.splitlines()[1] for file in files if (text := file.read_text("latin-1")).startswith("RIGHT")
    } == {"new"}


def test_a_probe_that_no_host_can_make_ends_it(
    small: SmallStack, farm: Callable[[], Farm], hosts: Hosts, tmp_path: Path
) -> None:
    program = tmp_path / "program"
    program.write_bytes(b"\x7fELF")
    small.case = {"command": [str(program)]}
    workers = farm()
    workers.begin(small.request())
    program.unlink()
    with pytest.raises(UserError, match="expected the program that the case's command names, found none"):
        results(workers)
    assert {place for _, place in hosts.started} == {"a", "b"}


def test_a_stopped_probe_is_not_heard_of_and_leaves_its_host_free(
    small: SmallStack, farm: Callable[[], Farm], hosts: Hosts
) -> None:
    hosts.names = ("a",)
    small.case = {"command": ["sh", "-c", f"test -e {small.folder}/go || sleep 600; echo RIGHT"]}
    workers = farm()
    first = workers.begin(small.request(directory=small.folder / "1"))
    while not (isinstance(event := workers.next_event(timeout=60), Activity) and event.text == "running"):
        pass
    assert event.place == "host a, slot 0"
    workers.cancel(first)
    (small.folder / "go").touch()
    second = workers.begin(small.request(directory=small.folder / "2"))
    assert [*results(workers)[0]] == [second]


def test_what_a_driver_that_died_has_left_and_the_next_one_does_not_want_is_stopped(
    small: SmallStack, farm: Callable[[], Farm], hosts: Hosts
) -> None:
    small.case = {"command": ["sleep", "600"]}
    farm().begin(small.request(directory=small.folder / "probes" / "1"))
    farm().begin(small.request(directory=small.folder / "of another bisection" / "1"))
    (left, _), (others, _) = hosts.started
    small.case = {"command": ["echo", "RIGHT"]}
    following = farm()
    number = following.begin(small.request(directory=small.folder / "probes" / "2"))
    found, _ = results(following)
    assert found[number].judgement is Judgement.GOOD
    assert left in hosts.stopped
    assert others not in hosts.stopped
    hosts.stop(others)  # The farms wait for it when they close.


def test_probes_that_were_cancelled_last_are_stopped_all_the_same(
    small: SmallStack, hosts: Hosts, monkeypatch: pytest.MonkeyPatch
) -> None:
    """More of them than are stopped at once, by an engine that takes its time."""
    hosts.names = ("a",)
    small.case = {"command": ["sh", "-c", "sleep 600"]}
    gate, stop = threading.Event(), hosts.stop

    def stop_later(key: str) -> None:
        gate.wait()
        stop(key)

    monkeypatch.setattr(hosts, "stop", stop_later)
    with Farm(small.stack(), small.home, jobs=12, open_engine=hosts.open) as workers:
        numbers = [workers.begin(small.request(directory=small.folder / str(place))) for place in range(12)]
        keys = {key for key, _ in hosts.started}
        for number in numbers:
            workers.cancel(number)
        opener = threading.Timer(0.2, gate.set)
        opener.start()
    opener.join()
    assert keys <= hosts.stopped


def test_frozen_data_arrive_as_they_were_frozen(
    small: SmallStack, farm: Callable[[], Farm], hosts: Hosts
) -> None:
    folder = small.folder / "golden" / "digest"
    (folder / "in").mkdir(parents=True)
    (folder / "in" / "x.pt").write_bytes(b"RIGHT\n")
    (folder / "in" / "empty.pt").write_bytes(b"")
    golden = FrozenGolden(
        "digest",
        folder,
        {f"in/{name}.pt": digest_of(folder / "in" / f"{name}.pt") for name in ("x", "empty")},
    )
    small.case = {
        "command": ["sh", "-c", 'cat "$2/in/x.pt"', "sh"],
        "help": ["echo", "--golden-data"],
        "flags": {"golden_data": ["--golden-data"]},
    }
    workers = farm()
    number = workers.begin(small.request(golden=golden, options=RunOptions(golden_data=folder)))
    result = results(workers)[0][number]
    assert result.judgement is Judgement.GOOD
    assert str(hosts.home("a").objects) in " ".join(result.command)


def test_a_persons_case_is_refused(small: SmallStack, farm: Callable[[], Farm]) -> None:
    with pytest.raises(UsageError, match="--interactive"):
        farm().begin(small.request(by_hand=True))


def test_a_probe_is_made_at_another_host_than_those_of_the_places_that_it_avoids(
    small: SmallStack, farm: Callable[[], Farm], hosts: Hosts
) -> None:
    small.case = {"command": ["sh", "-c", "echo RIGHT"]}
    workers = farm()
    first = workers.begin(small.request(directory=small.folder / "1"))
    place = results(workers)[0][first].place
    workers.begin(small.request(directory=small.folder / "2", avoid=frozenset({place})))
    results(workers)
    assert [each for _, each in hosts.started] == ["a", "b"]


def without_compiler(place: str, hosts: Hosts) -> dict[str, object]:
    """A build that the host of this place cannot make."""
    home = hosts.home(place).cache
    command = f'case "$PWD" in {home}/*) echo "cc: Permission denied"; exit 1;; esac; cp tool.txt out'
    return {"tool": {**BUILD["tool"], "command": ["sh", "-c", command]}}


def test_what_a_host_that_never_built_cannot_build_is_tried_at_another(
    small: SmallStack, farm: Callable[[], Farm], hosts: Hosts
) -> None:
    small.steps = without_compiler("a", hosts)
    workers = farm()
    number = workers.begin(small.request())
    found, (again,) = results(workers)
    assert found[number].judgement is Judgement.GOOD
    assert again.why.startswith("host a: the build failed (")
    assert "nothing was ever built there: it is tried elsewhere" in again.why


def test_what_fails_to_build_at_two_hosts_is_believed(
    small: SmallStack, farm: Callable[[], Farm], hosts: Hosts
) -> None:
    small.steps = {"tool": {**BUILD["tool"], "command": ["false"]}}
    workers = farm()
    number = workers.begin(small.request())
    found, again = results(workers)
    assert found[number].classification.verdict is Verdict.BUILD_ERROR
    assert len(again) == 1
    assert [place for _, place in hosts.started] == ["a", "b"]


def test_a_build_that_no_probe_makes_any_more_is_made_for_the_next_one(
    small: SmallStack, hosts: Hosts, tmp_path: Path
) -> None:
    """As in a night, whose other bisections go on where the probes of one cannot be made."""
    small.steps = BUILD
    store = str(tmp_path / "builds")
    with Farm(small.stack(), small.home, jobs=1, open_engine=hosts.open, build_store=store) as farm:
        for name in hosts.names:
            hosts.home(name).cache.parent.mkdir(parents=True)
            hosts.home(name).cache.write_text("no folder")
        first = farm.begin(small.request(directory=small.folder / "1"))
        with pytest.raises(UserError, match="expected a worker that makes the probe"):
            results(farm)
        farm.cancel(first)
        for name in hosts.names:
            hosts.home(name).cache.unlink()
        before = len(hosts.started)
        second = farm.begin(small.request(directory=small.folder / "2"))
        assert len(hosts.started) == before + 1
        assert results(farm)[0][second].judgement is Judgement.GOOD


def test_a_probe_that_cannot_be_started_keeps_no_build_from_others(
    small: SmallStack, hosts: Hosts, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    small.steps = BUILD
    store = str(tmp_path / "builds")

    def refuse(*_arguments: object, **_named: object) -> None:
        raise UserError("no such board")

    with Farm(small.stack(), small.home, jobs=1, open_engine=hosts.open, build_store=store) as farm:
        with monkeypatch.context() as patch:
            patch.setattr(hosts, "start", refuse)
            with pytest.raises(UserError, match="no such board"):
                farm.begin(small.request(directory=small.folder / "1"))
        second = farm.begin(small.request(directory=small.folder / "2"))
        assert len(hosts.started) == 1
        assert results(farm)[0][second].judgement is Judgement.GOOD


def test_a_probe_that_is_wanted_while_that_of_a_dead_driver_is_stopped_is_another_task(
    small: SmallStack, farm: Callable[[], Farm], hosts: Hosts, monkeypatch: pytest.MonkeyPatch
) -> None:
    small.case = {"command": ["sleep", "600"]}
    wanted_again = small.request(directory=small.folder / "probes" / "1")
    farm().begin(wanted_again)
    ((left, _),) = hosts.started
    following = farm()
    gate, stop, stopped = threading.Event(), hosts.stop, threading.Event()

    def stop_later(key: str) -> None:
        gate.wait()
        stop(key)
        stopped.set()

    monkeypatch.setattr(hosts, "stop", stop_later)
    following.begin(small.request(directory=small.folder / "probes" / "2"))
    following.next_event(timeout=0)
    following.begin(wanted_again)
    keys = [key for key, _ in hosts.started]
    gate.set()
    stopped.wait()
    for key in keys:
        hosts.stop(key)  # The farms wait for all tasks when they close.
    assert left in hosts.stopped
    assert keys[2] != left


def test_a_result_that_has_arrived_counts_though_its_host_is_gone(
    small: SmallStack, farm: Callable[[], Farm], hosts: Hosts, monkeypatch: pytest.MonkeyPatch
) -> None:
    ask = hosts.ask

    def ask_until_fetched(place: str, function: Callable[..., object], *arguments: object) -> object:
        if function.__name__ == "forget":
            raise LostWorkerError(place)
        return ask(place, function, *arguments)

    monkeypatch.setattr(hosts, "ask", ask_until_fetched)
    workers = farm()
    number = workers.begin(small.request())
    found, again = results(workers)
    assert found[number].judgement is Judgement.GOOD
    assert again == []


def test_a_result_tells_of_the_worker_from_which_it_came(
    small: SmallStack, farm: Callable[[], Farm], hosts: Hosts, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An engine that loses a worker begins its task elsewhere, though its result has just arrived."""
    ask = hosts.ask

    def ask_and_lose(place: str, function: Callable[..., object], *arguments: object) -> object:
        if function.__name__ == "forget":
            hosts.tell(TaskBegin(hosts.started[0][0], "b", "host b"))
        return ask(place, function, *arguments)

    workers = farm()
    with monkeypatch.context() as patch:
        patch.setattr(hosts, "ask", ask_and_lose)
        first = workers.begin(small.request(directory=small.folder / "1"))
        place = results(workers)[0][first].place
    workers.begin(small.request(directory=small.folder / "2", avoid=frozenset({place})))
    results(workers)
    assert [each for _, each in hosts.started] == ["a", "b"]


def test_a_farm_that_ends_stops_its_probes_at_once(
    small: SmallStack, hosts: Hosts, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ray waits for each up to ten seconds."""
    small.case = {"command": ["sleep", "600"]}
    both, stop = threading.Barrier(2), hosts.stop

    def stop_beside_another(key: str) -> None:
        stop(key)
        both.wait(timeout=30)

    with Farm(small.stack(), small.home, jobs=2, open_engine=hosts.open) as workers:
        for place in range(2):
            workers.begin(small.request(directory=small.folder / str(place)))
        monkeypatch.setattr(hosts, "stop", stop_beside_another)
    assert not both.broken
    assert len(hosts.stopped) == 2
