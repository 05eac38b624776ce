"""Bisections of every kind, in a store each."""

from pathlib import Path

import pytest

from precision_bisect.bisect.engine.answer import (
    Conclusion,
    Counterfactual,
    LayerCell,
    MovedLayers,
    NamedCommit,
)
from precision_bisect.bisect.history.questions import PinRecord
from precision_bisect.store.vocabulary import BisectionOutcome, Judgement, Phase, Verdict
from tests.bisect.report.stored_bisection import (
    StoredBisection,
    content_key,
    described,
    pinned_revisions,
    sha,
)
from tests.support.quick import quick_first

LINE = ["c1", "c2", "c3", "c4", "c5", "c6"]
"""c2 changes docs alone, c3 does not build, c5 breaks it."""


def begin(folder: Path) -> tuple[StoredBisection, int]:
    """c0 is good, c6 is bad; both ends were run three times."""
    stored = StoredBisection(folder, good=sha("c0"), bad=sha("c6"))
    stored.journal.commits.add("compiler", [described("c0", []), described("c6", ["c5"])])
    rows = [described(name, [before]) for before, name in zip(["c0", *LINE], LINE, strict=False)]
    stage = stored.stage(
        [(row, sha("c1") if row.sha == sha("c2") else row.sha) for row in rows], good=sha("c0"), bad=sha("c6")
    )
    for _ in range(3):
        stored.probe(stage, sha("c0"), Verdict.PASS, phase=Phase.ENDPOINT)
        stored.probe(stage, sha("c6"), Verdict.MISMATCH, phase=Phase.ENDPOINT)
    return stored, stage


def named(
    name: str, parent: str, *, repository: str = "compiler", confidence: float | None = 0.9993
) -> NamedCommit:
    return NamedCommit(
        repository=repository, commit=sha(name), parent=sha(parent), confidence=confidence, merge=False
    )


@pytest.fixture
def culprit(tmp_path: Path) -> StoredBisection:
    """c5 is found, after a commit that does not build."""
    stored, stage = begin(tmp_path)
    stored.probe(
        stage,
        sha("c3"),
        Verdict.BUILD_ERROR,
        signature="runtime: no rule to make target",
        build_key=None,
        command=(),
        run_seconds=0.0,
    )
    stored.probe(stage, sha("c4"), Verdict.PASS)
    stored.probe(stage, sha("c5"), Verdict.MISMATCH)
    for _ in range(2):
        stored.probe(stage, sha("c4"), Verdict.PASS, phase=Phase.CONFIRM)
        stored.probe(stage, sha("c5"), Verdict.MISMATCH, phase=Phase.CONFIRM)
    stored.conclude(
        Conclusion(
            outcome=BisectionOutcome.CULPRIT,
            message=f"compiler {sha('c5')} introduced it",
            culprits=(named("c5", "c4"),),
            pins=(
                PinRecord(
                    name="ptoas",
                    holder="compiler",
                    path="toolchain/versions.env",
                    value_good="v0.57",
                    value_bad="v0.57",
                    searched=False,
                    frozen_at="v0.57",
                ),
            ),
        )
    )
    return stored


@pytest.fixture
def submodule_culprit(tmp_path: Path) -> StoredBisection:
    """c5 moves the runtime from r0 to r3, and r2 is to blame."""

    def at(compiler: str, runtime: str) -> dict[str, str]:
        return {"compiler": sha(compiler), "runtime": sha(runtime), "cases": sha("cases")}

    stored = StoredBisection(tmp_path, good=sha("c4"), bad=sha("c5"))
    stored.journal.commits.add("compiler", [described("c4", [])])
    outer = stored.stage(
        [(described("c5", ["c4"]), sha("c5"))],
        good=sha("c4"),
        bad=sha("c5"),
        revisions=lambda _: at("c5", "r3"),
    )
    for _ in range(3):
        stored.probe(outer, sha("c4"), Verdict.PASS, phase=Phase.ENDPOINT, revisions=at("c4", "r0"))
        stored.probe(outer, sha("c5"), Verdict.MISMATCH, phase=Phase.ENDPOINT, revisions=at("c5", "r3"))
    swapped = {"phase": Phase.COUNTERFACTUAL}
    stored.probe(outer, sha("c5"), Verdict.PASS, revisions=at("c5", "r0"), **swapped)
    stored.probe(outer, sha("c4"), Verdict.MISMATCH, revisions=at("c4", "r3"), **swapped)
    names = ["r1", "r2", "r3"]
    inner = stored.stage(
        [(described(name, [before]), sha(name)) for before, name in zip(["r0", *names], names, strict=False)],
        repository="runtime",
        good=sha("r0"),
        bad=sha("r3"),
        held={"compiler": sha("c5")},
        revisions=lambda runtime: at("c5", "r0") | {"runtime": runtime},
    )
    for name, verdict in (("r2", Verdict.MISMATCH), ("r1", Verdict.PASS)):
        stored.probe(inner, sha(name), verdict, repository="runtime", revisions=at("c5", name))
    stored.conclude(
        Conclusion(
            outcome=BisectionOutcome.CULPRIT,
            message=f"runtime {sha('r2')} introduced it; compiler {sha('c5')} brought it in",
            culprits=(named("r2", "r1", repository="runtime", confidence=None),),
            through=named("c5", "c4", confidence=None),
            counterfactuals=(
                Counterfactual(
                    pin="runtime",
                    repository="runtime",
                    old=sha("r0"),
                    new=sha("r3"),
                    new_holder_old_target=Judgement.GOOD,
                    old_holder_new_target=Judgement.BAD,
                    blame="submodule",
                ),
            ),
            layers=(
                MovedLayers(
                    layers=("compiler", "runtime", "ptoas"),
                    cells=(
                        LayerCell(new=("compiler", "runtime"), judgement=Judgement.SKIP),
                        LayerCell(new=("runtime",), judgement=Judgement.BAD),
                    ),
                    least=(("runtime",),),
                    proven=False,
                ),
            ),
        )
    )
    return stored


@pytest.fixture
def merged(tmp_path: Path) -> StoredBisection:
    """c1 is to blame, and m, a merge of it, reads the same and was run in its place; c2, the bad end, follows m."""
    stored = StoredBisection(tmp_path, good=sha("c0"), bad=sha("c2"))
    rows = [described("c1", ["c0"]), described("m", ["c0", "c1"]), described("c2", ["m"])]
    stage = stored.stage(
        [(row, row.sha) for row in rows],
        good=sha("c0"),
        bad=sha("c2"),
        revisions=lambda commit: pinned_revisions(sha("c1") if commit == sha("m") else commit),
    )
    stored.probe(stage, sha("c0"), Verdict.PASS, phase=Phase.ENDPOINT)
    stored.probe(stage, sha("c2"), Verdict.MISMATCH, phase=Phase.ENDPOINT)
    stored.probe(stage, sha("m"), Verdict.MISMATCH, content=content_key(pinned_revisions(sha("c1"))))
    culprit = NamedCommit(
        repository="compiler", commit=sha("c1"), parent=sha("c0"), confidence=0.99, merge=False
    )
    stored.conclude(
        Conclusion(
            outcome=BisectionOutcome.CULPRIT,
            message=f"compiler {sha('c1')} introduced it",
            culprits=(culprit,),
        )
    )
    return stored


@pytest.fixture
def only_skipped(tmp_path: Path) -> StoredBisection:
    """c4 and c5 do not build, so one of c4, c5 and c6 is to blame."""
    stored, stage = begin(tmp_path)
    stored.probe(stage, sha("c3"), Verdict.PASS)
    for name in ("c4", "c5"):
        stored.probe(stage, sha(name), Verdict.BUILD_ERROR, signature="does not build", build_key=None)
    suspects = (named("c4", "c3"), named("c5", "c4"), named("c6", "c5"))
    stored.conclude(
        Conclusion(
            outcome=BisectionOutcome.ONLY_SKIPPED,
            message="the culprit is one of 3 commits",
            suspects=suspects,
        )
    )
    return stored


@pytest.fixture
def ends_do_not_differ(tmp_path: Path) -> StoredBisection:
    """The bad end passes, however often it is run."""
    stored = StoredBisection(tmp_path, good=sha("c0"), bad=sha("c1"))
    stage = stored.stage([(described("c1", ["c0"]), sha("c1"))], good=sha("c0"), bad=sha("c1"))
    stored.probe(stage, sha("c0"), Verdict.PASS, phase=Phase.ENDPOINT)
    for _ in range(8):
        stored.probe(stage, sha("c1"), Verdict.PASS, phase=Phase.ENDPOINT)
    stored.conclude(
        Conclusion(outcome=BisectionOutcome.ENDS_DO_NOT_DIFFER, message="expected the case to fail")
    )
    return stored


@pytest.fixture
def interrupted(tmp_path: Path) -> StoredBisection:
    """Killed in its eighth probe."""
    stored, stage = begin(tmp_path)
    stored.probe(stage, sha("c4"), Verdict.PASS)
    stored.start(stage, sha("c5"))
    return stored


@pytest.fixture
def nothing_run(tmp_path: Path) -> StoredBisection:
    """Killed before its first probe."""
    return StoredBisection(tmp_path, good=sha("c0"), bad=sha("c1"))


KINDS = ["culprit", "submodule_culprit", "only_skipped", "ends_do_not_differ", "interrupted", "nothing_run"]


@pytest.fixture(params=quick_first(KINDS, 3))
def any_kind(request: pytest.FixtureRequest) -> StoredBisection:
    """Each of them."""
    return request.getfixturevalue(request.param)
