"""What travels with a probe of a repository that has submodules."""

from pathlib import Path

import pytest

from precision_bisect.runner.case.case import RunOptions
from precision_bisect.runner.farm.host import ParcelMaker
from precision_bisect.runner.pins import MissingSubmoduleError
from precision_bisect.runner.probe.judge import JudgingRule
from precision_bisect.runner.probe.probe import ProbeRequest
from precision_bisect.runner.workspace.home import Home
from tests.runner.workspace.small_submodules import Submodules
from tests.runner.workspace.test_submodules import workspace_of


def test_the_submodules_of_a_commit_travel_with_it(home: Home, tmp_path: Path) -> None:
    """And a probe whose submodule is pinned at what is not there does not: a host would leave its folder empty."""
    made = Submodules(tmp_path)
    made.add("lib")
    workspace = workspace_of(made.checkout.path, home)
    parcels = ParcelMaker(workspace.stack, workspace, tmp_path / "objects")

    def commits_of(sha: str) -> tuple[str, ...]:
        request = ProbeRequest(
            revisions={"tool": sha}, case=None, platform="host", device=0, golden=None,
            judging_rule=JudgingRule(command=True), options=RunOptions(), timeout=60, directory=tmp_path / "probe",
        )  # fmt: skip
        return parcels.parcel(request).commits["tool"].commits

    lib, deep = (each.git("rev-parse", "HEAD") for each in (made.lib, made.deep))
    assert commits_of(made.commits[0]) == (made.commits[0],)
    assert commits_of(made.commits[1]) == (made.commits[1], lib, deep)
    made.checkout.git("update-index", "--cacheinfo", f"160000,{'ab' * 20},lib")
    made.checkout.git("commit", "--quiet", "--message", "a pin of nothing")
    with pytest.raises(MissingSubmoduleError, match="lib is pinned at abababababab, which is not in"):
        commits_of(made.checkout.git("rev-parse", "HEAD"))
