"""What is told of ends that do not differ, or cannot be judged."""

import gzip
from dataclasses import replace
from pathlib import Path, PurePosixPath

import pytest

from precision_bisect.bisect.ask.predicate import Predicate, predicate_stack
from precision_bisect.bisect.ask.question import BisectRequest
from precision_bisect.bisect.report.advice import advice_for_ends, end_lines, has_unjudged_end
from precision_bisect.bisect.report.basis import Rows, load_rows
from precision_bisect.store.tables import ProbeRow
from precision_bisect.store.vocabulary import Judgement, Phase, Verdict
from tests.bisect.report.stored_bisection import StoredBisection, described, sha, two_repositories


@pytest.fixture
def stored(tmp_path: Path) -> StoredBisection:
    """c0 is said to be good and c1 bad; neither has run."""
    stored = StoredBisection(tmp_path, good=sha("c0"), bad=sha("c1"))
    stored.journal.commits.add("compiler", [described("c0", []), described("c1", ["c0"])])
    stored.stage([(described("c1", ["c0"]), sha("c1"))], good=sha("c0"), bad=sha("c1"))
    return stored


def rows(stored: StoredBisection) -> Rows:
    with stored.sessions() as session:
        return load_rows(session, stored.name)


def test_the_last_lines_of_both_logs_and_their_paths(stored: StoredBisection, tmp_path: Path) -> None:
    log = tmp_path / "run.log.gz"
    log.write_bytes(gzip.compress("".join(f"line {n}\n\n" for n in range(9)).encode() + b"\x1b[31mred\n"))
    stored.probe(1, sha("c0"), Verdict.PASS, phase=Phase.ENDPOINT, artifacts={"log": (str(log), 1)})
    lines = list(end_lines(rows(stored)))
    assert lines[0] == f"good {sha('c0')[:12]}: pass in 1 run"
    assert lines[1:8] == [
        "  its last run ends with",
        *(f"    line {n}" for n in range(5, 9)),
        "    \\x1b[31mred",
        str(log),
    ]
    assert lines[8] == f"bad {sha('c1')[:12]}: not run"


def test_an_end_is_told_by_what_was_asked_for(stored: StoredBisection) -> None:
    """A verdict that does not decide stands beside it."""
    stored.probe(1, sha("c0"), Verdict.PASS, phase=Phase.ENDPOINT, judgement=Judgement.BAD)
    asked = rows(stored)
    asked = replace(asked, request=asked.request.model_copy(update={"bad_when": "regex:NaN"}))
    assert next(end_lines(asked)) == f"good {sha('c0')[:12]}: a line matches 'NaN', verdict pass in 1 run"


def test_what_to_check_follows_from_what_was_shown(stored: StoredBisection) -> None:
    stored.probe(1, sha("c0"), Verdict.MISMATCH, phase=Phase.ENDPOINT)
    stored.probe(1, sha("c1"), Verdict.STALL, phase=Phase.ENDPOINT)
    stored.probe(1, sha("c1"), Verdict.PASS, phase=Phase.ENDPOINT)
    text = "\n".join(end_lines(rows(stored)))
    assert "stall 1, pass 1 in 2 runs" in text
    assert "say --bad-when stall" in text
    assert "the bad end passes on a2a3sim, device 0" in text
    assert "the good end fails: name an older --good" in text
    assert "examples/softmax.py (--case" in text
    assert "then name that case with --after CASE" in text


def test_swapped_ends_need_no_older_good_one(stored: StoredBisection) -> None:
    stored.probe(1, sha("c0"), Verdict.MISMATCH, phase=Phase.ENDPOINT)
    stored.probe(1, sha("c1"), Verdict.PASS, phase=Phase.ENDPOINT)
    assert "the good end fails" not in "\n".join(end_lines(rows(stored)))


def test_what_runs_before_the_case_is_named_in_place_of_the_advice_to_name_it(tmp_path: Path) -> None:
    stack = two_repositories(tmp_path)
    after = stack.case.model_copy(update={"after": ("examples/exp.py", "examples/log.py")})
    stored = StoredBisection(
        tmp_path, stack=stack.model_copy(update={"case": after}), good=sha("c0"), bad=sha("c1")
    )
    bad = [ProbeRow(verdict=Verdict.PASS, judgement=Judgement.GOOD)]
    said = "\n".join(advice_for_ends(stored.request, [], bad))
    assert "examples/softmax.py, after examples/exp.py, examples/log.py in its process (--case" in said
    assert "--after CASE" not in said


def test_the_folder_that_a_command_runs_in_is_named(tmp_path: Path) -> None:
    command = Predicate(words=("../check.sh",), folder=PurePosixPath("sub/deep"))
    stack = command.replace_case(predicate_stack(tmp_path, name="tool"), "tool")
    request = BisectRequest(
        stack=stack, repository="tool", fixed={}, good="0" * 40, bad="1" * 40, case=None, platform="host", device=0,
        bad_when=None, golden_data=None, timeout=None, confidence=0.99, output=tmp_path,
    )  # fmt: skip
    said = "\n".join(advice_for_ends(request, [ProbeRow(exit_code=2)], [ProbeRow(exit_code=2)]))
    assert "in the folder sub/deep of a worktree of each commit" in said


@pytest.mark.parametrize("verdict", [Verdict.UNKNOWN, Verdict.ENVIRONMENT_ERROR])
def test_no_advice_names_a_verdict_that_bad_when_refuses(stored: StoredBisection, verdict: Verdict) -> None:
    advised = []
    for shown in (verdict, Verdict.STALL):
        bad = [ProbeRow(verdict=shown, judgement=Judgement.SKIP)]
        advised.append(f"--bad-when {shown}" in "\n".join(advice_for_ends(stored.request, [], bad)))
    assert advised == [False, True]


@pytest.mark.parametrize(("verdict", "is_one"), [(Verdict.ENVIRONMENT_ERROR, True), (Verdict.PASS, False)])
def test_only_an_end_without_a_judgement_stops_a_search(
    stored: StoredBisection, verdict: Verdict, is_one: bool
) -> None:
    stored.probe(1, sha("c0"), verdict, phase=Phase.ENDPOINT)
    assert has_unjudged_end(rows(stored)) is is_one


def test_a_verdict_that_blames_the_machine_brings_its_own_advice(
    stored: StoredBisection, monkeypatch: pytest.MonkeyPatch
) -> None:
    lost = [
        ProbeRow(verdict=Verdict.ENVIRONMENT_ERROR, judgement=Judgement.SKIP, signature=signature)
        for signature in ("91 degrees", "93 degrees", "91 degrees")
    ]
    traits = replace(Verdict.ENVIRONMENT_ERROR.traits, remedy="let the board cool down")
    monkeypatch.setattr(Verdict, "traits", traits)
    said = next(advice_for_ends(stored.request, [], lost))
    assert said.startswith("let the board cool down (91 degrees, 93 degrees), then resume: ")
