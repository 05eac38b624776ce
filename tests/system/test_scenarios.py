"""Deterministic scenarios end at the planted commit, within its probes, and leave the user's files alone.

`test_skill` has the others, asked as an agent asks.
"""

import math
import subprocess
from collections.abc import Callable
from typing import Any

import pytest

from precision_bisect.demo.scenarios import Scenario
from tests.system.conftest import DemoStack

DETERMINISTIC = [
    Scenario.ROUNDING,
    Scenario.RUNTIME_ROLLBACK,
    Scenario.FIXED_AND_BROKEN,
]

_SHORT = {Scenario.ROUNDING}


def check_budget(report: dict[str, Any], *, beside: int = 0) -> None:
    """At most ceil(log2 n) + 6 probes a range after its ends, skips aside: they halve it and confirm. beside: so many
    more."""
    for searched in report["ranges"]:
        probes = [
            probe
            for probe in report["probes"]
            if probe["repository"] == searched["repository"]
            and probe["phase"] != "endpoint"
            and probe["judgement"] != "skip"
        ]
        assert len(probes) <= math.ceil(math.log2(searched["candidates"])) + 6 + beside, searched


@pytest.mark.parametrize(
    "scenario",
    [
        pytest.param(scenario, id=str(scenario), marks=[pytest.mark.long] if scenario not in _SHORT else [])
        for scenario in DETERMINISTIC
    ],
)
def test_the_planted_commit_is_named(scenario: Scenario, make: Callable[..., DemoStack]) -> None:
    stack = make(scenario)
    before = stack.snapshot()
    done = stack.run(*stack.arguments)
    assert done.code == 0, done.err
    assert stack.snapshot() == before

    report = stack.report()
    planted = stack.truth.culprits[0]
    (named,) = report["culprits"]
    assert report["outcome"] == "culprit"
    assert (named["repository"], named["commit"]) == (planted.repository, planted.commit)
    assert named["confidence"] >= 0.99
    assert planted.commit in done.out
    assert planted.commit in (stack.output / "report.md").read_text()
    if planted.through is not None:
        assert report["through"]["commit"] == planted.through
    if planted.lost is not None:
        assert (report["lost"]["repository"], report["lost"]["commit"]) == ("minirt", planted.lost)
    # What mended the fault the first time is run too.
    check_budget(report, beside=1 if scenario is Scenario.FIXED_AND_BROKEN else 0)

    log = stack.output / "bisect.log"
    clone = stack.output / "clone"
    subprocess.run(["git", "clone", "--quiet", str(stack.directory / "minipto"), str(clone)], check=True)
    replayed = subprocess.run(
        ["git", "-C", str(clone), "bisect", "replay", str(log)], check=True, capture_output=True, text=True
    )
    outer = planted.through or planted.commit
    assert outer in replayed.stdout


@pytest.mark.long
def test_a_quiet_range_names_nobody(make: Callable[..., DemoStack]) -> None:
    stack = make(Scenario.QUIET)
    before = stack.snapshot()
    done = stack.run(*stack.arguments)
    assert done.code == 4
    assert "passes in a row" in done.err
    assert stack.snapshot() == before
    report = stack.report()
    assert report["outcome"] == "ends_do_not_differ"
    assert report["culprits"] == []
