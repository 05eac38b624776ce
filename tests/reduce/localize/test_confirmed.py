"""When an ending is believed to be due to what differs between two builds: by further runs that are simulated."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from precision_bisect.reduce.localize.endings import NotConfirmedError, confirm_ending
from precision_bisect.reduce.localize.experiments import Executor, RunOnce
from precision_bisect.reduce.replay.replay import RunnableBuild
from precision_bisect.store.vocabulary import Verdict
from tests.reduce.localize.simulated_build import executor_in

CRASH, PASS, TIMEOUT = Verdict.CRASH, Verdict.PASS, Verdict.TIMEOUT


def confirmed(
    folder: Path, monkeypatch: pytest.MonkeyPatch, failing: list[Verdict], good: Verdict, verdict: Verdict
) -> int:
    """Further runs of a build that ended with `verdict`, where these and one of the good build end so."""
    left = [*failing]

    def run(_self: object, asked: RunOnce) -> Any:
        ended = good if asked.build.path.name == "good" else left.pop(0)
        return SimpleNamespace(
            classification=SimpleNamespace(verdict=ended), reason="no time left", log="run.log.gz"
        )

    monkeypatch.setattr(Executor, "_run_once", run)
    bad, right = (RunnableBuild(path=folder / name, toolchain=cast("Any", None)) for name in ("bad", "good"))
    return executor_in(folder).execute(confirm_ending(bad, right, verdict))


@pytest.mark.parametrize("failing", [[CRASH], [PASS, PASS, CRASH]])
def test_an_ending_that_comes_again_is_believed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, failing: list[Verdict]
) -> None:
    assert confirmed(tmp_path, monkeypatch, failing, PASS, CRASH) == len(failing)


def test_a_run_that_was_too_slow_once_blames_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(
        NotConfirmedError, match="timeout again, found in 3 further runs: pass, pass, pass; noth"
    ):
        confirmed(tmp_path, monkeypatch, [PASS] * 3, PASS, TIMEOUT)


def test_an_ending_of_the_good_build_too_blames_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(
        NotConfirmedError,
        match=r"good: expected a good build, found that it ends with timeout as .*: no time left; .*; see run\.log",
    ):
        confirmed(tmp_path, monkeypatch, [TIMEOUT], TIMEOUT, TIMEOUT)
