"""Which commits of a range one stands for."""

from collections.abc import Sequence

from precision_bisect.bisect.report.basis import SearchedRange
from precision_bisect.store.bisections import RangeCandidate
from precision_bisect.store.tables import ProbeRow, StageRow
from precision_bisect.store.vocabulary import Phase


def searched(
    *rows: tuple[str, str, str | None, str | None], probes: Sequence[ProbeRow] = (), **fields: object
) -> SearchedRange:
    """A range behind the commit `old`: each row a commit, its parent, what stands for it, and its content."""
    candidates = [
        RangeCandidate(sha=sha, parents=[parent], subject="", representative=first, content=content)
        for sha, parent, first, content in rows
    ]
    return SearchedRange(StageRow(old="old", new=rows[-1][0], **fields), candidates, probes)


def test_a_commit_stands_for_those_of_its_content_alone() -> None:
    """b follows a without a change that counts; c does so only because it touches none of the search's paths."""
    standing = searched(
        ("a", "old", "a", "1"), ("b", "a", "a", "1"), ("c", "b", "a", "2"), ("d", "c", "d", "3")
    )
    assert [standing.representative_of(sha) for sha in "abcd"] == ["a", "a", "a", "d"]
    assert standing.members == {"a": ["a", "b"], "d": ["d"]}
    assert standing.ancestors("c") == {"a", "b", "c"}


def test_what_the_good_end_stands_for_and_what_cannot_be_run() -> None:
    standing = searched(("a", "old", None, "0"), ("b", "a", "b", None), ("c", "b", "c", "1"))
    assert standing.members == {"old": ["a"], "b": ["b"], "c": ["c"]}
    assert standing.untestable == ["b"]
    assert standing.old_content == "0"


def test_runs_of_another_range_speak_for_an_old_end_of_their_content() -> None:
    """A commit that moves a pin alone has, with the old pin, the content of its parent, which has run before."""
    revisions = {"holder": "parent", "pinned": "old"}
    run = ProbeRow(stage_id=7, commit="parent", phase=Phase.SEARCH, revisions=revisions, content="0")
    standing = searched(("a", "old", "a", "1"), probes=[run], held={"holder": "culprit"}, old_content="0")
    assert standing.runs == {"old": [run]}
