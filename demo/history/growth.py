"""Harmless commits that any repository of the stack can get: documentation, tests and CI files."""

import random
from collections.abc import Callable

from .edit import Replace, Tree, TreeEdit, Write, append
from .python_edits import Frozen

Recipe = Callable[[Tree, random.Random, Frozen], TreeEdit | None]
"""Makes an edit that fits the tree, or says with None that it has nothing (more) to offer."""

CI_FILE = ".github/workflows/ci.yml"
CI_TEXT = """\
name: ci
on: [push, pull_request]
jobs:
  tests:
    runs-on: ubuntu-22.04
    timeout-minutes: 20
    env:
      CACHE_KEY: v1
    steps:
      - uses: actions/checkout@v4
        with:
          submodules: true
      - uses: actions/setup-python@v5
        with:
          python-version: "3.11"
      - run: pip install --no-build-isolation -e .
      - run: python -m pytest tests
"""

_CASES = ("elementwise_chain", "softmax", "rms_norm", "matmul_splitk", "attention_decode", "quant_matmul")
_PLATFORMS = ("a2a3", "a2a3sim", "a5", "a5sim")


def raise_ci_timeout(tree: Tree, rng: random.Random, frozen: Frozen) -> TreeEdit | None:
    """Gives the tests of CI another number of minutes."""
    return _set_in_ci(tree, "timeout-minutes: ", str(rng.randint(10, 60)), "CI: allow the tests {} minutes")


def drop_ci_cache(tree: Tree, rng: random.Random, frozen: Frozen) -> TreeEdit | None:
    """Changes the key of CI's cache."""
    key = f"v{rng.randint(2, 9999)}"
    return _set_in_ci(tree, "CACHE_KEY: ", key, "CI: drop the compiler cache, key {}")


def note_change(tree: Tree, rng: random.Random, frozen: Frozen) -> TreeEdit | None:
    """Adds a line to the list of changes."""
    path = "docs/changes.md"
    case, platform = rng.choice(_CASES), rng.choice(_PLATFORMS)
    rows, columns = 8 * rng.randint(1, 64), rng.randint(16, 1024)
    note = rng.choice(
        (
            f"- `{case}` is checked at {rows}x{columns} on {platform}.\n",
            f"- A known slow spot: `{case}` at {rows}x{columns}.\n",
            f"- {platform}: say in the guide how `{case}` was measured at {rows}x{columns}.\n",
        )
    )
    subject = f"Docs: note on {case} at {rows}x{columns}"
    return TreeEdit(subject, (append(tree, path, note, head="# Changes\n\n"),))


def note_measurement(tree: Tree, rng: random.Random, frozen: Frozen) -> TreeEdit | None:
    """Adds a row to the table of measurements."""
    path = "docs/measurements.md"
    case, platform = rng.choice(_CASES), rng.choice(_PLATFORMS)
    row = f"| {case} | {platform} | {rng.randint(1, 4)} | {rng.uniform(5, 900):.1f} |\n"
    head = "# Measurements\n\n| case | platform | threads | us |\n| --- | --- | --- | --- |\n"
    return TreeEdit(f"Docs: time of {case} on {platform}", (append(tree, path, row, head=head),))


def answer_question(tree: Tree, rng: random.Random, frozen: Frozen) -> TreeEdit | None:
    """Adds a question that is not answered yet; None where all are."""
    path = "docs/questions.md"
    known = tree.get(path, "# Questions\n")
    fresh = [(question, answer) for question, answer in _QUESTIONS if question not in known]
    if not fresh:
        return None
    question, answer = rng.choice(fresh)
    return TreeEdit(f'Docs: answer "{question}"', (Write(path, f"{known}\n## {question}\n\n{answer}\n"),))


QUIET: tuple[Recipe, ...] = (note_change, note_measurement, answer_question, raise_ci_timeout, drop_ci_cache)

_QUESTIONS = (
    ("Where do the build folders go?", "Under `build_output/` of the current folder, one a compilation."),
    ("How do I run without a board?", "Use one of the simulator platforms, `a2a3sim` or `a5sim`."),
    (
        "How do I see what a pass did?",
        "Run the case with `--dump-passes` and compare files of `passes_dump/`.",
    ),
    ("How do I run a build again?", "Give its folder to the case with `--runtime-dir`."),
    ("Which tensors can be dumped?", "All arguments of a task; level 1 dumps only those that are marked."),
    ("Why do two runs differ in the last digit?", "Cases draw new inputs each time unless they are frozen."),
    ("Which Python versions work?", "3.11 and newer."),
    (
        "How do I report a wrong result?",
        "Attach the build folder and the golden data of the failed run.",
    ),
)


def _set_in_ci(tree: Tree, key: str, value: str, subject: str) -> TreeEdit | None:
    line = next(line for line in tree[CI_FILE].splitlines() if key in line)
    new = line[: line.index(key) + len(key)] + value
    return TreeEdit(subject.format(value), (Replace(CI_FILE, line, new),)) if new != line else None
