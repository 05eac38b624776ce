"""Runs the cases: `python -m benchmarks.kinds OUT [--only NAME] [--first N] [--jobs N] [--git] [--product PROGRAM]`."""

import argparse
import json
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter

from benchmarks.kinds.case import Case, Commit, read_cases
from benchmarks.kinds.history import build_history
from benchmarks.kinds.judge import Answer, Row, ask_all, ask_git, ask_product, bare
from benchmarks.kinds.project import Project, read_project, read_projects
from benchmarks.kinds.table import render

_PRODUCT = Path(sys.executable).parent / "bisect-precision"
_NOT_ASKED = Answer("not asked", 0, [], [], "", [], 0, 0.0)


def _find_plain_line(program: str) -> str:
    """How the report of a range begins in which nothing else fails: what differs from it has a caveat."""
    case = Case(
        "plain", "python", "twin", frozenset(), 7, "named", [Commit("good")] * 7 + [Commit("fault")] * 6
    )
    with TemporaryDirectory(prefix="kinds-") as folder:
        answer = ask_product(case, build_history(case, read_project("python"), Path(folder)), program, "")
    if answer.named != [case.culprit]:
        raise RuntimeError(f"expected {program} to name commit 7 of a plain range, found: {answer}")
    return bare(answer.first_line)


def _ask_git_alone(case: Case, project: Project) -> Row:
    with TemporaryDirectory(prefix="kinds-") as folder:
        answer, runs = ask_git(case, build_history(case, project, Path(folder)))
    return Row(case, _NOT_ASKED, _NOT_ASKED, answer, runs)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.kinds", description=__doc__)
    parser.add_argument("out", type=Path, help="write results.md and results.json to this folder")
    parser.add_argument("--only", default="", help="run the cases whose name has this text")
    parser.add_argument("--first", type=int, default=None, help="run only so many cases")
    parser.add_argument("--jobs", type=int, default=1, help="run so many cases at once")
    parser.add_argument("--git", action="store_true", help="ask `git bisect run` alone")
    parser.add_argument(
        "--product", default=str(_PRODUCT), help="ask this program in place of bisect-precision"
    )
    arguments = parser.parse_args()
    cases = [case for case in read_cases() if arguments.only in case.name][: arguments.first]
    projects = read_projects()
    plain_line = "" if arguments.git else _find_plain_line(arguments.product)
    arguments.out.mkdir(parents=True, exist_ok=True)
    rows: list[Row] = []
    begun = perf_counter()

    def ask(case: Case) -> Row:
        if arguments.git:
            return _ask_git_alone(case, projects[case.project])
        return ask_all(case, projects[case.project], arguments.product, plain_line)

    with ThreadPoolExecutor(arguments.jobs) as pool:
        for row in pool.map(ask, cases):
            rows.append(row)
            answer = f"{row.product.judgement}, {row.product.runs} runs; git {row.git}, {row.git_runs} runs"
            print(f"{len(rows):3} of {len(cases)}  {row.case.name:40} {answer}", flush=True)
            data = {"minutes": (perf_counter() - begun) / 60, "rows": [one.as_data() for one in rows]}
            (arguments.out / "results.json").write_text(json.dumps(data, indent=1) + "\n", encoding="utf-8")
    (arguments.out / "results.md").write_text(render(rows, plain_line), encoding="utf-8")


if __name__ == "__main__":
    main()
