"""python -m benchmarks.scale: bisect made-up histories of growing length, with `git bisect run` and with the tool.

Both get the same repository and the same script. The table tells the wall time, the time of the processors, and the
peak memory of each, how many runs each made, and the exponent by which the time of the processors grows from the length
before. A line of growth is 1 where ten times the commits take ten times as long. Exit code 1 where one of the two named
another commit than the culprit.
"""

import argparse
import math
import os
import re
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from .history import MadeHistory, Shape, write_history

_PROGRAM = "from precision_bisect.bisect.cli import main; main()"
_SCRIPT = ("sh", "-c", "test ! -e broken")
_USED = re.compile(r"^used (\S+) (\S+) (\S+) (\d+)$", re.MULTILINE)
_COLUMNS = (
    "history",
    "commits",
    *(f"{whose} {what}" for whose in ("git", "our") for what in ("runs", "s", "CPU s", "MiB")),
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
    usage = Usage(wall=wall, processors=user + system, mebibytes=kibibytes / 1024, runs=0, is_right=False)
    return usage, ended.stdout + ended.stderr


def bisect_with_git(made: MadeHistory, *, home: Path) -> Usage:
    """Bisect with `git bisect run`."""
    script = shlex.join(_SCRIPT)
    words = f"git bisect start {made.bad} {made.good} && git bisect run {script} && git bisect log; git bisect reset"
    usage, told = _measure(("sh", "-c", words), folder=made.path, home=home)
    runs = len(re.findall(r"^running ", told, re.MULTILINE))
    return replace(usage, runs=runs, is_right=f"# first bad commit: [{made.culprit}]" in told)


def bisect_with_ours(made: MadeHistory, *, home: Path) -> Usage:
    """Bisect with the tool."""
    ends = ("--good", made.good, "--bad", made.bad, "-o", str(home / "report"))
    usage, told = _measure(
        (sys.executable, "-c", _PROGRAM, *ends, "--", *_SCRIPT), folder=made.path, home=home
    )
    runs = len(re.findall(r"^run \d+ +(?:endpoint|search|confirm)", told, re.MULTILINE))
    return replace(usage, runs=runs, is_right=made.culprit in (home / "report" / "report.json").read_text())


def main() -> int:
    """Write the table as it grows."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("results", type=Path, nargs="?", default=Path(__file__).parent / "results")
    parser.add_argument("--commits", type=int, nargs="*", default=[1000, 10_000, 100_000])
    parser.add_argument("--shapes", nargs="*", default=[shape.name for shape in Shape])
    chosen = parser.parse_args()
    chosen.results.mkdir(exist_ok=True)
    lines = [f"| {' | '.join(_COLUMNS)} |", "| --- |" + " ---: |" * (len(_COLUMNS) - 1)]
    wrong = 0
    for shape in (Shape[name] for name in chosen.shapes):
        before: tuple[int, list[Usage]] | None = None
        for commits in sorted(chosen.commits):
            with tempfile.TemporaryDirectory(prefix="scale-") as name:
                folder = Path(name)
                (folder / "home").mkdir()
                # The culprit lies on the trunk: the third commit of a block of seven.
                culprit = 7 * (5 * commits // 49) + 3
                made = write_history(folder / "repository", shape, commits, culprit=culprit)
                used = [
                    bisect_with_git(made, home=folder / "home"),
                    bisect_with_ours(made, home=folder / "home"),
                ]
            wrong += sum(not each.is_right for each in used)
            lines.append(_row(shape, commits, used, before))
            before = commits, used
            print(lines[-1], flush=True)
            (chosen.results / "results.md").write_text("\n".join(["# Long histories", "", *lines, ""]))
    return wrong > 0


def _row(shape: Shape, commits: int, used: list[Usage], before: tuple[int, list[Usage]] | None) -> str:
    numbers = [
        f"{each.runs} | {each.wall:.1f} | {each.processors:.1f} | {each.mebibytes:.0f}" for each in used
    ]
    growth = ["", ""]
    if before is not None:
        growth = [
            f"{math.log(now.processors / earlier.processors) / math.log(commits / before[0]):.2f}"
            for now, earlier in zip(used, before[1], strict=True)
        ]
    return f"| {' | '.join([shape.value, f'{commits:,}', *numbers, *growth])} |"


if __name__ == "__main__":
    sys.exit(main())
