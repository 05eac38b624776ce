"""python -m benchmarks.overhead [RESULTS] [--rows NAME ...]: what the tool takes where the work itself is short.

Each row times a user's command, and what stands beside it in the same run: `git bisect run`, pytest, or a plain
process. The median of `--repeats` counts. The order alternates, because a shared machine is not equally fast all the
time. The goals of the issue are ratios, or seconds beyond what stands beside it.
"""

import argparse
import json
import os
import shutil
import signal
import sqlite3
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path

_PROGRAM = "from precision_bisect.runner.process.entry import bisect_precision; bisect_precision()"
_TOOL = (sys.executable, "-c", _PROGRAM)
_COMMAND_SECONDS = 0.05
_COMMITS = 60
_CULPRIT = 37
_CASES = 200
_FILES = 100_000
_SUBMISSIONS = 6
_JOBS_COMMAND_SECONDS = 1.0
_PLAIN_RUNS = 20
_COLUMNS = ("what", "ours s", "beside it", "s", "goal", "reached")

_NIGHT = """\
job = "trivial"
stack = "stack.toml"
branches = ["main"]
cases = [{cases}]
platforms.host = {{}}
"""
_STACK = """\
name = "plain"
searched = "tool"
repositories.tool.path = "repository"
platforms.host = {}

[case]
repository = "tool"
command = ["sh", "{case}"]
cwd = "{tool}"
harness = false

[[verdicts]]
verdict = "pass"
pattern = '^PASSED$'
"""


@dataclass(frozen=True, kw_only=True)
class Row:
    """A line of the table. All times are in seconds."""

    what: str
    ours: float
    peer: str
    peer_seconds: float
    goal: str
    is_reached: bool

    def cells(self) -> tuple[str, ...]:
        """Return the texts of the line."""
        reached = "yes" if self.is_reached else "no"
        return (self.what, f"{self.ours:.3f}", self.peer, f"{self.peer_seconds:.3f}", self.goal, reached)


@dataclass
class Bench:
    """A folder for the histories of the rows, and how often each command is timed."""

    folder: Path
    repeats: int
    _homes: int = field(default=0, init=False)

    def new_home(self) -> dict[str, str]:
        """Return an environment with a home of the tool that nothing has used."""
        self._homes += 1
        home = self.folder / f"home-{self._homes}"
        return {**os.environ, "PRECISION_BISECT_HOME": str(home)}

    def times(self, *contenders: Callable[[], object]) -> list[float]:
        """Return the median time of each contender. They take turns."""
        taken: list[list[float]] = [[] for _ in contenders]
        for repeat in range(self.repeats):
            for number in sorted(range(len(contenders)), reverse=repeat % 2 == 1):
                taken[number].append(_time(contenders[number]))
        return [*map(statistics.median, taken)]

    def history(self, name: str, *, files: int = 0) -> Path:
        """Write a repository whose commit `_CULPRIT` of `_COMMITS` adds a file `broken`."""
        path = self.folder / name / "repository"
        subprocess.run(["git", "init", "--quiet", "--initial-branch=main", str(path)], check=True)
        lines = list[str]()
        for number in range(_COMMITS + 1):
            message = f"change {number}"
            lines += [
                "commit refs/heads/main",
                f"committer Made Up <made@example.org> {1_700_000_000 + number} +0000",
            ]
            lines += [
                f"data {len(message)}",
                message,
                "M 100644 inline n",
                f"data {len(str(number))}",
                str(number),
            ]
            if number == 0:
                for each in range(files):
                    lines += [f"M 100644 inline files/{each // 1000}/{each}", "data 0", ""]
            if number == _CULPRIT:
                lines += ["M 100644 inline broken", "data 0", ""]
        subprocess.run(
            ["git", "-C", str(path), "fast-import", "--quiet"],
            input="\n".join(lines) + "\n",
            text=True,
            check=True,
        )
        subprocess.run(["git", "-C", str(path), "reset", "--quiet", "--hard"], check=True)
        return path


def _run(words: Sequence[str], folder: Path, environment: Mapping[str, str] | None = None) -> str:
    """Run a command to its end, and return what it printed. Raises `RuntimeError` where it fails."""
    ended = subprocess.run(words, cwd=folder, env=environment, text=True, capture_output=True, check=False)
    if ended.returncode:
        raise RuntimeError(
            f"{' '.join(words)}: expected exit code 0, found {ended.returncode}: {ended.stderr[-2000:]}"
        )
    return ended.stdout + ended.stderr


def _ends(history: Path) -> tuple[str, str]:
    good = _run(["git", "rev-list", "--max-parents=0", "HEAD"], history).strip()
    return good, _run(["git", "rev-parse", "HEAD"], history).strip()


def _script(seconds: float) -> tuple[str, ...]:
    return "sh", "-c", f"sleep {seconds}; test ! -e broken"


@dataclass
class Bisections:
    """Both ways to bisect a history with the same script. The last numbers of runs are kept."""

    bench: Bench
    history: Path
    seconds: float = _COMMAND_SECONDS
    runs: int = 0
    git_runs: int = 0
    run_seconds: list[float] = field(default_factory=list[float])
    """The mean time of a run in each bisection of ours, its command included."""

    def ours(self, *options: str, environment: Mapping[str, str] | None = None) -> None:
        """Bisect with the tool, in a new home unless `environment` names one."""
        good, bad = _ends(self.history)
        report = self.bench.folder / "report"
        ends = ("--good", good, "--bad", bad, "-o", str(report))
        words = (*_TOOL, *ends, *options, "--", *_script(self.seconds))
        told = _run(words, self.history, environment or self.bench.new_home())
        if f"change {_CULPRIT}\n" not in told:
            raise RuntimeError(f"{self.history}: expected the culprit, found: {told[-2000:]}")
        self.runs = sum(line.startswith("run ") for line in told.splitlines())
        self.run_seconds.append(json.loads((report / "report.json").read_text())["timing"]["run"] / self.runs)
        shutil.rmtree(report)

    def git(self) -> None:
        """Bisect with `git bisect run`."""
        good, bad = _ends(self.history)
        _run(["git", "bisect", "start", bad, good], self.history)
        told = _run(["git", "bisect", "run", *_script(self.seconds)], self.history)
        _run(["git", "bisect", "reset"], self.history)
        self.git_runs = sum(line.startswith("running ") for line in told.splitlines())


def short_bisection(bench: Bench) -> list[Row]:
    """60 commits with a command of 0.05 s. The goal is 1.5 s beyond git's time for as many runs."""
    both = Bisections(bench, bench.history("short"))
    ours, git = bench.times(both.ours, both.git)
    allowed = git / both.git_runs * both.runs + 1.5
    return [
        Row(
            what=f"{_COMMITS} commits, {_COMMAND_SECONDS} s a command, {both.runs} runs",
            ours=ours,
            peer=f"git bisect run, {both.git_runs} runs",
            peer_seconds=git,
            goal=f"{allowed:.2f} s: git's for as many runs, and 1.5 s",
            is_reached=ours <= allowed,
        )
    ]


def many_files(bench: Bench) -> list[Row]:
    """A tree of 100,000 files. The goal is twice git's time for a run, once the folder of the runs is there."""
    both = Bisections(bench, bench.history("files", files=_FILES), seconds=0)
    home = bench.new_home()
    first = _time(lambda: both.ours(environment=home))
    ours, git = bench.times(lambda: both.ours("--fresh", environment=home), both.git)
    a_run, git_run = ours / both.runs, git / both.git_runs
    return [
        Row(
            what=f"{_FILES:,} files in the tree: the first bisection, which checks them out",
            ours=first,
            peer="git bisect run in the checkout",
            peer_seconds=git,
            goal="7 s: half of what it was",
            is_reached=first <= 7,
        ),
        Row(
            what=f"the next one, a run of {both.runs}",
            ours=a_run,
            peer=f"git bisect run, a run of {both.git_runs}",
            peer_seconds=git_run,
            goal="2 x git's",
            is_reached=a_run <= 2 * git_run,
        ),
    ]


def two_jobs(bench: Bench) -> list[Row]:
    """Two runs at a time, of a command of 1 s. Splitting a range in three alone gives log2 3, or 1.58 times."""
    both = Bisections(bench, bench.history("jobs"), seconds=_JOBS_COMMAND_SECONDS)
    one, two = bench.times(both.ours, lambda: both.ours("--jobs", "2"))
    return [
        Row(
            what=f"--jobs 2, {_JOBS_COMMAND_SECONDS:.0f} s a command",
            ours=two,
            peer="one run at a time",
            peer_seconds=one,
            goal="1/1.58 of it",
            is_reached=one >= 1.58 * two,
        )
    ]


def queue(bench: Bench) -> list[Row]:
    """Two workers that empty a queue of bisections, beside two `git bisect run` at a time."""
    both = Bisections(bench, bench.history("queue"))
    copy = bench.folder / "queue" / "copy"
    _run(["git", "clone", "--quiet", str(both.history), str(copy)], bench.folder)
    good, bad = _ends(both.history)
    store = bench.folder / "store.sqlite"
    environment = bench.new_home() | {"PRECISION_BISECT_STORE": f"sqlite:///{store}"}
    ends = ("--good", good, "--bad", bad, "--fresh")
    submits = list[float]()

    def submit() -> None:
        words = (*_TOOL, "submit", *ends, "--", *_script(_COMMAND_SECONDS))
        for _ in range(_SUBMISSIONS):
            submits.append(_time(lambda: _run(words, both.history, environment)))

    def ours() -> None:
        words = (*_TOOL, "worker")
        workers = [
            subprocess.Popen(
                words, cwd=bench.folder, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
            )
            for _ in range(2)
        ]
        while _waiting_submissions(store) > 0:
            time.sleep(0.02)
        for worker in workers:
            worker.send_signal(signal.SIGINT)
            worker.wait()

    def git() -> None:
        bisect = f"git bisect start {bad} {good} && git bisect run sh -c '{_script(_COMMAND_SECONDS)[-1]}'"
        words = ("sh", "-c", f"for i in $(seq {_SUBMISSIONS // 2}); do {bisect}; git bisect reset; done")
        started = [
            subprocess.Popen(words, cwd=each, stdout=subprocess.DEVNULL) for each in (both.history, copy)
        ]
        for process in started:
            process.wait()

    taken = list[tuple[float, float]]()
    for _ in range(bench.repeats):
        submit()
        taken.append((_time(ours), _time(git)))
    workers, gits = (statistics.median(each) / _SUBMISSIONS for each in zip(*taken, strict=True))
    return [
        Row(
            what="a bisection of a queue with two workers",
            ours=workers,
            peer="two git bisect run at a time",
            peer_seconds=gits,
            goal="0.86 s: half of what it was",
            is_reached=workers <= 0.86,
        ),
        Row(
            what="submit",
            ours=statistics.median(submits),
            peer="git bisect run",
            peer_seconds=2 * gits,
            goal="0.6 s: half of what it was",
            is_reached=statistics.median(submits) <= 0.6,
        ),
    ]


def _time(function: Callable[[], object]) -> float:
    begin = time.perf_counter()
    function()
    return time.perf_counter() - begin


def _waiting_submissions(store: Path) -> int:
    """Return the number of submissions that have not ended. Raises `RuntimeError` where one failed."""
    with closing(sqlite3.connect(store)) as database:
        rows = database.execute("select state, exit_code from submissions").fetchall()
    if any(exit_code for _, exit_code in rows):
        raise RuntimeError(f"expected submissions that end with exit code 0, found {rows}")
    return sum(state in ("queued", "running") for state, _ in rows)


def one_run(bench: Bench) -> list[Row]:
    """A run's time beyond its command. The goal is 15 ms."""
    both = Bisections(bench, bench.history("run"), seconds=0)

    def plain() -> None:
        for _ in range(_PLAIN_RUNS):
            subprocess.run(_script(0), cwd=both.history, check=False)

    _, plainly = bench.times(both.ours, plain)
    ours_seconds, plain_seconds = statistics.median(both.run_seconds), plainly / _PLAIN_RUNS
    return [
        Row(
            what="a run of an instant command",
            ours=ours_seconds,
            peer="the same by subprocess",
            peer_seconds=plain_seconds,
            goal="15 ms beyond it",
            is_reached=ours_seconds <= plain_seconds + 0.015,
        )
    ]


def night(bench: Bench) -> list[Row]:
    """A night of 200 trivial cases, beside pytest. The goal is 20 ms a case."""
    history = bench.history("night")
    for number in range(_CASES):
        (history / f"case_{number}.sh").write_text("echo PASSED\n")
    _run(["git", "add", "--all"], history)
    _run(
        ["git", "-c", "user.name=m", "-c", "user.email=m@example.org", "commit", "--quiet", "-m", "cases"],
        history,
    )
    (history.parent / "stack.toml").write_text(_STACK)
    (history.parent / "test_trivial.py").write_text(
        f"import pytest\n@pytest.mark.parametrize('n', range({_CASES}))\ndef test_pass(n):\n    pass\n"
    )

    def run_night(count: int) -> None:
        cases = ", ".join(f'"case_{number}.sh"' for number in range(count))
        (history.parent / "night.toml").write_text(_NIGHT.format(cases=cases))
        _run((*_TOOL, "nightly", "night.toml"), history.parent, bench.new_home())
        shutil.rmtree(history.parent / "nightly")

    def pytest() -> None:
        words = (sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--junitxml=junit.xml")
        _run((*words, "test_trivial.py"), history.parent)

    whole, short, peer = bench.times(lambda: run_night(_CASES), lambda: run_night(1), pytest)
    a_case = (whole - short) / (_CASES - 1)
    return [
        Row(
            what=f"a night of {_CASES} trivial cases",
            ours=whole,
            peer="pytest with junit",
            peer_seconds=peer,
            goal="5.2 s: half of what it was",
            is_reached=whole <= 5.2,
        ),
        Row(
            what="each further case of it",
            ours=a_case,
            peer="pytest with junit, a case",
            peer_seconds=peer / _CASES,
            goal="20 ms",
            is_reached=a_case <= 0.02,
        ),
    ]


def listings(bench: Bench) -> list[Row]:
    """`history` and `status` of a store with one bisection. The goal is 0.2 s."""
    both = Bisections(bench, bench.history("listing"), seconds=0)
    good, bad = _ends(both.history)
    environment = bench.new_home()
    _run((*_TOOL, "--good", good, "--bad", bad, "--", *_script(0)), both.history, environment)
    rows = list[Row]()
    for command in ("history", "status"):
        ours, python = bench.times(
            lambda command=command: _run((*_TOOL, command), both.history, environment),
            lambda: _run((sys.executable, "-c", "pass"), both.history),
        )
        rows.append(
            Row(
                what=command,
                ours=ours,
                peer="python -c pass",
                peer_seconds=python,
                goal="0.2 s",
                is_reached=ours <= 0.2,
            )
        )
    return rows


_ROWS = {
    each.__name__: each for each in (short_bisection, one_run, many_files, listings, night, queue, two_jobs)
}


def main() -> None:
    """Write the table as it grows."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("results", type=Path, nargs="?", default=Path(__file__).parent / "results")
    parser.add_argument("--rows", nargs="*", choices=_ROWS, default=[*_ROWS])
    parser.add_argument("--repeats", type=int, default=3)
    chosen = parser.parse_args()
    chosen.results.mkdir(exist_ok=True)
    lines = [f"| {' | '.join(_COLUMNS)} |", "| --- | ---: | --- | ---: | --- | --- |"]
    for name in chosen.rows:
        with tempfile.TemporaryDirectory(prefix="overhead-") as folder:
            for row in _ROWS[name](Bench(Path(folder), chosen.repeats)):
                lines.append(f"| {' | '.join(row.cells())} |")
                print(lines[-1], flush=True)
        (chosen.results / "results.md").write_text("\n".join(["# Short work", "", *lines, ""]))


if __name__ == "__main__":
    main()
