"""A list says of a bisection what its report says."""

from pathlib import Path
from typing import Any

import pytest

from precision_bisect.bisect.engine.answer import Conclusion, NamedCommit, NoCommit
from precision_bisect.bisect.listing import list_bisections, session_reader
from precision_bisect.bisect.report import phrases
from precision_bisect.store.vocabulary import BisectionOutcome, Phase, Seeks, Verdict
from tests.bisect.report.stored_bisection import StoredBisection, described, sha

NAMED = NamedCommit(repository="compiler", commit=sha("c1"), parent=sha("c0"), confidence=0.995, merge=False)


@pytest.mark.parametrize(
    ("seeks", "answer", "words"),
    [
        (Seeks.REGRESSION, {"outcome": BisectionOutcome.CULPRIT, "culprits": (NAMED,)}, "culprit found"),
        (Seeks.FIX, {"outcome": BisectionOutcome.CULPRIT, "culprits": (NAMED,)}, "first fixed commit found"),
        (
            Seeks.REGRESSION,
            {"outcome": BisectionOutcome.SUSPECT, "suspects": (NAMED,)},
            "a suspect, not confirmed",
        ),
        (
            Seeks.REGRESSION,
            {
                "outcome": BisectionOutcome.SUSPECT,
                "suspects": (NAMED,),
                "no_commit": NoCommit(chance=0.5, environment=0.2),
            },
            "not known whether a commit is to blame",
        ),
        (Seeks.REGRESSION, None, "not finished"),
    ],
)
def test_how_it_ended(tmp_path: Path, seeks: Seeks, answer: dict[str, Any] | None, words: str) -> None:
    good, bad = ("c0", "c1") if seeks is Seeks.REGRESSION else ("c1", "c0")
    stored = StoredBisection(tmp_path, good=sha(good), bad=sha(bad), seeks=seeks)
    stage = stored.stage([(described("c1", ["c0"]), sha("c1"))], good=sha("c0"), bad=sha("c1"))
    stored.probe(stage, sha(good), Verdict.PASS, phase=Phase.ENDPOINT)
    stored.probe(stage, sha(bad), Verdict.MISMATCH, phase=Phase.ENDPOINT)
    if answer is not None:
        stored.conclude(Conclusion(message="so it is", **answer))
    with stored.sessions() as session:
        (listed,) = list_bisections(session_reader(session))
    assert listed.ended == words == phrases.outcome_phrase(stored.report())
    assert listed.subject == ("Subject of c1" if answer and answer.get("culprits") else None)
