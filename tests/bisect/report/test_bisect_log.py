"""The exported logs, replayed by git itself."""

import random
import subprocess
from pathlib import Path

import pytest

from precision_bisect.bisect.engine.answer import Conclusion, NamedCommit
from precision_bisect.bisect.report.basis import load_rows
from precision_bisect.bisect.report.report_files import bisect_log, write_report
from precision_bisect.store.vocabulary import BisectionOutcome, Phase, Verdict
from tests.bisect.report.real_history import History, random_history, search
from tests.bisect.report.stored_bisection import StoredBisection, pinned_revisions, sha
from tests.conftest import TestRepository
from tests.support.quick import quick_first


def log_of(stored: StoredBisection, file: str = "bisect.log") -> str:
    write_report(stored.rows(), stored.folder / "report")
    return (stored.folder / "report" / file).read_text()


def commands(log: str) -> list[str]:
    return [line for line in log.splitlines() if line.startswith("git ")]


def conclude(stored: StoredBisection, history: History, suspects: set[int]) -> None:
    names = tuple(
        NamedCommit(
            repository="compiler", commit=history.commits[each], parent=None, confidence=None, merge=False
        )
        for each in sorted(suspects)
    )
    if len(names) == 1:
        stored.conclude(Conclusion(outcome=BisectionOutcome.CULPRIT, message="found", culprits=names))
    else:
        stored.conclude(
            Conclusion(outcome=BisectionOutcome.ONLY_SKIPPED, message="not found", suspects=names)
        )


@pytest.mark.parametrize("seed", quick_first(range(30), 2))
def test_git_ends_where_the_search_ended(seed: int, repository: TestRepository, tmp_path: Path) -> None:
    """On every second history some commits do not build, so that several suspects may be left."""
    rng = random.Random(seed)
    history = random_history(repository, rng)
    nodes = {index for index in range(len(history.commits)) if history.standing(index) == index}
    end = history.standing(len(history.commits) - 1)
    culprit = rng.choice(sorted(history.ancestors(end) & nodes))
    others = sorted(nodes - {end})
    skips = rng.sample(others, min(2, len(others))) if seed % 2 else []
    stored, stage = history.store(tmp_path)
    left = search(history, stored, stage, culprit=culprit, skips=skips, rng=rng)
    assert left == {culprit} or skips
    conclude(stored, history, left)
    log = log_of(stored)
    said = history.replay(log)
    if len(left) == 1:
        assert f"{history.commits[culprit]} is the first bad commit" in said
        assert log.splitlines()[-1] == f"# first bad commit: [{history.commits[culprit]}] candidate {culprit}"
    else:
        _, _, last = said.partition("The first bad commit could be any of:")
        named = {index for index, commit in enumerate(history.commits) if commit in last}
        assert {history.standing(index) for index in named} == left


def line(repository: TestRepository, n: int, contents: list[int] | None = None) -> History:
    return History.make(
        repository,
        [[index - 1] if index else [] for index in range(n)],
        contents or list(range(1, n + 1)),
    )


def test_an_earlier_failure_does_not_stop_git(repository: TestRepository, tmp_path: Path) -> None:
    """1 fails, 2 passes, 4 fails again: git would refuse a bad commit below a good one."""
    history = line(repository, 6)
    stored, stage = history.store(tmp_path)
    stored.probe(stage, history.good, Verdict.PASS, phase=Phase.ENDPOINT)
    for index, verdict in (
        (5, Verdict.MISMATCH),
        (1, Verdict.MISMATCH),
        (2, Verdict.PASS),
        (4, Verdict.MISMATCH),
        (3, Verdict.PASS),
    ):
        stored.probe(stage, history.commits[index], verdict)
    conclude(stored, history, {4})
    log = log_of(stored)
    assert f"{history.commits[4]} is the first bad commit" in history.replay(log)
    assert f"# contradicts the answer: [{history.commits[1]}] candidate 1" in log


def test_a_failure_that_comes_and_goes_is_told_as_the_answer_has_it(
    repository: TestRepository, tmp_path: Path
) -> None:
    history = line(repository, 5)
    stored, stage = history.store(tmp_path)
    stored.probe(stage, history.good, Verdict.PASS, phase=Phase.ENDPOINT)
    for index, verdict in (
        (4, Verdict.PASS),
        (4, Verdict.MISMATCH),
        (2, Verdict.PASS),
        (3, Verdict.MISMATCH),
        (2, Verdict.MISMATCH),
        (1, Verdict.PASS),
        (1, Verdict.PASS),
    ):
        stored.probe(stage, history.commits[index], verdict)
    conclude(stored, history, {2})
    log = log_of(stored)
    assert f"{history.commits[2]} is the first bad commit" in history.replay(log)
    assert commands(log)[1:] == [
        f"git bisect bad {history.commits[2]}",
        f"git bisect good {history.commits[1]}",
    ]


def test_a_revert_is_told_by_the_runs_of_the_content_it_restores(
    repository: TestRepository, tmp_path: Path
) -> None:
    """2 restores the content of the good end, so that it was never run."""
    history = line(repository, 4)
    stored, stage = history.store(tmp_path)
    stored.probe(
        stage,
        history.good,
        Verdict.PASS,
        phase=Phase.ENDPOINT,
        revisions=pinned_revisions(history.commits[2]),
    )
    stored.probe(stage, history.commits[3], Verdict.MISMATCH, phase=Phase.ENDPOINT)
    conclude(stored, history, {3})
    assert f"{history.commits[3]} is the first bad commit" in history.replay(log_of(stored))


def test_unfinished_logs_leave_git_where_the_search_was(repository: TestRepository, tmp_path: Path) -> None:
    history = line(repository, 8)
    stored, stage = history.store(tmp_path)
    stored.probe(stage, history.commits[7], Verdict.MISMATCH, phase=Phase.ENDPOINT)
    stored.probe(stage, history.commits[3], Verdict.PASS)
    stored.start(stage, history.commits[5])
    said = history.replay(log_of(stored))
    assert "Bisecting: 1 revision left to test" in said
    assert commands(log_of(stored))[1:] == [f"git bisect good {history.commits[3]}"]


def test_each_range_has_its_own_log(submodule_culprit: StoredBisection) -> None:
    outer, inner = log_of(submodule_culprit), log_of(submodule_culprit, "bisect-runtime.log")
    assert commands(outer) == [f"git bisect start '{sha('c5')}' '{sha('c4')}'"]
    assert outer.endswith(f"# first bad commit: [{sha('c5')}] Subject of c5\n")
    assert commands(inner) == [
        f"git bisect start '{sha('r3')}' '{sha('r0')}'",
        f"git bisect bad {sha('r2')}",
        f"git bisect good {sha('r1')}",
    ]
    assert inner.endswith(f"# first bad commit: [{sha('r2')}] Subject of r2\n")


def test_subjects_cannot_add_commands(repository: TestRepository, tmp_path: Path) -> None:
    """Git's own subjects have no newline, but what is read may come from another store."""
    history = line(repository, 2)
    stored, stage = history.store(tmp_path)
    with stored.sessions.begin() as session:
        session.connection().exec_driver_sql(
            "UPDATE commits SET subject = 'x' || char(10) || 'git bisect skip HEAD' || char(13) || 'y'"
        )
    stored.probe(stage, history.commits[1], Verdict.MISMATCH, phase=Phase.ENDPOINT)
    stored.probe(stage, history.commits[0], Verdict.PASS)
    conclude(stored, history, {1})
    assert len(commands(log_of(stored))) == 2
    assert f"{history.commits[1]} is the first bad commit" in history.replay(log_of(stored))


def test_a_standing_s_log_names_its_answer_and_git_replays_it(
    repository: TestRepository, tmp_path: Path
) -> None:
    """4 fails, 2 does not build, 1 passes: git and the log leave the same two suspects."""
    history = line(repository, 5)
    stored, stage = history.store(tmp_path)
    stored.probe(stage, history.commits[4], Verdict.MISMATCH, phase=Phase.ENDPOINT)
    for index, verdict in ((2, Verdict.BUILD_ERROR), (3, Verdict.MISMATCH), (1, Verdict.PASS)):
        stored.probe(stage, history.commits[index], verdict)
    suspects = history.commits[2:4]
    with stored.sessions() as session:
        (standing,) = load_rows(session, stored.name).ranges
        log = bisect_log(
            standing,
            subjects={history.commits[2]: "does not\nbuild"},
            culprit=None,
            suspects=suspects,
            first_parent=True,
        )
    assert commands(log) == [
        f"git bisect start '--first-parent' '{history.commits[4]}' '{history.good}'",
        f"git bisect skip {history.commits[2]}",
        f"git bisect bad {history.commits[3]}",
        f"git bisect good {history.commits[1]}",
    ]
    assert log.splitlines()[-2:] == [
        f"# possible first bad commit: [{suspects[0]}] does not build",
        f"# possible first bad commit: [{suspects[1]}]",
    ]
    _, _, last = history.replay(log).partition("The first bad commit could be any of:")
    assert {commit for commit in history.commits if commit in last} == {*suspects}


def test_replay_needs_no_more_than_git(repository: TestRepository, tmp_path: Path) -> None:
    """The log that git writes after the replay tells of the same commits."""
    history = line(repository, 6)
    stored, stage = history.store(tmp_path)
    left = search(history, stored, stage, culprit=4, skips=[], rng=random.Random(3))
    conclude(stored, history, left)
    log = log_of(stored)
    history.replay(log)
    written = subprocess.run(
        ["git", "-C", str(repository.path), "bisect", "log"], capture_output=True, text=True, check=True
    ).stdout
    assert set(commands(log)) <= set(commands(written))
