"""Commands run under the supervisor: output, endings, and nothing that outlives them."""

import gzip
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import psutil
import pytest

from precision_bisect.runner.process.run import Command, FinishedCommand, execute

MARK = "PRECISION_BISECT_TEST_MARK"


def run(
    tmp_path: Path, *argv: str, timeout: float = 60, memory: int | None = None, mark: str = ""
) -> tuple[FinishedCommand, list[tuple[str, str]]]:
    lines: list[tuple[str, str]] = []
    finished = execute(
        Command(
            argv=argv,
            cwd=tmp_path,
            environment={**os.environ, MARK: mark},
            timeout=timeout,
            memory=memory,
        ),
        log=tmp_path / "run.log.gz",
        on_line=lambda stream, line: lines.append((stream, line)),
    )
    return finished, lines


def marked(mark: str) -> list[psutil.Process]:
    """The living processes that were started with a mark in their environment."""
    found: list[psutil.Process] = []
    for process in psutil.process_iter():
        try:
            if process.environ().get(MARK) == mark and process.status() != psutil.STATUS_ZOMBIE:
                found.append(process)
        except psutil.Error:
            continue
    return found


def kill_driver(
    code: str, folder: Path, mark: str, *, patience: float
) -> tuple[list[psutil.Process], list[psutil.Process]]:
    """Run a driver's code until a command of its says `ready`, and kill it alone: what ran then, and what still runs
    after so many seconds at most."""
    driver = subprocess.Popen(
        [sys.executable, "-c", code],
        cwd=folder,
        env={**os.environ, MARK: mark},
        stdout=subprocess.PIPE,
        text=True,
    )
    assert driver.stdout is not None
    assert driver.stdout.readline() == "ready\n"
    left = marked(mark)
    driver.send_signal(signal.SIGKILL)
    driver.wait()
    return left, psutil.wait_procs(left, timeout=patience)[1]


def test_streams_lines_and_exit_code(tmp_path: Path) -> None:
    finished, lines = run(tmp_path, "sh", "-c", "echo one; echo two >&2; printf 'no end'; exit 3")
    assert finished.ending.exit_code == 3
    assert finished.ending.signal is None
    assert sorted(lines) == [("stderr", "two"), ("stdout", "no end"), ("stdout", "one")]
    assert sorted(gzip.decompress((tmp_path / "run.log.gz").read_bytes()).split(b"\n")) == [
        b"",
        b"no end",
        b"one",
        b"two",
    ]


def test_a_signal_is_told_as_such(tmp_path: Path) -> None:
    finished, _ = run(tmp_path, "sh", "-c", "kill -SEGV $$")
    assert finished.ending.signal == signal.SIGSEGV
    assert finished.ending.exit_code is None


def test_a_missing_program_is_127(tmp_path: Path) -> None:
    finished, lines = run(tmp_path, "no-such-program-anywhere")
    assert finished.ending.exit_code == 127
    assert "no-such-program-anywhere" in lines[0][1]


def test_a_program_that_cannot_be_run_is_126(tmp_path: Path) -> None:
    (tmp_path / "text").write_text("no program\n")
    finished, lines = run(tmp_path, str(tmp_path / "text"))
    assert finished.ending.exit_code == 126
    assert "Permission denied" in lines[0][1]


def test_standard_input_is_empty(tmp_path: Path) -> None:
    finished, lines = run(tmp_path, "cat")
    assert finished.ending.exit_code == 0
    assert lines == []


@pytest.mark.parametrize("escape", ["sleep 600", "setsid sleep 600 & setsid sleep 601 & sleep 602"])
def test_a_timeout_leaves_nothing_running(tmp_path: Path, escape: str) -> None:
    mark = f"timeout-{os.getpid()}-{len(escape)}"
    finished, lines = run(tmp_path, "sh", "-c", f"echo begun; {escape}", timeout=1.5, mark=mark)
    assert finished.ending.timed_out
    assert ("stdout", "begun") in lines
    assert marked(mark) == []


def test_a_command_that_stops_what_watches_it_ends_at_its_timeout(tmp_path: Path) -> None:
    mark = f"stopped-{os.getpid()}"
    finished, _ = run(tmp_path, "sh", "-c", "kill -STOP $PPID; exit 1", timeout=1.5, mark=mark)
    assert finished.ending.timed_out
    assert marked(mark) == []


def test_a_daemon_that_the_command_leaves_behind_is_killed(tmp_path: Path) -> None:
    mark = f"daemon-{os.getpid()}"
    finished, _ = run(tmp_path, "sh", "-c", "setsid sleep 600 & exit 0", mark=mark)
    assert finished.ending.exit_code == 0
    assert marked(mark) == []


def test_nothing_outlives_a_driver_that_is_killed(tmp_path: Path) -> None:
    mark = f"driver-{os.getpid()}"
    code = (
        "import sys; from pathlib import Path\n"
        "from precision_bisect.runner.process.run import Command, execute\n"
        "import os\n"
        "execute(Command(argv=['sh', '-c', 'setsid sleep 600 & echo ready; sleep 601'], cwd=Path('.'),\n"
        "    environment=dict(os.environ), timeout=600), log=Path('x.gz'), on_line=lambda s, l: print(l, flush=True))\n"
    )
    left, alive = kill_driver(code, tmp_path, mark, patience=30)
    assert len(left) >= 4, "driver, supervisor, shell and its sleepers"
    assert alive == []


def test_an_interrupt_kills_the_command(tmp_path: Path) -> None:
    mark = f"interrupt-{os.getpid()}"

    def interrupt(_stream: str, _line: str) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        execute(
            Command(
                argv=["sh", "-c", "echo now; sleep 600"],
                cwd=tmp_path,
                environment={**os.environ, MARK: mark},
                timeout=60,
            ),
            log=tmp_path / "log.gz",
            on_line=interrupt,
        )
    assert marked(mark) == []


def test_an_endless_line_is_cut(tmp_path: Path) -> None:
    finished, lines = run(tmp_path, "sh", "-c", "head -c 5000000 /dev/zero | tr '\\0' x; echo; echo next")
    assert finished.ending.exit_code == 0
    assert [len(line) < 70_000 for _, line in lines] == [True, True]
    assert lines[0][1].endswith("[line cut]")
    assert lines[1][1] == "next"


def test_output_of_many_lines_is_heard_and_kept_line_by_line(tmp_path: Path) -> None:
    """Wherever the pieces end in which it is read: lines of all lengths, empty ones, the longest that is kept, and one
    letter more."""
    told = [*("x" * (number % 97) for number in range(20_000)), "y" * 65_536, "", "z" * 65_537, "end"]
    (tmp_path / "told").write_text("\n".join(told))
    _, lines = run(tmp_path, "cat", "told")
    heard = [line for _, line in lines]
    assert heard == [*told[:-2], "z" * 65_536 + " [line cut]", "end"]
    assert gzip.decompress((tmp_path / "run.log.gz").read_bytes()) == ("\n".join(heard) + "\n").encode()


def test_bytes_that_are_no_text_are_kept_in_the_log(tmp_path: Path) -> None:
    _, lines = run(tmp_path, "printf", "a\\377b\\n")
    assert lines == [("stdout", "a\ufffdb")]
    assert gzip.decompress((tmp_path / "run.log.gz").read_bytes()) == b"a\xffb\n"


def test_the_memory_limit_holds(tmp_path: Path) -> None:
    program = "bytearray(2 << 30)"
    finished, lines = run(tmp_path, sys.executable, "-c", program, memory=1 << 30)
    assert finished.ending.exit_code == 1
    assert any("MemoryError" in line for _, line in lines)


@pytest.mark.parametrize("timeout", [30 * 86400.0, 1e300])
def test_a_command_may_have_more_time_than_a_system_call_waits(tmp_path: Path, timeout: float) -> None:
    finished, lines = run(tmp_path, "echo", "done", timeout=timeout)
    assert finished.ending.is_clean
    assert lines == [("stdout", "done")]


def test_two_at_once_do_not_hold_each_other(tmp_path: Path) -> None:
    """A control pipe that leaked into another command would keep it from ending."""
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    results: dict[str, FinishedCommand] = {}

    def long() -> None:
        results["long"], _ = run(tmp_path / "a", "sh", "-c", "read x < ../fifo")

    os.mkfifo(tmp_path / "fifo")
    thread = threading.Thread(target=long)
    thread.start()
    results["short"], _ = run(tmp_path / "b", "true")
    (tmp_path / "fifo").write_text("go\n")
    thread.join()
    assert results["short"].ending.exit_code == 0
    assert results["long"].ending.exit_code == 0


def test_a_command_that_has_told_its_end_and_goes_on_is_stopped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It would go on for a minute; what it prints after is heard."""
    monkeypatch.setattr("precision_bisect.runner.process.run._GRACE", 0.2)
    script = "import signal; print('stalled', flush=True); print('dumped', flush=True); signal.pause()"
    lines: list[str] = []
    finished = execute(
        Command(
            argv=[sys.executable, "-c", script],
            cwd=tmp_path,
            environment=dict(os.environ),
            timeout=60,
            announces_end=lambda line: line == "stalled",
        ),
        log=tmp_path / "run.log.gz",
        on_line=lambda _stream, line: lines.append(line),
    )
    assert lines == ["stalled", "dumped"]
    assert finished.ending.timed_out
    assert finished.seconds < 30
