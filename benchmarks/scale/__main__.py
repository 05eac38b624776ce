"""python -m benchmarks.scale: bisect histories of growing length, with `git bisect run` and with the tool.

Both get the same repository and the same script. The histories are made up, or ranges of a checkout (`--repository`).
The table tells the wall time, the time of the processors, and the
peak memory of each, how many runs each made, and the exponent by which the time of the processors grows from the length
before. A line of growth is 1 where ten times the commits take ten times as long. "allowed s" is the time of git, and
of the runs that ours makes beyond those of git, and 10 s. Exit code 1 where one of the two named
another commit than the culprit.
"""

import argparse
import json
import math
import os
import re
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Generator, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, replace
from pathlib import Path

from .history import History, Shape, range_of_checkout, write_history

_PROGRAM = "from precision_bisect.runner.process.entry import bisect_precision; bisect_precision()"
_FREE_SECONDS = 10.0
"""So much longer than git the tool may take, beside the runs that it makes more than git."""
_USED = re.compile(r"^used (\S+) (\S+) (\S+) (\d+)$", re.MULTILINE)
_COLUMNS = (
    "history",
    "commits",
    *(f"{whose} {what}" for whose in ("git", "our") for what in ("runs", "s", "CPU s", "MiB")),
    "allowed s",
    "git growth",
    "our growth",
)


@dataclass(frozen=True, kw_only=True)
class Usage:
    """What one bisection took."""

    wall: float
    processors: float
    mebibytes: float
    runs: int
    run_seconds: float
    is_right: bool


def _measure(words: Sequence[str], *, folder: Path, home: Path) -> tuple[Usage, str]:
    environment = {**os.environ, "PRECISION_BISECT_HOME": str(home), "OMP_NUM_THREADS": "1"}
    timed = ("/usr/bin/time", "-f", "used %e %U %S %M")
    ended = subprocess.run(
        [*timed, *words], cwd=folder, env=environment, text=True, capture_output=True, check=False
    )
    used = _USED.search(ended.stderr)
    if used is None or ended.returncode:
        raise RuntimeError(f"{' '.join(words)}: expected a bisection, found: {ended.stderr[-2000:]}")
    wall, user, system, kibibytes = map(float, used.groups())
    usage = Usage(
        wall=wall,
        processors=user + system,
        mebibytes=kibibytes / 1024,
        runs=0,
        run_seconds=0.0,
        is_right=False,
    )
    return usage, ended.stdout + ended.stderr


def bisect_with_git(made: History, *, home: Path) -> Usage:
    """Bisect with `git bisect run`."""
    script = shlex.join(made.git_script)
    words = f"git bisect start {made.bad} {made.good} && git bisect run {script} && git bisect log; git bisect reset"
    usage, told = _measure(("sh", "-c", words), folder=made.path, home=home)
    runs = len(re.findall(r"^running ", told, re.MULTILINE))
    return replace(usage, runs=runs, is_right=f"# first bad commit: [{made.culprit}]" in told)


def bisect_with_ours(made: History, *, home: Path) -> Usage:
    """Bisect with the tool."""
    ends = ("--good", made.good, "--bad", made.bad, "-o", str(home / "report"))
    usage, told = _measure(
        (sys.executable, "-c", _PROGRAM, *ends, "--", *made.script), folder=made.path, home=home
    )
    runs = len(re.findall(r"^run \d+ +(?:endpoint|search|confirm)", told, re.MULTILINE))
    report = json.loads((home / "report" / "report.json").read_text())
    return replace(
        usage,
        runs=runs,
        run_seconds=report["timing"]["run"] / runs,
        is_right=[each["commit"] for each in report["culprits"]] == [made.culprit],
    )


def allowed_seconds(git: Usage, ours: Usage) -> float:
    """Return the wall time that the tool may take."""
    return git.wall + (ours.runs - git.runs) * ours.run_seconds + _FREE_SECONDS


def main() -> int:
    """Write the table as it grows."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("results", type=Path, nargs="?", default=Path(__file__).parent / "results")
    parser.add_argument("--commits", type=int, nargs="*", default=[1000, 10_000, 100_000, 1_000_000])
    parser.add_argument("--shapes", nargs="*", default=[shape.name for shape in Shape])
    parser.add_argument(
        "--repository", type=Path, help="a clean checkout, of which ranges are bisected instead"
    )
    parser.add_argument(
        "--good", nargs="*", default=[], help="where these ranges begin; they end at its HEAD"
    )
    parser.add_argument("--file", help="a file that one commit of each of these ranges adds")
    parser.add_argument("--table", default="results.md", help="the name of the table's file")
    chosen = parser.parse_args()
    chosen.results.mkdir(exist_ok=True)
    lines = [f"| {' | '.join(_COLUMNS)} |", "| --- |" + " ---: |" * (len(_COLUMNS) - 1)]
    wrong = 0
    before: tuple[str, int, list[Usage]] | None = None
    for name, history in _histories(chosen):
        with history as made, tempfile.TemporaryDirectory(prefix="scale-") as home:
            used = [bisect_with_git(made, home=Path(home)), bisect_with_ours(made, home=Path(home))]
        wrong += sum(not each.is_right for each in used)
        shorter = before[1:] if before is not None and before[0] == name else None
        lines.append(_row(name, made.commits, used, shorter))
        before = name, made.commits, used
        print(lines[-1], flush=True)
        (chosen.results / chosen.table).write_text("\n".join(["# Long histories", "", *lines, ""]))
    return wrong > 0


def _histories(chosen: argparse.Namespace) -> Iterator[tuple[str, AbstractContextManager[History]]]:
    """Yield the name of each history, and a context in which it exists."""
    if chosen.repository is not None:
        path = chosen.repository.resolve()
        for good in chosen.good:
            yield path.name, nullcontext(range_of_checkout(path, good, chosen.file))
        return
    for shape in (Shape[name] for name in chosen.shapes):
        for commits in sorted(chosen.commits):
            yield shape.value, _made_history(shape, commits)


@contextmanager
def _made_history(shape: Shape, commits: int) -> Generator[History]:
    with tempfile.TemporaryDirectory(prefix="scale-") as folder:
        # The culprit lies on the trunk: the third commit of a block of seven.
        yield write_history(Path(folder) / "repository", shape, commits, culprit=7 * (5 * commits // 49) + 3)


def _row(what: str, commits: int, used: list[Usage], before: tuple[int, list[Usage]] | None) -> str:
    numbers = [
        f"{each.runs} | {each.wall:.1f} | {each.processors:.1f} | {each.mebibytes:.0f}" for each in used
    ]
    growth = ["", ""]
    if before is not None:
        growth = [
            f"{math.log(now.processors / earlier.processors) / math.log(commits / before[0]):.2f}"
            for now, earlier in zip(used, before[1], strict=True)
        ]
    allowed = f"{allowed_seconds(*used):.1f}"
    return f"| {' | '.join([what, f'{commits:,}', *numbers, allowed, *growth])} |"


if __name__ == "__main__":
    sys.exit(main())
