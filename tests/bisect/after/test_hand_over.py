"""What stands in the answer where a localization cannot begin."""

from pathlib import Path

from precision_bisect.bisect.after.hand_over import localize_culprit
from precision_bisect.runner.workspace.home import Home
from tests.bisect.report.stored_bisection import StoredBisection


def test_builds_that_are_gone_leave_the_localization_out(culprit: StoredBisection, tmp_path: Path) -> None:
    said: list[str] = []
    found = localize_culprit(
        culprit.sessions,
        culprit.name,
        home=Home(cache=tmp_path / "cache", state=tmp_path / "state"),
        reduce=False,
        seconds=None,
        say=said.append,
    )
    assert found.status == "left out"
    assert found.message == "the runs had no frozen data"
    assert said == []
