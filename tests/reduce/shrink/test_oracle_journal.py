"""What a kill leaves of the tests made, and that a resumed reduction repeats none of them."""

from __future__ import annotations

import json
import random
from pathlib import Path

import pytest

from benchmarks.reduce.driven import reduce_tasks, started
from benchmarks.reduce.kills.interruptions import kill_and_resume
from benchmarks.reduce.world import Cell, draw
from precision_bisect.reduce.shrink.minimize import Answer
from precision_bisect.reduce.shrink.shrinker import TrialJournal
from precision_bisect.runner.errors import UserError


@pytest.mark.long
def test_processes_killed_at_25_random_instants_are_resumed_without_a_test_made_again(tmp_path: Path) -> None:
    killed = list(kill_and_resume(25, tmp_path, seed=0))
    assert len(killed) == 25
    assert sum(not one.finished for one in killed) >= 10
    assert sum(one.known for one in killed) > 100
    assert [one for one in killed if one.repeated or not one.same] == []


def test_a_journal_cut_at_any_byte_loses_its_last_line_at_most(tmp_path: Path) -> None:
    """A kill in the middle of a write: the tests before it are known, the one under way is made again."""
    world = draw(Cell(kind="scattered", n=64), 0)
    best = reduce_tasks(world, tmp_path / "whole", workers=1, scale=0).best
    text = (tmp_path / "whole" / "tests.jsonl").read_bytes()
    rng = random.Random(0)
    for number in range(25):
        folder = tmp_path / str(number)
        folder.mkdir()
        end = rng.randrange(len(text) + 1)
        (folder / "tests.jsonl").write_bytes(text[:end])
        lines = text[:end].count(b"\n")
        assert reduce_tasks(world, folder, workers=1, scale=0).best == best
        assert len(started(folder / "begun")) == text.count(b"\n") - lines
        assert (folder / "tests.jsonl").read_bytes() == text
    assert len(TrialJournal.open(tmp_path / "whole" / "tests.jsonl").answers) == text.count(b"\n")


def test_a_journal_of_before_there_were_versions_is_gone_on_with(tmp_path: Path) -> None:
    file = tmp_path / "tests.jsonl"
    file.write_text('{"candidate": "ab12", "run": 1, "outcome": "slipped"}\n')
    journal = TrialJournal.open(file)
    journal.record(("ab12", 2), Answer.PASSED)
    assert TrialJournal.open(file).answers == {("ab12", 1): Answer.SLIPPED, ("ab12", 2): Answer.PASSED}
    assert [json.loads(line).get("schema_version") for line in file.read_text().splitlines()] == [None, 1]


@pytest.mark.parametrize(
    ("line", "match"),
    [
        ('{"schema_version": 2, "candidate": "ab12"}', "update this one"),
        ('{"candidate": "ab12", "run": 1}', "damaged"),
        ("not JSON", "Expecting value"),
    ],
)
def test_a_journal_that_cannot_be_read_is_said(tmp_path: Path, line: str, match: str) -> None:
    file = tmp_path / "tests.jsonl"
    file.write_text(f"{line}\n")
    with pytest.raises(UserError, match=match) as caught:
        TrialJournal.open(file)
    assert str(caught.value).startswith(f"{file}: ")
