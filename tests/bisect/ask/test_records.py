"""A probe of the store as the engine knows it."""

from datetime import UTC, datetime

from precision_bisect.bisect.ask.earlier_runs import finished_probe
from precision_bisect.store.tables import EvidenceRow, ProbeRow
from precision_bisect.store.vocabulary import Judgement, Phase, Verdict

LINES = ("src/a.cpp:7:3: error: no member named 'b'", "make: *** [a.o] Error 1")


def stored(verdict: Verdict, judgement: Judgement) -> ProbeRow:
    return ProbeRow(
        ordinal=4,
        phase=Phase.SEARCH,
        content="c",
        verdict=verdict,
        judgement=judgement,
        finished=datetime(2026, 1, 1, tzinfo=UTC),
        evidence=[
            EvidenceRow(ordinal=place, stream="build", line=place + 1, text=text, why="says build_error")
            for place, text in enumerate(LINES)
        ],
    )


def test_the_errors_of_a_skip_come_from_its_evidence() -> None:
    skip = finished_probe(stored(Verdict.BUILD_ERROR, Judgement.SKIP))
    assert [(error.path, error.line) for error in skip.errors] == [("src/a.cpp", 7)]
    assert skip.evidence == LINES[:1]


def test_a_full_disk_is_no_error_of_the_commit() -> None:
    assert finished_probe(stored(Verdict.ENVIRONMENT_ERROR, Judgement.SKIP)).errors == ()


def test_what_is_bad_because_it_does_not_compile_has_no_error_to_step_around() -> None:
    assert finished_probe(stored(Verdict.BUILD_ERROR, Judgement.BAD)).errors == ()
