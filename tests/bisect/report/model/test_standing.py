"""Which commits of a range one stands for."""

from precision_bisect.bisect.report.model.standing import Standing
from precision_bisect.store.tables.bisections import CandidateRow, CommitRow, ProbeRow, StageRow
from precision_bisect.store.vocabulary import Phase


def stage(*rows: tuple[str, str, str | None, str | None]) -> StageRow:
    """A range behind the commit `old`: each row a commit, its parent, what stands for it, and its content."""
    commits = {sha: CommitRow(sha=sha, parents=[parent]) for sha, parent, _, _ in rows}
    candidates = [
        CandidateRow(commit=commits[sha], representative=commits[first] if first else None, content=content)
        for sha, _, first, content in rows
    ]
    return StageRow(old="old", new=rows[-1][0], candidates=candidates)


def test_a_commit_stands_for_those_of_its_content_alone() -> None:
    """b follows a without a change that counts; c does so only because it touches none of the search's paths."""
    standing = Standing(
        stage(("a", "old", "a", "1"), ("b", "a", "a", "1"), ("c", "b", "a", "2"), ("d", "c", "d", "3")), []
    )
    assert [standing.of(sha) for sha in "abcd"] == ["a", "a", "a", "d"]
    assert standing.members == {"a": ["a", "b"], "d": ["d"]}
    assert standing.ancestors("c") == {"a", "b", "c"}


def test_what_the_good_end_stands_for_and_what_cannot_be_run() -> None:
    standing = Standing(stage(("a", "old", None, "0"), ("b", "a", "b", None), ("c", "b", "c", "1")), [])
    assert standing.members == {"old": ["a"], "b": ["b"], "c": ["c"]}
    assert standing.untestable == ["b"]
    assert standing.old_content == "0"


def test_runs_of_another_range_speak_for_an_old_end_of_their_content() -> None:
    """A commit that moves a pin alone has, with the old pin, the content of its parent, which has run before."""
    range_of_pin = stage(("a", "old", "a", "1"))
    range_of_pin.held, range_of_pin.old_content = {"holder": "culprit"}, "0"
    revisions = {"holder": "parent", "pinned": "old"}
    run = ProbeRow(stage_id=7, commit="parent", phase=Phase.SEARCH, revisions=revisions, content="0")
    assert Standing(range_of_pin, [run]).runs == {"old": [run]}
