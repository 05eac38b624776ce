"""python -m benchmarks.meaning.worked [--write]: the five worked cases of pypto's page on precision.

The page is docs/en/user/precision/01-cases.md. Each case has a kernel of ours in `planted/planted_kernels.py`, whose
dumps and tensors `planted/builds.tar.xz` holds. `explain` must blame a pass in the first case alone, and say of each
other one what the page finds. --write writes the table to `results/worked.md`.
"""

from __future__ import annotations

import argparse
import sys
import tarfile
import tempfile
from dataclasses import dataclass
from pathlib import Path

import torch

from precision_bisect.meaning.ladder import IrNotes, LadderVerdict, explain
from precision_bisect.meaning.values import AtomicSpread, CastChain, IrNote, PartialReduction

from .natural import load_case
from .planted import BUILDS

TABLE = Path(__file__).parent / "results" / "worked.md"


@dataclass(frozen=True)
class WorkedCase:
    """A case of the page: what it finds, our build of it, and what `explain` must say."""

    finds: str
    build: str
    pass_name: str | None = None
    note: type[IrNote] | None = None


CASES = (
    WorkedCase("a pass changed what the program computes", "36.column_vectors", "ResolveBackendOpLayouts"),
    WorkedCase("a cast in two hops is bit for bit the direct one", "0.two_hops", note=CastChain),
    WorkedCase("padding takes part in a reduction", "0.padded", note=PartialReduction),
    WorkedCase("split-K adds in no fixed order, by design", "0.split_k", note=AtomicSpread),
    WorkedCase("the IR is right, the data is wrong: compare values", "0.late_use"),
)


def judge(case: WorkedCase, root: Path) -> tuple[bool, str]:
    """Whether `explain` says what the page says, and what it says."""
    build = root / case.build
    found = explain(build / "passes_dump", load_case(build))
    evidence = next((step.evidence for step in found.steps if isinstance(step.evidence, IrNotes)), None)
    found_notes = () if evidence is None else evidence.found
    wanted = LadderVerdict.RIGHT_IR if case.pass_name is None else LadderVerdict.PASS_CHANGED_VALUES
    blamed = found.first_bad.dump.pass_name if found.first_bad is not None else None
    kinds = [type(each) for each in found_notes]
    is_right = (found.verdict, blamed) == (wanted, case.pass_name) and kinds == (
        [] if case.note is None else [case.note]
    )
    said = "; ".join(each.describe() for each in found_notes)
    return is_right, f"{found.verdict.value}{': ' + blamed if blamed else ''}{'; ' + said if said else ''}"


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--write", action="store_true", help="write the table to results/worked.md")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    lines = ["| the page finds | case | `explain` says | as the page |", "| --- | --- | --- | --- |"]
    with tempfile.TemporaryDirectory() as temporary:
        with tarfile.open(BUILDS) as packed:
            packed.extractall(temporary, filter="data")
        answers = [judge(case, Path(temporary)) for case in CASES]
    for case, (is_right, said) in zip(CASES, answers, strict=True):
        name = case.build.partition(".")[2]
        lines.append(f"| {case.finds} | {name} | {said} | {'yes' if is_right else 'no'} |")
    print("\n".join(lines))
    if arguments.write:
        head = TABLE.read_text().partition("| the page")[0] if TABLE.exists() else "# Worked cases\n\n"
        TABLE.write_text(head + "\n".join(lines) + "\n")
    sys.exit(not all(is_right for is_right, _ in answers))


if __name__ == "__main__":
    main()
