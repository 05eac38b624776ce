"""Writes the result folder of a reduction: the failing build, its twin, and scripts and texts for both.

`Reproducer` writes the folder. In it, `run.sh` runs a build, `check.sh` reproduces the failure, and `why.md` says
how the sources differ and what is left. `ReductionResult` is the content of `OUT/reduction.json`. Its schema is
published:
python -m precision_bisect.reduce.shrink.reproducer > docs/reduction.schema.json
"""

from __future__ import annotations

import difflib
import json
import re
import shlex
import shutil
import signal
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any, ClassVar, Literal

import numpy as np
from pydantic import BaseModel, ConfigDict

from ...runner.build_output.directory import BuildDirectory, TensorFolder, compare_generated
from ...runner.case.preflight import HARNESS, REPLAY_CASE, write_specs
from ...runner.compare.diff_report import escape_unprintable
from ...runner.compare.statistics import Tolerance
from ...runner.stack import Stack
from ...runner.tensor import TensorView, decode
from ...store.durable_files import Document, Upgrade, published_schema, replace_file, try_remove_tree
from ...store.vocabulary import Verdict, plural
from ..replay.toolchain import Toolchain
from ..scene import write_scene_test
from .edits import BuildPair
from .minimize import lower_bound_of_rate, passes_to_reject
from .oracle import BrokenRun, BuildMaker, Failure
from .program import Candidate
from .program_text import CandidateBuild

_CHECK_RESULT = Path(__file__).with_name("check_result.py")


@dataclass(frozen=True, kw_only=True)
class Reproducer:
    """Writes a result below `output`.

    Each new version of the result has its own folder. The link `result` names the newest complete version, and is
    replaced atomically.

    `reason` is the first sentence of `why.md`. `expected` identifies the failing run in `check.sh`, unless the user's
    `script` judges the build. `timeout` limits a run in `check.sh`, in seconds.
    """

    pair: BuildPair
    maker: BuildMaker
    output: Path
    tolerance: Tolerance
    reason: str
    expected: ExpectedFailure
    script: Path | None
    timeout: float

    @property
    def result(self) -> Path:
        """Return the path of the link to the newest complete version."""
        return self.output / "result"

    def write(self, candidate: Candidate) -> tuple[CandidateBuild, CandidateBuild | None]:
        """Write the failing build and its twin as a new version, and remove the old versions."""
        versions = self.output / "versions"
        versions.mkdir(parents=True, exist_ok=True)
        numbers = [int(version.name) for version in versions.iterdir() if version.name.isdigit()]
        folder = versions / str(max(numbers, default=0) + 1)
        failing, passing = self.make(candidate, folder)
        self._write_texts(folder)
        self.explain(candidate, failing, ())
        with replace_file(self.result) as link:
            link.symlink_to(folder.relative_to(self.output))
        for version in versions.iterdir():
            if version != folder:
                try_remove_tree(version)
        return failing, passing

    def make(self, candidate: Candidate, folder: Path) -> tuple[CandidateBuild, CandidateBuild | None]:
        """Make both builds below the new folder `folder`, each with its `run.sh`. There may be no twin."""
        failing, passing = self.maker.make(candidate, folder)
        try_remove_tree(folder / "runs-computing")
        self._add_run_script(failing, self.pair.failing.toolchain, side="failing")
        if passing is not None:
            self._add_run_script(passing, self.pair.reference.toolchain, side="passing")
        return failing, passing

    def explain(self, candidate: Candidate, failing: CandidateBuild, worst: Sequence[WorstRow]) -> None:
        """Write `why.md` beside the failing build. `worst` may be empty."""
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
            *_source_differences(failing.path, failing.path.with_name("passing")),
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
        """Write the number of runs that show the failure into `check.sh` and the README."""
        folder = failing.path.parent
        runs = runs_to_show(verified)
        _write_script(folder / "check.sh", *self._check.lines(runs=runs))
        with (folder / "README.md").open("a", encoding="utf-8") as readme:
            readme.write(
                f"\nThe failing build failed in {verified.failures} of {plural(verified.runs, 'run')} that verified "
                f"it: `./check.sh` runs it up to {plural(runs, 'time')}, "
                "which shows the failure with a chance of 99 %.\n"
            )

    @property
    def _check(self) -> CheckScript:
        return CheckScript(timeout=self.timeout, has_twin=self.pair.has_reference, script=self.script)

    def _add_run_script(self, build: CandidateBuild, toolchain: Toolchain, *, side: str) -> None:
        """Write `run.sh`, the files that it needs in `debug/`, and the same run as a scene test."""
        debug = build.path / "debug"
        try_remove_tree(debug)
        debug.mkdir()
        shutil.copyfile(REPLAY_CASE, debug / "run.py")
        if toolchain.stack.case.scene_tests:
            shutil.copyfile(HARNESS, debug / HARNESS.name)
        write_specs(build.arguments, debug / "specs.json")
        command = shlex.join(
            [
                *("debug/run.py", "--standalone", "-p", toolchain.platform),
                *("-d", str(toolchain.device)),
                *("--rtol", repr(self.tolerance.rtol), "--atol", repr(self.tolerance.atol)),
            ]
        )
        _write_script(build.path / "run.sh", *run_script_lines(toolchain, command, side=side))
        write_scene_test(build.path, build.arguments, self.tolerance)

    def _write_texts(self, folder: Path) -> None:
        """Write `run.sh`, `check.sh` with its files, and the README of a version."""
        _write_script(folder / "run.sh", 'exec "$(dirname "$0")/failing/run.sh"')
        debug = folder / "failing" / "debug"
        shutil.copyfile(_CHECK_RESULT, debug / "same_failure.py")
        (debug / "expected.json").write_text(json.dumps(vars(self.expected)), encoding="utf-8")
        _write_script(folder / "check.sh", *self._check.lines(runs=1))
        passing = (
            "- `failing/`: a build that fails; `passing/`: the same tasks of the good build, which pass."
        )
        readme = [
            "# Reduced build",
            "",
            passing if self.pair.has_reference else "- `failing/`: a build that fails.",
            "- `./run.sh` runs the failing one, `./check.sh` all: exit code 0 if the failure is reproduced.",
            "- `failing/test_reduced.py`: the same as a scene test of the runtime.",
            "- `why.md`: how the sources differ, what is left, and which values were substituted.",
        ]
        (folder / "README.md").write_text("\n".join(readme) + "\n", encoding="utf-8")


def _write_script(path: Path, *lines: str) -> None:
    path.write_text("#!/bin/sh\n" + "\n".join(lines) + "\n", encoding="utf-8")
    path.chmod(0o755)


def _source_differences(failing: Path, passing: Path) -> Iterator[str]:
    """Yield how the sources of the failing build differ from those of its twin, or nothing without a twin."""
    if not passing.is_dir():
        return
    builds = BuildDirectory.open(passing), BuildDirectory.open(failing)
    found = compare_generated(builds[1], builds[0])
    if found.is_empty:
        yield from ("The sources of both builds are the same: they differ in how they are run.", "")
        return
    yield from ("The sources differ so (`-` passes, `+` fails):", "", "```diff")
    lines: list[str] = []
    for path in (*found.differing, *found.only_failing, *found.only_reference):
        old, new = (
            build.source(PurePosixPath(path)).decode("utf-8", "replace").splitlines()
            if build.folder.has_file(path)
            else []
            for build in builds
        )
        lines += difflib.unified_diff(old, new, f"passing/{path}", f"failing/{path}", n=1, lineterm="")
    yield from (escape_unprintable(line.expandtabs()) for line in lines[:_MAX_DIFF_LINES])
    if len(lines) > _MAX_DIFF_LINES:
        yield f"... and {plural(len(lines) - _MAX_DIFF_LINES, 'more line')}"
    yield from ("```", "")


_MAX_DIFF_LINES = 40
"""`why.md` quotes at most this many lines of the difference between the sources."""


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


@dataclass(frozen=True, kw_only=True)
class ExpectedFailure:
    """What identifies a failing run in `check.sh`.

    `code` is the exit code as a shell sees it; None allows any. A line of the log must match one of the `patterns`, if
    there are any.
    """

    code: int | None
    patterns: tuple[str, ...]

    @classmethod
    def from_failure(cls, failure: Failure, stack: Stack) -> ExpectedFailure:
        """Return what identifies a failure.

        A timeout and a signal have an exit code of their own. Other failures have the stack's patterns.
        """
        code, verdict = None, Verdict.MISMATCH
        if isinstance(failure, BrokenRun):
            verdict = failure.verdict
            sent = signal.Signals.__members__.get(failure.signature or "")
            if verdict is Verdict.TIMEOUT:
                code = _TIMEOUT_EXIT_CODE
            elif verdict is Verdict.CRASH and sent is not None:
                code = 128 + sent.value
        if code is not None:
            return cls(code=code, patterns=())
        patterns = tuple(rule.pattern.pattern for rule in stack.verdicts if rule.verdict is verdict)
        return cls(code=None, patterns=patterns)


_TIMEOUT_EXIT_CODE = 124
"""timeout(1) ends with this exit code if it stopped its command."""


class _Part(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Size(_Part):
    """A count before and after the reduction."""

    before: int
    after: int


class Baseline(_Part):
    """How many runs of the whole straight-line program failed."""

    runs: int
    failures: int


class Verified(_Part):
    """How often the result's failing build failed and its twin passed. `passes` is null without a twin."""

    runs: int
    failures: int
    passes: int | None


class Substituted(_Part):
    """A tensor's recorded elements, which take the place of a dropped task's result."""

    tensor: str
    producer: str
    producer_ordinal: int
    recorded_in: str
    elements: int


def _remove_rewritten_kernels(old: Mapping[str, Any]) -> dict[str, Any]:
    """Upgrade a result of version 1, which listed kernels that an external program had made smaller (`--with`)."""
    return {key: value for key, value in old.items() if key != "rewritten_kernels"}


class ReductionResult(Document):
    """The result of a reduction.

    - `failure` is the failure that was looked for. `signature` is the failure that the result shows.
    - `extents` are pairs of an old and a new size of a dimension. `blocks` are pairs of a task and its new number of
      blocks. `plain_inputs` are pairs of a tensor and its new contents.
    - `statements_dropped` counts the statements that were dropped from the kernels of both builds.
    - `kept_tasks` are the tasks that the failing build submits. `missing_tasks` are those that only the good build
      submits, with the good build's ordinals.
    - `bytes` is the size of all tensors.
    - `oracle_calls` counts the runs of this process, and `cached` those of earlier ones.
    - `invalid` counts runs that could not be judged, and `slipped` runs with another failure.
    - `preloaded` are the modules that the fork servers of the search had imported. The result was verified without fork
      servers.
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
    """Return the JSON schema of `ReductionResult`."""
    return published_schema(ReductionResult)


NO_STACK = 127
"""`run.sh` ends with this exit code if the stack is missing. A shell uses the same code for a missing command."""


def run_script_lines(toolchain: Toolchain, command: str, *, side: str) -> list[str]:
    """Return the lines of a shell script that runs a Python program in the script's folder.

    `command` is the program with its arguments. `side` is "failing" or "passing": each build may have its own stack.

    A bisection's build runs with the stack of a slot: the slot's interpreter, and repositories at the build's commits.
    The slot may be gone later, or have other commits. So the script checks the slot first. If it changed, the script
    says how to make the stack anew, and takes the path of the new stack from a variable.
    """
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
    """Yield the lines that find the user's own interpreter."""
    yield f"python={shlex.quote(str(toolchain.python))}"
    yield 'command -v "$python" >/dev/null || {'
    yield '    echo "$0: expected the interpreter $python with the case\'s stack, found none; name another in $0" >&2'
    yield f"    exit {NO_STACK}"
    yield "}"


def _stack_lines(toolchain: Toolchain, side: str) -> Iterator[str]:
    """Yield the lines that find the interpreter of a slot, or of a stack that a reproduction script made."""
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
    for name, commit in toolchain.slot_commits().items():
        path = _word(str(toolchain.stack.repositories[name].path), toolchain)
        yield f'[ "$(git -C {path} rev-parse HEAD)" = {commit} ] || missing {shlex.quote(f"{name} at another commit")}'


def _word(text: str, toolchain: Toolchain) -> str:
    """Return a text as a word of a shell, in which the variable `stack` stands for the slot's folder."""
    if not toolchain.of_slot:
        return shlex.quote(text)
    parts = re.split(rf"{re.escape(str(toolchain.slot))}(?![\w.-])", text)
    return '"$stack"'.join(shlex.quote(part) if part else "" for part in parts) or "''"


_MISS_CHANCE = 0.01
"""All runs of a check pass with at most this chance, although the build has the failure."""


def runs_to_show(verified: Verified) -> int:
    """Return the number of runs in which a result fails at least once with a chance of 99 %.

    The rate is a lower bound by the runs that verified the result. A result may fail less often than the whole program.

    >>> runs_to_show(Verified(runs=4, failures=4, passes=4))
    4
    >>> runs_to_show(Verified(runs=13, failures=5, passes=13))
    18
    """
    return passes_to_reject(lower_bound_of_rate(verified.failures, verified.runs), _MISS_CHANCE)


@dataclass(frozen=True, kw_only=True)
class CheckScript:
    """The text of `check.sh`.

    The script compares the failing run with its `ExpectedFailure` by any Python. If the user gave a `script`, that
    script judges the failing build instead. `timeout` limits a run, in seconds.
    """

    timeout: float
    has_twin: bool
    script: Path | None

    def lines(self, *, runs: int) -> list[str]:
        """Return the lines of the script. It ends with 0 if one of up to `runs` runs shows the failure."""
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
        not_shown = "passed: not reproduced"
        if self.script is not None:
            once = [f"(cd failing && {shlex.quote(str(self.script))}) >failing.log 2>&1"]
            python = twin = []
            not_shown = "not interesting: failing.log"
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
            f'echo "{not_shown}, in $runs runs"',
            "exit 1",
        ]


_MAX_WORST_ROWS = 5
"""`why.md` lists at most this many of the worst rows. A reader starts with one of them."""


@dataclass(frozen=True, kw_only=True)
class WorstRow:
    """A row of an output: its elements along the last axis. `index` is the index along the other axes.

    `different` of its `elements` differ. `column`, `actual` and `expected` are those of the worst element.
    """

    output: str
    index: tuple[int, ...]
    different: int
    elements: int
    column: int
    actual: float
    expected: float


def worst_rows(actual: TensorFolder, expected: TensorFolder) -> list[WorstRow]:
    """Return the worst rows of all outputs that both folders hold in one shape, worst first.

    A NaN or an infinity on one side is worse than any other error.
    """
    rows = [
        row
        for name in sorted({*actual.names} & {*expected.names})
        for row in _rows(name, actual.tensor(name), expected.tensor(name))
    ]
    return [row for _, row in sorted(rows, key=lambda pair: -pair[0])[:_MAX_WORST_ROWS]]


def _rows(name: str, actual: TensorView, expected: TensorView) -> Iterator[tuple[float, WorstRow]]:
    """Yield the worst rows of one output, each with its largest absolute error."""
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


if __name__ == "__main__":
    print(schema_text(), end="")
