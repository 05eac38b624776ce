"""python -m benchmarks.meaning.natural [--write]: what `explain` answers on real miscompiles, from recorded dumps.

`natural/truth.json` has a row for each case: the fix of pypto's log, what it fixes, and the pass and the tiles that
`explain` must name. It was written before any run. `natural/CASE.before.tar.xz` and `natural/CASE.after.tar.xz` hold
the dumps and tensors of the case, made by `natural/kernels.py` without the fix and with it. --write writes the table to
`results/natural.md`.

    python -m benchmarks.meaning.natural --record BEFORE AFTER

packs two folders of `natural/kernels.py`.
"""

from __future__ import annotations

import argparse
import io
import json
import sys
import tarfile
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from precision_bisect.meaning.intervention import PassIntervention
from precision_bisect.meaning.ir import CAPACITIES_910B
from precision_bisect.meaning.ladder import LadderExplanation, LadderVerdict, PassCase, explain
from precision_bisect.meaning.values import Finding

HERE = Path(__file__).parent
RECORDED = HERE / "natural"
TABLE = HERE / "results" / "natural.md"
REVISION = "018178d01"
SIDES = ("before", "after")


@dataclass(frozen=True)
class Answer:
    """What `explain` said of one recorded build."""

    verdict: LadderVerdict
    pass_name: str | None
    findings: tuple[Finding, ...]
    variable: str | None
    is_proven: bool
    executed: bool
    seconds: float

    @property
    def names(self) -> set[str]:
        """The tiles that are named."""
        found = {_plain(name) for each in self.findings for name in (each.tile, each.other) if name}
        return found | ({self.variable} if self.variable else set())

    def describe(self) -> str:
        if self.verdict is LadderVerdict.RIGHT_IR:
            return "nothing" if self.executed else "nothing, some dumps not executed"
        if self.pass_name is None:
            return self.verdict.value
        proven = ", proven" if self.is_proven else ""
        if self.findings:
            first = self.findings[0]
            other = f" (`{_plain(first.other)}`)" if first.other else ""
            return f"{self.pass_name}: `{_plain(first.tile)}` {first.kind.value}{other}{proven}"
        return (f"{self.pass_name}: `{self.variable}`" if self.variable else self.pass_name) + proven


def _plain(name: str) -> str:
    """A variable's name in the case: ours have no two underscores."""
    return name.partition("__")[0]


def load_case(build: Path) -> PassCase:
    """Return the tensors of a recorded build, with the harness's tolerance."""
    tensors = {
        part: {
            path.stem: torch.load(path, weights_only=True)
            for path in sorted((build / "data" / part).glob("*.pt"))
        }
        for part in ("in", "out")
    }
    return PassCase(
        inputs=tensors["in"], expected=tensors["out"], rtol=1e-5, atol=1e-5, capacities=CAPACITIES_910B
    )


def answer(build: Path) -> Answer:
    case = load_case(build)
    began = time.perf_counter()
    found = explain(build / "passes_dump", case)
    return Answer(
        verdict=found.verdict,
        pass_name=found.first_bad.dump.pass_name if found.first_bad else None,
        findings=found.first_bad.faults if found.first_bad else (),
        variable=_variable(found),
        is_proven=any(
            isinstance(step.evidence, PassIntervention) and step.evidence.cause for step in found.steps
        ),
        executed=found.not_executed == 0,
        seconds=time.perf_counter() - began,
    )


def _variable(found: LadderExplanation) -> str | None:
    return next((name for step in found.steps if (name := getattr(step.evidence, "variable", None))), None)


def recorded_answer(case: str, side: str) -> Answer | None:
    archive = RECORDED / f"{case}.{side}.tar.xz"
    if not archive.exists():
        return None
    with tempfile.TemporaryDirectory() as folder:
        with tarfile.open(archive) as packed:
            packed.extractall(folder, filter="data")
        return answer(Path(folder))


def judge(truth: dict[str, Any], before: Answer | None, after: Answer | None) -> str:
    """`right`, or what is not as the truth says."""
    if before is None:
        return "not recorded"
    wrong: list[str] = []
    if before.pass_name != truth["pass"]:
        wrong.append("pass")
    elif not all(set(each.split("|")) & before.names for each in truth["tiles"]):
        wrong.append("tiles")
    if after is not None and after.verdict is not LadderVerdict.RIGHT_IR:
        wrong.append("after")
    return "right" if not wrong else "wrong: " + ", ".join(wrong)


def pack(build: Path, archive: Path) -> None:
    """Pack a build so that the same build makes the same archive."""
    with tarfile.open(archive, "w:xz", preset=9) as packed:
        for path in sorted(build.rglob("*")):
            if path.is_file():
                member = tarfile.TarInfo(str(path.relative_to(build)))
                content = path.read_bytes()
                member.size = len(content)
                packed.addfile(member, io.BytesIO(content))


def record(folders: list[Path]) -> None:
    for truth in json.loads((RECORDED / "truth.json").read_text()):
        for side, folder in zip(SIDES, folders, strict=True):
            build = folder / truth["case"]
            if (build / "passes_dump").is_dir():
                pack(build, RECORDED / f"{truth['case']}.{side}.tar.xz")


def table(rows: list[tuple[dict[str, Any], Answer | None, Answer | None, str]]) -> str:
    lines = [
        "| fix | what it fixes | case | pass to name | before the fix | at the fix | verdict |",
        "| --- | --- | --- | --- | --- | --- | --- |",
    ]
    for truth, before, after, verdict in rows:
        tiles = "".join(f", `{each}`".replace("|", "` or `") for each in truth["tiles"])
        lines.append(
            f"| {truth['fix']} | {truth['fixes']} | {truth['case']} | {truth['pass'] or 'none'}{tiles} "
            f"| {before.describe() if before else ''} | {after.describe() if after else truth['without_after']} "
            f"| {verdict} |"
        )
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--write", action="store_true", help="write the table to results/natural.md")
    parser.add_argument("--record", nargs=2, type=Path, metavar=("BEFORE", "AFTER"))
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    if arguments.record:
        record(arguments.record)
    rows: list[tuple[dict[str, Any], Answer | None, Answer | None, str]] = []
    for truth in json.loads((RECORDED / "truth.json").read_text()):
        before, after = (recorded_answer(truth["case"], side) for side in SIDES)
        rows.append((truth, before, after, judge(truth, before, after)))
        print(truth["case"], rows[-1][3], before.describe() if before else "", flush=True)
    if arguments.write:
        head = TABLE.read_text().partition("| fix |")[0]
        TABLE.write_text(f"{head}{table(rows)}\n")
    sys.exit(any(verdict.startswith("wrong") for *_, verdict in rows))


if __name__ == "__main__":
    main()
