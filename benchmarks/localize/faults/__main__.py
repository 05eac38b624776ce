"""Accuracy of localization on faults that nobody planned for: drawn kinds at drawn places of all cases of the demo.

    python -m benchmarks.localize.faults OUT [--faults 300] [--seed 2000] [--quick] [--keep NUMBER]

Fault NUMBER of a seed is the same in each call. The case's own check says whether it fails, with its own tolerance; a
place where it does not end as its kind intends is passed over, and counted. Then `reduce BAD --reference GOOD
--localize-only` answers, told that tolerance. Rows are appended to OUT/faults.jsonl as they come; those that stand
there already are not made again. OUT/faults.md is the table of all rows.
"""

from __future__ import annotations

import argparse
import compileall
import json
import shutil
import tempfile
import time
from collections.abc import Iterable
from pathlib import Path

from click.testing import CliRunner

from benchmarks.localize.table import Row, read_rows
from precision_bisect.reduce.reduce_cli import main as reduce_command
from precision_bisect.runner.localization import Divergence
from tests.reduce.demo_builds import Trees
from tests.reduce.quick_runs import quick_runs
from tests.support.compiler import compile_once

from .answer import grade, named, task_is_right
from .draw import FAMILIES, Drawn, Generator
from .table import write_table

_TIMEOUT = 60


def main() -> None:
    """Draws the faults that are not in OUT yet, one after another."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("out", type=Path)
    parser.add_argument("--faults", type=int, default=300)
    parser.add_argument("--seed", type=int, default=2000)
    parser.add_argument("--quick", action="store_true", help="draw the first fault of each family only")
    parser.add_argument(
        "--keep", type=int, metavar="NUMBER", help="draw this one alone, leave its builds in OUT"
    )
    arguments = parser.parse_args()
    arguments.out.mkdir(parents=True, exist_ok=True)
    journal = arguments.out / "faults.jsonl"
    done = {(row["seed"], row["number"]) for row in read_rows(journal)}
    with tempfile.TemporaryDirectory() as name, quick_runs():
        folder = Path(name) if arguments.keep is None else arguments.out.absolute() / f"kept-{arguments.keep}"
        compile_once(Path(name) / "compiled")
        trees = Trees.make(folder / "trees")
        # Runs import the trees and may not write there: each would compile all of them again.
        compileall.compile_dir(trees.folder, quiet=1)
        generator = Generator(trees, arguments.seed, folder)
        if arguments.keep is not None:
            drawn = generator.draw(arguments.keep)
            print(
                "no place" if drawn is None else json.dumps(_row(drawn, arguments.keep, generator), indent=2)
            )
            return
        for number in _quick(generator) if arguments.quick else range(arguments.faults):
            if (arguments.seed, number) in done:
                continue
            drawn = generator.draw(number)
            if drawn is None:
                print(f"{number}: {generator.kind(number)} has no place", flush=True)
                continue
            row = _row(drawn, number, generator)
            print(f"{number}: {row['kind']} in {row['case']}: {row['grade']}", flush=True)
            with journal.open("a") as stream:
                stream.write(json.dumps(row) + "\n")
            shutil.rmtree(folder / f"fault-{number}")
            write_table(read_rows(journal), arguments.out / "faults.md")


def _quick(generator: Generator) -> Iterable[int]:
    numbers = range(sum(map(len, FAMILIES.values())))
    first: dict[str, int] = {}
    for number in numbers:
        first.setdefault(generator.kind(number)[0], number)
    return first.values()


def _row(drawn: Drawn, number: int, generator: Generator) -> Row:
    """The command's answer, beside the truth."""
    output = drawn.twins.bad.parent / "localized"
    begun = time.monotonic()
    done = CliRunner().invoke(
        reduce_command,
        [*drawn.reduce_words, "--localize-only", "--timeout", str(_TIMEOUT), "-o", str(output)],
    )
    seconds = time.monotonic() - begun
    written = output / "divergence.json"
    divergence = Divergence.model_validate_json(written.read_text()) if written.exists() else None
    return {
        "seed": generator.seed,
        "number": number,
        "family": drawn.family,
        "kind": drawn.kind,
        "case": drawn.case,
        "ending": drawn.fault.ending.value,
        "truth": [
            [sorted(cause.kernels), sorted(cause.tensors), cause.change.value] for cause in drawn.fault.causes
        ],
        "passed_over": drawn.passed_over,
        "grade": grade(drawn.good, drawn.fault, divergence).value,
        "task_right": task_is_right(drawn.fault, divergence),
        "answer": [
            [
                one.kernel,
                sorted(one.tensors),
                sorted(one.classes),
                sorted(one.kernels_changed | one.lines)[:4],
            ]
            for one in (named(divergence) if divergence is not None else ())
        ],
        "exit_code": done.exit_code,
        "error": done.output.strip()[-300:] if divergence is None else "",
        "runs": divergence.runs if divergence is not None else 0,
        "seconds": round(seconds, 1),
    }


if __name__ == "__main__":
    main()
