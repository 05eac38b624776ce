"""Probes of a case that comes after others in its process: it alone is judged."""

import sys
from pathlib import Path

import pytest

from precision_bisect.runner.probe.probe import ProbeResult
from precision_bisect.store.vocabulary import Judgement, Verdict
from tests.runner.case.fake_golden import write_golden
from tests.runner.small_stack import SmallStack

CASE = """
import os, golden
os.makedirs("../build_output/of_the_case/mine")
kept = getattr(golden, "KEPT", False)
golden.PLAN.append({"passed": not kept, "error": "WRONG y" if kept else None})
golden.run(None, [], golden_fn=print)
"""
OTHER = """
import os, golden
os.makedirs("../build_output/of_the_other")
print("WRONG of_the_other", flush=True)
golden.PLAN.append({"passed": False, "error": "WRONG of_the_other"})
golden.run(None, [], golden_fn=print)
golden.KEPT = %s
raise RuntimeError("of the other")
"""


def probe(small: SmallStack, folder: Path, **scripts: str) -> ProbeResult:
    """A probe of `case.sh` after all other scripts."""
    names = {name: name.replace("_", ".") for name in scripts}
    small.cases.commit("scripts", {names[name]: text for name, text in scripts.items()})
    if not (folder / "lib").exists():
        write_golden(folder / "lib", "newest")
    small.environment = {"variables": {"PYTHONPATH": str(folder / "lib")}}
    small.case = {
        "command": [sys.executable, "{case}"],
        "harness": True,
        "after": ["other.py"],
        "build_output": "build_output",
    }
    with small.prober() as prober:
        return small.probe(prober)


@pytest.mark.parametrize(
    ("kept", "verdict", "judgement"),
    [("False", Verdict.PASS, Judgement.GOOD), ("True", Verdict.MISMATCH, Judgement.BAD)],
)
def test_the_case_alone_is_judged(
    small: SmallStack, tmp_path: Path, kept: str, verdict: Verdict, judgement: Judgement
) -> None:
    done = probe(small, tmp_path, case_sh=CASE, other_py=OTHER % kept)
    assert (done.classification.verdict, done.judgement) == (verdict, judgement)
    assert "of_the_other" not in str(done.classification)
    assert done.build_directory is not None
    assert [path.name for path in done.build_directory.iterdir()] == ["mine"]


def test_a_build_directory_of_another_is_not_the_case_s(small: SmallStack, tmp_path: Path) -> None:
    done = probe(small, tmp_path, case_sh=CASE.replace("os.makedirs", "str"), other_py=OTHER % "False")
    assert (done.judgement, done.build_directory) == (Judgement.GOOD, None)


def test_without_one_of_them_nothing_is_run(small: SmallStack, tmp_path: Path) -> None:
    done = probe(small, tmp_path, case_sh=CASE)
    assert (done.judgement, done.command) == (Judgement.SKIP, ())
    assert done.classification.signature == "case missing"
    assert done.classification.evidence[0].text == "no other.py at this commit"


@pytest.mark.parametrize(
    ("text", "how"),
    [
        ("import os; os._exit(1)", "the process ended with exit code 1 before the case began"),
        ("import os, signal; os.kill(os.getpid(), signal.SIGSEGV)", "signal 11 ended the process before"),
    ],
)
def test_where_another_ends_the_process_nothing_is_known(
    small: SmallStack, tmp_path: Path, text: str, how: str
) -> None:
    done = probe(small, tmp_path, case_sh=CASE, other_py=f"print('WRONG y', flush=True)\n{text}\n")
    assert (done.classification.verdict, done.judgement) == (Verdict.UNKNOWN, Judgement.SKIP)
    assert done.classification.signature == "case not reached"
    assert how in done.classification.evidence[0].text
