"""A person as the judge, without a pool and without a terminal."""

import io
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from precision_bisect.bisect.ask.predicate import predicate_stack
from precision_bisect.bisect.drive.person import PersonAnswer, PersonWorkers, ask_at_terminal
from precision_bisect.runner.case.case import RunOptions
from precision_bisect.runner.probe.judge import NOT_JUDGED, JudgingRule
from precision_bisect.runner.probe.pool import Event, ProbeDone
from precision_bisect.runner.probe.probe import (
    NOT_STARTED,
    ManualRun,
    ProbeRequest,
    ProbeResult,
    write_manual_run,
)
from precision_bisect.store.vocabulary import Judgement, Verdict

LEFT = ManualRun(directory=Path("/slot"), script=Path("/probe/run.sh"))


def request(commit: str) -> ProbeRequest:
    return ProbeRequest(
        revisions={"line": commit}, case=None, platform="host", device=0, golden=None,
        judging_rule=JudgingRule(command=True), options=RunOptions(), timeout=1, directory=Path("/probe"), by_hand=True,
    )  # fmt: skip


def result(left: ManualRun | None) -> ProbeResult:
    return ProbeResult(
        classification=NOT_JUDGED, judgement=Judgement.SKIP, ending=NOT_STARTED, command=("true",),
        missing_options=(), toolchain=None, build_seconds=0, run_seconds=0, surroundings={}, slot=0, host="here",
        log=Path("/log"), build_directory=None, manual_run=left,
    )  # fmt: skip


@dataclass
class Pool:
    """Workers that have built at once what they are asked for."""

    left: ManualRun | None = LEFT
    jobs: int = 1
    begun: list[ProbeRequest] = field(default_factory=list[ProbeRequest])
    cancelled: list[int] = field(default_factory=list[int])

    def begin(self, request: ProbeRequest) -> int:
        self.begun.append(request)
        return len(self.begun)

    def cancel(self, number: int) -> None:
        self.cancelled.append(number)

    def next_event(self, *, timeout: float | None) -> Event | None:
        return ProbeDone(len(self.begun), result(self.left))


def judged(event: Event | None) -> tuple[int, Judgement, Verdict]:
    assert isinstance(event, ProbeDone)
    assert event.result is not None
    return event.number, event.result.judgement, event.result.classification.verdict


def test_what_a_person_says_is_the_judgement_and_is_asked_once() -> None:
    said = iter([PersonAnswer.BAD, PersonAnswer.SKIP])
    workers = PersonWorkers(Pool(), lambda left: next(said))
    for commit, expected in (
        ("a", (Judgement.BAD, Verdict.MISMATCH)),
        ("a", (Judgement.BAD, Verdict.MISMATCH)),
        ("b", (Judgement.SKIP, Verdict.UNKNOWN)),
    ):
        number = workers.begin(request(commit))
        assert judged(workers.next_event(timeout=None)) == (number, *expected)


def test_a_build_that_failed_is_not_asked_about() -> None:
    workers = PersonWorkers(Pool(left=None), lambda left: pytest.fail("nothing to judge"))
    number = workers.begin(request("a"))
    assert judged(workers.next_event(timeout=None)) == (number, Judgement.SKIP, Verdict.UNKNOWN)


def test_what_is_tried_again_keeps_its_number() -> None:
    pool, said = Pool(), iter([PersonAnswer.RETRY, PersonAnswer.RETRY, PersonAnswer.GOOD])
    workers = PersonWorkers(pool, lambda left: next(said))
    number = workers.begin(request("a"))
    assert workers.next_event(timeout=None) is None
    assert workers.next_event(timeout=None) is None
    assert len(pool.begun) == 3
    workers.cancel(number)
    assert pool.cancelled == [3]
    assert judged(workers.next_event(timeout=None)) == (number, Judgement.GOOD, Verdict.PASS)


def test_who_quits_interrupts() -> None:
    workers = PersonWorkers(Pool(), lambda left: PersonAnswer.QUIT)
    workers.begin(request("a"))
    with pytest.raises(KeyboardInterrupt):
        workers.next_event(timeout=None)


@pytest.mark.parametrize(
    ("typed", "answer"),
    [
        ("good\n", PersonAnswer.GOOD),
        ("B\n", PersonAnswer.BAD),
        ("what\n\ns\nsk\n", PersonAnswer.SKIP),
        ("", PersonAnswer.QUIT),
    ],
)
def test_answers_at_a_terminal(typed: str, answer: PersonAnswer) -> None:
    out = io.StringIO()
    stack = predicate_stack(Path("/tool"))
    named = stack.model_copy(update={"case": stack.case.model_copy(update={"command": ("make",)})})
    assert ask_at_terminal(LEFT, named, answers=io.StringIO(typed), out=out) is answer
    assert out.getvalue().startswith(
        "checked out in /slot\nrun it with: sh /probe/run.sh\ngood, bad, skip, retry, shell, "
    )
    has_help = "The first letters will do where no other answer has them." in out.getvalue()
    assert has_help == typed.startswith("what")
    bare = io.StringIO()
    assert ask_at_terminal(LEFT, stack, answers=io.StringIO(typed), out=bare) is answer
    assert "run it with" not in bare.getvalue()


def test_the_script_of_a_case(tmp_path: Path) -> None:
    left = write_manual_run(
        ("python", "a case.py"),
        directory=tmp_path,
        environment={"PATH": "/bin", "OWN": "it's"},
        inherited={"PATH": "/bin", "VIRTUAL_ENV": "x"},
        script=tmp_path / "run.sh",
    )
    assert left.script.read_text().splitlines()[2:] == [
        f"cd {tmp_path} || exit",
        "unset VIRTUAL_ENV",
        "export OWN='it'\"'\"'s'",
        '[ "$#" -gt 0 ] && exec "$@"',
        "exec python 'a case.py'",
    ]
