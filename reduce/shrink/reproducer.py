"""Writes the folder that a reduction leaves: the failing build, its twin, and what it takes to run and understand them.

`run.sh` runs a build with an interpreter that has the case's stack, or says how to get one. A bisection's builds run
with a slot's stack: its interpreter, and repositories checked out at the build's own commits. A slot is a cache. It may
be removed, and the next bisection checks out other commits there. So the script checks the slot first. It names a
script of the report that makes the same stack anew, and takes the place of that stack from a variable.

`check.sh` checks whether the twin passes and the failing build fails, in as many runs as that takes. `why.md` shows the
rows of an output that differ most from their expected values.

`ReductionResult` is the content of `OUT/reduction.json`. Its schema is published as `docs/reduction.schema.json`:
python -m precision_bisect.reduce.shrink.reproducer > docs/reduction.schema.json
"""

from __future__ import annotations

import json
import re
import shlex
import shutil
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import ceil, log
from pathlib import Path
from typing import Any, ClassVar, Literal

import numpy as np
from pydantic import BaseModel, ConfigDict

from ...runner.build_output.directory import TensorFolder
from ...runner.case.preflight import HARNESS, REPLAY_CASE, write_specs
from ...runner.compare.statistics import Tolerance
from ...runner.errors import UserError
from ...runner.git import GitRepository
from ...runner.tensor import TensorView, decode
from ...store.durable_files import Document, Upgrade, published_schema, replace_file
from ...store.vocabulary import plural
from ..replay.toolchain import Toolchain
from ..scene import write_scene_test
from .edits import BuildPair
from .oracle import ExpectedFailure, Maker
from .program import Candidate
from .program_text import CandidateBuild


class _Part(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Size(_Part):
    """A count before and after the reduction."""

    before: int
    after: int


class Baseline(_Part):
    """The whole program, straight-line: how many of its runs failed."""

    runs: int
    failures: int


class Verified(_Part):
    """Runs of the finished result: `failures` of the failing build, `passes` of its twin (null without a reference)."""

    runs: int
    failures: int
    passes: int | None


class Substituted(_Part):
    """Elements of a tensor that hold a recorded value in place of a dropped task's result."""

    tensor: str
    producer: str
    producer_ordinal: int
    recorded_in: str
    elements: int


def _remove_rewritten_kernels(old: Mapping[str, Any]) -> dict[str, Any]:
    """Upgrade a result of version 1, which named the kernels that another program had made smaller (`--with`)."""
    return {key: value for key, value in old.items() if key != "rewritten_kernels"}


class ReductionResult(Document):
    """The result of a reduction.

    - `failure` is the failure that was looked for, and `signature` the one that the result shows.
    - `oracle_calls` counts the runs of this call, and `cached` those that an earlier call had made.
    - `invalid` counts runs of candidates that could not be judged, and `slipped` those that failed in another way.
    - `bytes` are those of all tensors.
    - `extents` are old and new sizes of dimensions. `blocks` are tasks with their new number of blocks.
    - `plain_inputs` are tensors with their new contents. `statements_dropped` counts those of both builds' kernels.
    - `kept_tasks` are submitted by the failing build. `missing_tasks` are submitted by the good build alone, by its
      ordinals.
    - `preloaded` are the modules that processes of tests began with. The result was verified in new processes.
    """

    upgrades: ClassVar[tuple[Upgrade, ...]] = (_remove_rewritten_kernels,)

    schema_version: Literal[2] = 2
    failing_build: str
    reference: str | None
    stopped: Literal["done", "budget"]
    failure: str
    signature: str
    extents: tuple[tuple[int, int], ...]
    blocks: tuple[tuple[int, int], ...]
    plain_inputs: tuple[tuple[str, str], ...]
    statements_dropped: int
    kept_tasks: tuple[str, ...]
    missing_tasks: tuple[str, ...] = ()
    kernels_of_failing_build: tuple[str, ...]
    tasks: Size
    kernels: Size
    bytes: Size
    baseline: Baseline
    oracle_calls: int
    cached: int
    invalid: int
    slipped: int
    substituted: tuple[Substituted, ...]
    preloaded: tuple[str, ...]
    verified: Verified


def schema_text() -> str:
    """The JSON schema, as published."""
    return published_schema(ReductionResult)


NO_STACK = 127
"""A `run.sh` without an interpreter or stack ends with this exit code. A shell uses the same code for a missing
command."""


def run_script_lines(toolchain: Toolchain, command: str, *, side: str) -> list[str]:
    """The lines of a shell script that runs a Python program in its own folder. `side` is "failing" or "passing",
    because each build has a stack of its own."""
    environment = toolchain.environment
    exports = [
        f"export {name}={_word(environment[name], toolchain)}" if name in environment else f"unset {name}"
        for name in sorted(toolchain.settings)
    ]
    return [
        *(_stack_lines(toolchain, side) if toolchain.of_slot else _interpreter_lines(toolchain)),
        'cd "$(dirname "$0")" || exit',
        *exports,
        f'exec "$python" {command}',
    ]


def _interpreter_lines(toolchain: Toolchain) -> Iterator[str]:
    """The lines that find the user's own interpreter."""
    yield f"python={shlex.quote(str(toolchain.python))}"
    yield 'command -v "$python" >/dev/null || {'
    yield '    echo "$0: expected the interpreter $python with the case\'s stack, found none; name another in $0" >&2'
    yield f"    exit {NO_STACK}"
    yield "}"


def _stack_lines(toolchain: Toolchain, side: str) -> Iterator[str]:
    """The lines that find a slot's interpreter, if the slot is unchanged, or the one that a reproduction script
    made."""
    variable = f"{side.upper()}_STACK"
    script = "reproduce-bad.sh" if side == "failing" else "reproduce-good.sh"
    yield f"stack=${{{variable}:-{shlex.quote(str(toolchain.slot))}}}"
    yield 'stack=$(cd "$stack" 2>/dev/null && pwd || echo "$stack")'
    yield f"python={_word(str(toolchain.python), toolchain)}"
    yield "missing() {"
    yield (
        f'    echo "$0: expected the stack of the {side} build in $stack, found $1. Make it anew beside report.md: '
        f'sh {script} DIR; then set {variable} to the full path of DIR" >&2'
    )
    yield f"    exit {NO_STACK}"
    yield "}"
    yield 'command -v "$python" >/dev/null || missing "no interpreter"'
    for name, place, commit in _slot_commits(toolchain):
        yield f'[ "$(git -C {place} rev-parse HEAD)" = {commit} ] || missing {shlex.quote(f"{name} at another commit")}'


def _slot_commits(toolchain: Toolchain) -> Iterator[tuple[str, str, str]]:
    """The slot's repositories: names, paths as words of a shell, and commits."""
    for name, repository in toolchain.stack.repositories.items():
        if not repository.path.is_relative_to(toolchain.slot):
            continue
        try:
            commit = GitRepository(repository.path).run("rev-parse", "HEAD")
        except UserError:
            continue
        yield name, _word(str(repository.path), toolchain), commit


def _word(text: str, toolchain: Toolchain) -> str:
    """A word of a shell, in which the variable `stack` stands for the slot's folder."""
    if not toolchain.of_slot:
        return shlex.quote(text)
    parts = re.split(rf"{re.escape(str(toolchain.slot))}(?![\w.-])", text)
    return '"$stack"'.join(shlex.quote(part) if part else "" for part in parts) or "''"


_MISS_CHANCE = 0.01
"""No run of a check shows the failure, though the build has it, with at most this chance."""

_Z = 1.2816
"""90 % of the standard normal distribution lie below this quantile."""


def runs_to_show(verified: Verified) -> int:
    """The number of runs in which a build fails at least once with a chance of 99 %, by the runs that verified it.

    The whole program may have failed each time, where this part of it does not. Its fault may need something that was
    dropped. The rate is Wilson's lower bound at 90 % (E. B. Wilson, 1927).

    >>> runs_to_show(Verified(runs=4, failures=4, passes=4))
    4
    >>> runs_to_show(Verified(runs=13, failures=5, passes=13))
    18
    """
    share, z2 = verified.failures / verified.runs, _Z * _Z / verified.runs
    half = _Z * ((share * (1 - share) + z2 / 4) / verified.runs) ** 0.5
    rate = (share + z2 / 2 - half) / (1 + z2)
    return max(1, ceil(log(_MISS_CHANCE) / log(1 - rate)))


@dataclass(frozen=True, kw_only=True)
class CheckScript:
    """The check of a result. Any Python judges the failing run's log, or the user's `script` judges the build.
    `timeout` limits a run, in seconds."""

    timeout: float
    has_twin: bool
    script: Path | None

    def lines(self, *, runs: int) -> list[str]:
        """The lines of a shell script that exits with 0 if one of up to `runs` runs shows the failure."""
        limit = f"timeout {self.timeout:g}"
        no_stack = f"[ $code != {NO_STACK} ] ||"
        python = [
            "python=$(command -v python3 || command -v python) || {",
            '    echo "$0: expected python3 on PATH, to judge the failing run\'s log, found none; install it" >&2',
            "    exit 2",
            "}",
        ]
        twin = [
            f"{limit} ./passing/run.sh >passing.log 2>&1; code=$?",
            f"{no_stack} {{ cat passing.log >&2; exit 2; }}",
            "[ $code = 0 ] || { echo 'the twin does not pass: passing.log'; exit 2; }",
        ]
        once = [
            f"{limit} ./failing/run.sh >failing.log 2>&1; code=$?",
            "[ $code != 0 ] || return 1",
            f"{no_stack} {{ cat failing.log >&2; exit 2; }}",
            '"$python" failing/debug/same_failure.py failing.log $code || '
            "{ echo 'another failure: failing.log'; exit 2; }",
        ]
        if self.script is not None:
            once = [f"(cd failing && {shlex.quote(str(self.script))}) >failing.log 2>&1"]
            python = twin = []
        said = "passed: not reproduced" if self.script is None else "not interesting: failing.log"
        return [
            *python,
            'cd "$(dirname "$0")" || exit',
            *(twin if self.has_twin else ()),
            "fails() {",
            *(f"    {line}" for line in once),
            "}",
            f"runs={runs}  # as often as it takes to see the failure with a chance of 99 %, by its measured rate",
            "for run in $(seq $runs); do",
            '    fails && { echo "reproduced in run $run of up to $runs"; exit 0; }',
            "done",
            f'echo "{said}, in $runs runs"',
            "exit 1",
        ]


_MAX_WORST_ROWS = 5
"""A reproducer lists at most this many of the worst rows. A reader starts with one of them."""


@dataclass(frozen=True, kw_only=True)
class WorstRow:
    """A row of an output, which is what lies along the last axis. `index` is the index along the other axes. Values are
    those of the worst element."""

    output: str
    index: tuple[int, ...]
    different: int
    elements: int
    column: int
    actual: float
    expected: float


def worst_rows(actual: TensorFolder, expected: TensorFolder) -> list[WorstRow]:
    """The few worst rows of all outputs that both folders hold in one shape, worst first. NaN or infinity on one side
    is worst."""
    rows = [
        row
        for name in sorted({*actual.names} & {*expected.names})
        for row in _rows(name, actual.tensor(name), expected.tensor(name))
    ]
    return [row for _, row in sorted(rows, key=lambda pair: -pair[0])[:_MAX_WORST_ROWS]]


def _rows(name: str, actual: TensorView, expected: TensorView) -> Iterator[tuple[float, WorstRow]]:
    if actual.shape != expected.shape or not actual.shape or 0 in actual.shape:
        return
    a = decode(actual.dtype, actual.contiguous()).astype(np.float64)
    e = decode(expected.dtype, expected.contiguous()).astype(np.float64)
    with np.errstate(invalid="ignore"):
        same = (a == e) | (np.isnan(a) & np.isnan(e))
        error = np.where(same, 0.0, np.nan_to_num(np.abs(a - e), nan=np.inf))
    worst = error.max(axis=-1)
    for flat in np.argsort(-worst, axis=None, kind="stable")[:_MAX_WORST_ROWS]:
        index = tuple(map(int, np.unravel_index(int(flat), worst.shape)))
        if not worst[index] > 0:
            return
        column = int(error[index].argmax())
        yield (
            float(worst[index]),
            WorstRow(
                output=name,
                index=index,
                different=int((~same[index]).sum()),
                elements=a.shape[-1],
                column=column,
                actual=float(a[index][column]),
                expected=float(e[index][column]),
            ),
        )


_SAME_FAILURE = Path(__file__).with_name("same_failure.py")


@dataclass(frozen=True, kw_only=True)
class Reproducer:
    """Writes a result below `output`. `result` is a link to the newest complete version, and is replaced at once.

    `expected` is what `check.sh` asks of the failing run, unless `script` judges the build. `timeout` is in seconds.
    """

    pair: BuildPair
    maker: Maker
    output: Path
    tolerance: Tolerance
    reason: str
    expected: ExpectedFailure
    script: Path | None
    timeout: float

    @property
    def result(self) -> Path:
        """Return the newest complete version."""
        return self.output / "result"

    def write(self, candidate: Candidate) -> tuple[CandidateBuild, CandidateBuild | None]:
        """Write the failing build and its twin as a new version."""
        versions = self.output / "versions"
        versions.mkdir(parents=True, exist_ok=True)
        number = (
            max((int(version.name) for version in versions.iterdir() if version.name.isdigit()), default=0)
            + 1
        )
        folder = versions / str(number)
        failing, passing = self.make(candidate, folder)
        self._write_texts(folder)
        self.explain(candidate, failing, ())
        with replace_file(self.result) as link:
            link.symlink_to(Path("versions") / str(number))
        for old in versions.iterdir():
            if old.name != str(number):
                shutil.rmtree(old, ignore_errors=True)
        return failing, passing

    def make(self, candidate: Candidate, folder: Path) -> tuple[CandidateBuild, CandidateBuild | None]:
        """Make both builds below the new folder `folder`, each with its `run.sh`. Without a reference there is no
        twin."""
        failing, passing = self.maker.make(candidate, folder)
        shutil.rmtree(folder / "runs-computing", ignore_errors=True)
        self._add_run_script(failing, self.pair.failing.toolchain, side="failing")
        if passing is not None:
            self._add_run_script(passing, self.pair.reference.toolchain, side="passing")
        return failing, passing

    def explain(self, candidate: Candidate, failing: CandidateBuild, worst: Sequence[WorstRow]) -> None:
        """Write `why.md` beside the failing build."""
        pair = self.pair
        tasks = [f"- task {each}: `{pair.tasks[each].name}`" for each in pair.submitted_tasks(candidate)]
        missing = [f"- {pair.describe_task(each)}" for each in candidate.tasks if each in pair.missing]
        substituted = [
            f"- `{each.tensor}`: {plural(each.elements, 'element')} left by "
            f"{'no task' if each.producer_ordinal < 0 else pair.describe_task(each.producer_ordinal)}, recorded in the "
            f"{each.recorded_in} run"
            for each in failing.cut.boundaries
        ]
        outputs = [f"`{each.buffer.name}`" for each in failing.cut.tensors if each.expected is not None]
        truth = "the values of the good build" if self.pair.has_reference else "the golden data"
        why = [
            "# Why it fails",
            "",
            self.reason,
            "",
            f"Of {plural(len(pair.submitted_tasks(pair.order.whole)), 'task')}, left are:",
            "",
            *tasks,
            "",
            *(["Submitted by the passing build alone:", "", *missing, ""] if missing else []),
            f"Outputs: {', '.join(outputs) or 'none'}, against {truth}.",
            f"Kernels taken from the good build: {', '.join(candidate.collapsed) or 'none'}.",
            f"Sizes made smaller: {', '.join(f'{each} to {other}' for each, other in candidate.extents) or 'none'}.",
            f"Tasks in fewer blocks: {', '.join(f'{each} in {count}' for each, count in candidate.blocks) or 'none'}.",
            f"Inputs with plain values: {', '.join(f'`{each}`: {how}' for each, how in candidate.plain) or 'none'}.",
            f"Statements dropped from the kernels of both builds: {len(candidate.statements)}.",
            "",
            "Recorded values in place of dropped tasks:",
            "",
            *(substituted or ["- none"]),
        ]
        if worst:
            why += ["", "Worst rows (the last axis), in a run of the result:", "", *_table(worst)]
        (failing.path.parent / "why.md").write_text("\n".join(why) + "\n", encoding="utf-8")

    def write_check_runs(self, failing: CandidateBuild, verified: Verified) -> None:
        """Let `check.sh` run the failing build as often as necessary, and describe that in the README."""
        folder = failing.path.parent
        runs = runs_to_show(verified)
        _script(folder / "check.sh", *self._check.lines(runs=runs))
        with (folder / "README.md").open("a", encoding="utf-8") as readme:
            readme.write(
                f"\nThe failing build failed in {verified.failures} of {plural(verified.runs, 'run')} that verified "
                f"it: `./check.sh` runs it up to {plural(runs, 'time')}, "
                "which shows the failure with a chance of 99 %.\n"
            )

    @property
    def _check(self) -> CheckScript:
        return CheckScript(
            timeout=self.timeout,
            has_twin=self.pair.has_reference,
            script=self.script,
        )

    def _add_run_script(self, made: CandidateBuild, toolchain: Toolchain, *, side: str) -> None:
        debug = made.path / "debug"
        shutil.rmtree(debug, ignore_errors=True)
        debug.mkdir()
        shutil.copyfile(REPLAY_CASE, debug / "run.py")
        if toolchain.stack.case.scene_tests:
            shutil.copyfile(HARNESS, debug / HARNESS.name)
        write_specs(made.arguments, debug / "specs.json")
        command = shlex.join(
            [
                *("debug/run.py", "--standalone", "-p", toolchain.platform),
                *("-d", str(toolchain.device)),
                *("--rtol", repr(self.tolerance.rtol), "--atol", repr(self.tolerance.atol)),
            ]
        )
        _script(made.path / "run.sh", *run_script_lines(toolchain, command, side=side))
        write_scene_test(made.path, made.arguments, self.tolerance)

    def _write_texts(self, folder: Path) -> None:
        _script(folder / "run.sh", 'exec "$(dirname "$0")/failing/run.sh"')
        debug = folder / "failing" / "debug"
        shutil.copyfile(_SAME_FAILURE, debug / "same_failure.py")
        (debug / "expected.json").write_text(json.dumps(vars(self.expected)), encoding="utf-8")
        _script(folder / "check.sh", *self._check.lines(runs=1))
        passing = (
            "- `failing/`: a build that fails; `passing/`: the same tasks of the good build, which pass."
        )
        readme = [
            "# Reduced build",
            "",
            passing if self.pair.has_reference else "- `failing/`: a build that fails.",
            "- `./run.sh` runs the failing one, `./check.sh` all: exit code 0 if the failure is reproduced.",
            "- `failing/test_reduced.py`: the same as a scene test of the runtime.",
            "- `why.md`: what is left, and which values were substituted.",
        ]
        (folder / "README.md").write_text("\n".join(readme) + "\n", encoding="utf-8")


def _table(worst: Sequence[WorstRow]) -> list[str]:
    lines = [
        "| output | row | differ | column | actual | expected |",
        "| --- | --- | --- | --- | --- | --- |",
    ]
    lines += [
        f"| `{row.output}` | {list(row.index)} | {row.different} of {row.elements} | {row.column} | "
        f"{row.actual:.6g} | {row.expected:.6g} |"
        for row in worst
    ]
    return lines


def _script(path: Path, *lines: str) -> None:
    path.write_text("#!/bin/sh\n" + "\n".join(lines) + "\n", encoding="utf-8")
    path.chmod(0o755)


if __name__ == "__main__":
    print(schema_text(), end="")
