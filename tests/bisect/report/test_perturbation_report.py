"""What was tried around a case that comes and goes is tabled, and the culprit's scripts set what it was found under."""

from pathlib import Path

import pytest

from precision_bisect.bisect.engine.answer import Conclusion, NamedCommit
from precision_bisect.bisect.report.model import PerturbationReport, Report
from precision_bisect.bisect.report.report_files import render_markdown
from precision_bisect.runner.case.case import PERTURBATION_KEY
from precision_bisect.runner.stack import Perturbation
from precision_bisect.store.vocabulary import BisectionOutcome, Phase, Verdict
from tests.bisect.report.stored_bisection import (
    StoredBisection,
    described,
    pinned_revisions,
    sha,
    two_repositories,
)

FAIL, PASS = Verdict.MISMATCH, Verdict.PASS
FILL = Perturbation(variables={"MALLOC_PERTURB_": "165"}, command=("setarch", "-R"))
SERIAL = Perturbation(variables={"ORDER": "serial"})


def report(folder: Path, *, under: str | None = "fill") -> Report:
    """c2 of c1..c3 is the culprit; `serial` did nothing, and under `fill` it always fails."""
    stack = two_repositories(folder).model_copy(update={"perturbations": {"serial": SERIAL, "fill": FILL}})
    stored = StoredBisection(folder, stack=stack, good=sha("c0"), bad=sha("c3"))
    rows = [(described(f"c{place}", [f"c{place - 1}"]), sha(f"c{place}")) for place in (1, 2, 3)]
    stage = stored.stage(rows, good=sha("c0"), bad=sha("c3"))
    natural = [("c0", PASS), ("c3", PASS), ("c3", FAIL), ("c2", FAIL), ("c1", PASS), ("c1", PASS)]
    for name, verdict in natural:
        stored.probe(stage, sha(name), verdict)
    perturbed = [("serial", "c3", FAIL), ("serial", "c3", PASS)]
    perturbed += [
        ("fill", name, FAIL if name in ("c2", "c3") else PASS) for name in ("c3", "c3", "c0", "c2", "c1")
    ]
    for perturbation, name, verdict in perturbed:
        revisions = {**pinned_revisions(sha(name)), PERTURBATION_KEY: perturbation}
        stored.probe(stage, sha(name), verdict, phase=Phase.PERTURBED, revisions=revisions)
    named = NamedCommit(
        repository="compiler", commit=sha("c2"), parent=sha("c1"), confidence=0.995, merge=False, under=under
    )
    stored.conclude(
        Conclusion(outcome=BisectionOutcome.CULPRIT, message="c2 introduced it", culprits=(named,))
    )
    return stored.report()


def test_both_ends_are_tabled_under_each_that_was_tried(tmp_path: Path) -> None:
    made = report(tmp_path)
    assert made.perturbations == (
        PerturbationReport(
            name="serial",
            changes="ORDER=serial",
            bad_runs=2,
            bad_failures=1,
            good_runs=0,
            good_failures=0,
            searched=False,
        ),
        PerturbationReport(
            name="fill",
            changes="MALLOC_PERTURB_=165 setarch -R",
            bad_runs=2,
            bad_failures=2,
            good_runs=1,
            good_failures=0,
            searched=True,
        ),
    )
    assert "## Perturbations" in render_markdown(made)


def test_runs_under_a_perturbation_are_none_of_the_commits_own(tmp_path: Path) -> None:
    basis = report(tmp_path).confidence_basis
    assert basis is not None
    assert (basis.culprit.runs, basis.parents.runs, basis.ends.runs) == (1, 2, 3)
    assert "began from what the runs under fill told" in basis.text


@pytest.mark.parametrize("under", ["fill", None])
def test_the_scripts_set_what_the_culprit_was_found_under(tmp_path: Path, under: str | None) -> None:
    made = report(tmp_path, under=under).reproduce
    assert made.bad is not None
    assert made.good is not None
    for side in (made.bad, made.good):
        assert PERTURBATION_KEY not in side.revisions
        assert ("export MALLOC_PERTURB_=165" in side.script) is (under is not None)
        assert (side.script.splitlines()[-1].startswith("setarch -R ")) is (under is not None)
        assert (", under fill" in side.script) is (under is not None)
