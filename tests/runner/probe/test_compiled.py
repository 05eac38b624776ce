"""What runs compile for themselves: made once at a content, and never taken from another one."""

import gzip
from pathlib import Path

import pytest

from precision_bisect.runner.probe.probe import Prober, ProbeResult
from precision_bisect.store.vocabulary import Judgement
from tests.runner.small_stack import SmallStack

_COMPILES = """
cd tool
if [ -f cache/kernel ]; then echo found; else mkdir cache; cp tool.txt cache/kernel; echo compiled; fi
cat cache/kernel
grep -q good cache/kernel && echo RIGHT || { echo WRONG y; exit 1; }
"""
"""A case whose cache has no key: what another commit has left there would be run at every commit."""


@pytest.fixture
def compiling(small: SmallStack) -> SmallStack:
    """A stack whose runs compile one kernel, from the tool's own file."""
    small.cases.commit("the case", {"case.sh": _COMPILES})
    small.case = {"command": ["sh", "{case}"], "cwd": "{slot}", "compiled": ["tool/cache"]}
    return small


def lines(result: ProbeResult) -> list[str]:
    """What the case printed."""
    return gzip.decompress(result.log.read_bytes()).decode().splitlines()


def ran(small: SmallStack, prober: Prober, sha: str, **changes: object) -> tuple[str, Judgement]:
    """Whether the kernel was compiled or found at a commit of the tool, and the judgement."""
    result = small.probe(prober, chosen={"tool": sha}, **changes)
    (how,) = (word for word in ("found", "compiled") if any(word in line for line in lines(result)))
    return how, result.judgement


def test_a_content_compiles_once_and_each_content_its_own(compiling: SmallStack) -> None:
    good = compiling.tool.git("rev-parse", "HEAD")
    bad = compiling.tool.commit("bad", {"tool.txt": "bad\n"})
    with compiling.prober() as prober:
        assert ran(compiling, prober, good) == ("compiled", Judgement.GOOD)
        assert ran(compiling, prober, good) == ("found", Judgement.GOOD)
        assert ran(compiling, prober, bad) == ("compiled", Judgement.BAD)
        assert ran(compiling, prober, good) == ("found", Judgement.GOOD)
        with compiling.prober() as elsewhere:
            assert ran(compiling, elsewhere, bad) == ("found", Judgement.BAD)


def test_what_lies_outside_of_every_repository_is_taken_away_too(compiling: SmallStack) -> None:
    compiling.cases.commit("the case", {"case.sh": _COMPILES.replace("cd tool", "cp tool/tool.txt .")})
    compiling.case = {**compiling.case, "compiled": ["cache"]}
    good = compiling.tool.git("rev-parse", "HEAD")
    bad = compiling.tool.commit("bad", {"tool.txt": "bad\n"})
    with compiling.prober() as prober:
        assert ran(compiling, prober, good) == ("compiled", Judgement.GOOD)
        assert ran(compiling, prober, bad) == ("compiled", Judgement.BAD)


@pytest.mark.parametrize("change", ["variables", "platform", "the case"])
def test_it_is_compiled_anew_where_anything_else_differs(compiling: SmallStack, change: str) -> None:
    sha = compiling.tool.git("rev-parse", "HEAD")
    with compiling.prober() as prober:
        assert ran(compiling, prober, sha) == ("compiled", Judgement.GOOD)
    if change == "variables":
        compiling.environment = {"variables": {"CXXFLAGS": "-O1"}}
    if change == "the case":
        compiling.cases.commit("the case", {"case.sh": f"# longer{_COMPILES}"})
    platform = {"platform": "board"} if change == "platform" else {}
    with compiling.prober() as prober:
        assert ran(compiling, prober, sha, **platform) == ("compiled", Judgement.GOOD)


def test_what_a_run_that_was_cut_short_has_left_is_not_kept(compiling: SmallStack, tmp_path: Path) -> None:
    crash = tmp_path / "crash"
    crash.touch()
    compiling.cases.commit(
        "the case", {"case.sh": f"{_COMPILES}\n[ -e {crash} ] && rm {crash} && kill -SEGV $$"}
    )
    sha = compiling.tool.git("rev-parse", "HEAD")
    with compiling.prober() as prober:
        assert ran(compiling, prober, sha)[0] == "compiled"
        assert ran(compiling, prober, sha)[0] == "compiled"
        assert ran(compiling, prober, sha)[0] == "found"
