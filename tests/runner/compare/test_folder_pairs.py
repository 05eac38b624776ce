"""Of folders drawn by seed nothing is passed that was not compared, and nothing is called what it is not."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from precision_bisect.runner.compare.diff_cli import main
from tests.runner.compare.folder_pairs import (
    DIFFERENT,
    EQUAL,
    LEFT_OUT,
    UNKNOWN,
    Expectation,
    FolderPair,
    draw_folder_pair,
)
from tests.support.quick import quick_first

SEEDS = 150
_BLOCK = 10
_SEVERITY = (LEFT_OUT, EQUAL, UNKNOWN, DIFFERENT)


def run(*arguments: object) -> Result:
    result = CliRunner().invoke(main, [str(argument) for argument in arguments])
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result


@pytest.mark.parametrize("first", quick_first(range(0, SEEDS, _BLOCK)))
def test_no_file_is_passed_that_was_not_compared(first: int, tmp_path: Path) -> None:
    for seed in range(first, first + _BLOCK):
        pair = draw_folder_pair(seed, tmp_path / str(seed))
        wrong = faults(pair)
        assert not wrong, f"seed {seed}: {wrong}"


def faults(pair: FolderPair) -> list[str]:
    """What `diff-tensors` says wrongly of a pair."""
    options = [word for glob in pair.ignored for word in ("--ignore", glob)]
    answer = run(pair.actual, pair.expected, *options, "--json")
    # Where a side has nothing to read, nothing is compared.
    if not answer.stdout:
        return [] if answer.exit_code == 2 and not all(pair.has_tensors) else [f"no answer: {answer.output}"]
    told = json.loads(answer.stdout)
    outcomes = {record["name"]: record["outcome"] for record in told["tensors"]}
    is_whole = not any("not whole" in remark["message"] for remark in told["preflight"])
    wrong = [fault for each in pair.expectations for fault in _faults_of(each, outcomes, pair, is_whole)]
    wrong += [f"{name} is nothing of the pair" for name in outcomes if not _is_known(name, pair)]
    if len(outcomes) < len(told["tensors"]):
        wrong.append("two records have one name")
    if told["counts"] != dict.fromkeys(_SEVERITY, 0) | Counter(outcomes.values()):
        wrong.append(f"counts {told['counts']}")
    if answer.exit_code != _exit_code(outcomes, is_whole):
        wrong.append(f"exit code {answer.exit_code} of {outcomes}")
    if answer.exit_code and pair.is_calm:
        wrong.append(f"exit code {answer.exit_code} of folders that hold the same")
    if not answer.exit_code and pair.has_lost_records:
        wrong.append("lost records are passed")
    return wrong + list(_faults_of_other_forms(pair, options, outcomes, answer.exit_code, is_whole))


def _faults_of_other_forms(
    pair: FolderPair, options: list[str], outcomes: dict[str, Any], code: int, is_whole: bool
) -> Iterator[str]:
    """What is wrong with the text, with the one line, and where the pair is compared as two runs."""
    text = run(pair.actual, pair.expected, *options, "--limit", "0")
    brief = run(pair.actual, pair.expected, *options, "-q")
    several = run(pair.actual, pair.actual, pair.expected, *options, "-q")
    for name, outcome in outcomes.items():
        if outcome in (UNKNOWN, DIFFERENT) and name not in text.output:
            yield f"{name}: {outcome}, not told in the text"
    if not text.exit_code == brief.exit_code == code:
        yield f"exit codes {code}, {text.exit_code}, {brief.exit_code} of one pair"
    if not brief.output.startswith({0: "equal: ", 1: "different: ", 2: "not compared: "}[code]):
        yield f"exit code {code} of {brief.output}"
    if (several.exit_code == 0) != (code == 0):
        yield f"two runs exit with {several.exit_code}, one with {code}: {several.output}"
    if is_whole and several.output.startswith("all runs pass: ") != (several.exit_code == 0):
        yield f"exit code {several.exit_code} of {several.output}"


def _faults_of(
    expected: Expectation, outcomes: dict[str, Any], pair: FolderPair, is_whole: bool
) -> list[str]:
    found = [outcomes[name] for name in outcomes if _belongs(name, expected)]
    if not found:
        return [f"{expected.what}: named nowhere"]
    worst = max(found, key=_SEVERITY.index)
    if worst == EQUAL and not is_whole and "dump" in expected.what and EQUAL not in expected.allowed:
        worst = UNKNOWN
    allowed = set(expected.allowed)
    if expected.lacking and not pair.has_common_tensor:
        allowed.add(UNKNOWN)
    return [] if worst in allowed else [f"{expected.what}: {worst}, and not {sorted(allowed)}"]


def _belongs(name: str, expected: Expectation) -> bool:
    return any(name == prefix or name.startswith(f"{prefix} ") for prefix in expected.prefixes)


def _is_known(name: str, pair: FolderPair) -> bool:
    """A changed byte may give a record of a dump any name, or one more."""
    return " arg " in name or "inner.npy" in name or any(_belongs(name, each) for each in pair.expectations)


def _exit_code(outcomes: dict[str, Any], is_whole: bool) -> int:
    found = set(outcomes.values())
    if DIFFERENT in found:
        return 1
    return 0 if is_whole and UNKNOWN not in found else 2
