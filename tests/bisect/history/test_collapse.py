"""The collapse of histories, against a definition that knows nothing of order or of algorithms."""

from datetime import UTC, datetime

from hypothesis import given
from hypothesis import strategies as st

from precision_bisect.bisect.history.range import collapse
from precision_bisect.store.vocabulary import Commit

DATE = datetime(2026, 1, 1, tzinfo=UTC)
OUTSIDE = ("good", "older")


def commit(sha: str, *parents: str) -> Commit:
    return Commit(sha=sha, parents=parents, author="", email="", date=DATE, subject=sha, changes=())


@st.composite
def histories(draw: st.DrawFn) -> tuple[list[Commit], dict[str, str]]:
    """Commits with up to three parents, some of them outside of the range, and few distinct contents."""
    count = draw(st.integers(1, 12))
    commits: list[Commit] = []
    for number in range(count):
        earlier = [*OUTSIDE, *(f"c{n}" for n in range(number))]
        parents = draw(
            st.lists(st.sampled_from(earlier), min_size=0 if number else 1, max_size=3, unique=True)
        )
        commits.append(commit(f"c{number}", *parents))
    heads = {c.sha for c in commits} - {parent for c in commits for parent in c.parents}
    commits.append(commit("bad", *sorted(heads)))
    names = [*OUTSIDE, *(c.sha for c in commits)]
    return commits, {name: draw(st.sampled_from("xyz")) for name in names}


def classes(commits: list[Commit], contents: dict[str, str]) -> dict[str, frozenset[str]]:
    """The finest partition in which all that lies outside is one class, and a commit is in its parents' class where
    that is one class and its content is that of its first parent, or in the class of a parent inside that has its
    content and builds on the classes of all others. Found by joining, parents first, until nothing changes."""
    of = {name: frozenset({name}) for name in contents}
    outside = frozenset(OUTSIDE)
    of.update(dict.fromkeys(OUTSIDE, outside))
    changed = True
    while changed:
        changed = False
        for c in commits:
            above = {of[parent] for parent in c.parents}
            one = [of[c.parents[0]]] if len(above) == 1 and contents[c.sha] == contents[c.parents[0]] else []
            one += [
                of[parent]
                for parent in c.parents
                if contents[c.sha] == contents[parent]
                and "good" not in of[parent]
                and above <= {of["good"]} | built_on(commits, of, parent)
                and {root for other in c.parents if "good" in of[other] for root in roots(commits, other)}
                <= roots(commits, parent)
            ]
            for group in one[:1]:
                if group != of[c.sha]:
                    joined = of[c.sha] | group
                    of.update(dict.fromkeys(joined, joined))
                    changed = True
    return of


def roots(commits: list[Commit], sha: str) -> set[str]:
    """The commits from outside that a commit builds on first."""
    parents = {c.sha: c.parents for c in commits}
    return {root for parent in parents[sha] for root in roots(commits, parent)} if sha in parents else {sha}


def built_on(commits: list[Commit], of: dict[str, frozenset[str]], sha: str) -> set[frozenset[str]]:
    """The classes that the class of a commit builds on, itself included."""
    parents = {c.sha: c.parents for c in commits}
    seen: set[frozenset[str]] = set()
    todo = [of[sha]]
    while todo:
        group = todo.pop()
        if group not in seen:
            seen.add(group)
            todo += [of[parent] for member in group for parent in parents.get(member, ())]
    return seen


@given(histories())
def test_collapse_is_what_its_definition_says(history: tuple[list[Commit], dict[str, str]]) -> None:
    commits, contents = history
    of = classes(commits, contents)
    found = collapse(commits, contents.__getitem__)
    if found is None:
        assert "good" in of["bad"]
        return
    assert "good" not in of["bad"]
    nodes = [frozenset(member.sha for member in node.members) for node in found.nodes]
    assert sorted(map(sorted, nodes)) == sorted(
        sorted(group) for group in set(of.values()) if "good" not in group
    )
    good_side = {c.sha for c in found.good_side}
    assert good_side == of["good"] - set(OUTSIDE)
    assert "bad" in nodes[found.bad]

    place = {sha: index for index, node in enumerate(nodes) for sha in node}
    for index, node in enumerate(found.nodes):
        assert found.parents[index] == tuple(
            sorted({place[parent] for parent in node.commit.parents if parent in place})
        )
        assert all(parent < index for parent in found.parents[index])
        for member in node.members[1:]:
            assert contents[member.sha] == contents[node.commit.sha]
            assert index in {place.get(parent) for parent in member.parents}


@given(histories(), st.data())
def test_no_culprit_is_folded_away(history: tuple[list[Commit], dict[str, str]], data: st.DataObject) -> None:
    """Where equal neighbours behave alike, the one commit that brings the fault stands for its node."""
    commits, _ = history
    culprit = data.draw(st.sampled_from(commits)).sha
    broken = {culprit}
    for c in commits:
        if broken & set(c.parents):
            broken.add(c.sha)
    contents = {
        name: data.draw(st.sampled_from("xy")) + ("!" if name in broken else "")
        for name in [*OUTSIDE, *(c.sha for c in commits)]
    }
    found = collapse(commits, contents.__getitem__)
    if "bad" not in broken:
        return
    assert found is not None
    candidates = {node.commit.sha: index for index, node in enumerate(found.nodes)}
    assert culprit in candidates
    for node in found.nodes:
        assert len({member.sha in broken for member in node.members}) == 1
    assert not {c.sha for c in found.good_side} & broken


def test_a_line_with_documentation_commits() -> None:
    commits = [commit("a", "good"), commit("b", "a"), commit("c", "b"), commit("d", "c")]
    found = collapse(commits, {"good": "1", "a": "1", "b": "2", "c": "2", "d": "1"}.__getitem__)
    assert found is not None
    assert [[m.sha for m in node.members] for node in found.nodes] == [["b", "c"], ["d"]]
    assert [c.sha for c in found.good_side] == ["a"]
    assert found.parents == ((), (0,))
    assert found.bad == 1


def test_a_merge_that_undoes_a_side_is_kept() -> None:
    """It equals its first parent, but folding it would say that the side came with it."""
    commits = [commit("main", "good"), commit("side", "good"), commit("merge", "main", "side")]
    found = collapse(commits, {"good": "1", "main": "2", "side": "3", "merge": "2"}.__getitem__)
    assert found is not None
    assert found.parents == ((), (), (0, 1))


def test_a_merge_that_equals_the_parent_that_builds_on_all_others_is_folded_into_it() -> None:
    """Its other parent is the good end, or a side that changes documents alone and so stands at the commit below."""
    commits = [
        commit("side", "good"), commit("merge", "good", "side"), commit("docs", "merge"), commit("culprit", "merge"),
        commit("both", "culprit", "docs"), commit("bad", "both"),
    ]  # fmt: skip
    contents = {"good": "1", "side": "2", "merge": "2", "docs": "2", "culprit": "3", "both": "3", "bad": "4"}
    found = collapse(commits, contents.__getitem__)
    assert found is not None
    nodes = [[member.sha for member in node.members] for node in found.nodes]
    assert nodes == [["side", "merge", "docs"], ["culprit", "both"], ["bad"]]
    assert found.parents == ((), (0,), (1,))


def test_a_merge_that_takes_a_side_from_before_the_range_whole_is_kept() -> None:
    """It may undo what the range's old end has mended since."""
    commits = [commit("side", "older"), commit("bad", "good", "side")]
    found = collapse(commits, {"older": "1", "good": "2", "side": "3", "bad": "3"}.__getitem__)
    assert found is not None
    assert [[member.sha for member in node.members] for node in found.nodes] == [["side"], ["bad"]]


def test_a_commit_that_is_never_run_stands_for_none_that_can_be() -> None:
    commits = [commit("a", "good"), commit("b", "a"), commit("c", "b"), commit("d", "c")]
    contents = {"good": "1", "a": "2", "b": "2", "c": "2", "d": "2"}
    found = collapse(commits, contents.__getitem__, skip={"a", "b", "d"})
    assert found is not None
    assert [[m.sha for m in node.members] for node in found.nodes] == [["a", "b"], ["c", "d"]]


def test_a_commit_that_is_never_run_folds_into_the_good_side() -> None:
    commits = [commit("a", "good"), commit("b", "a"), commit("c", "b")]
    found = collapse(commits, {"good": "1", "a": "1", "b": "1", "c": "2"}.__getitem__, skip={"a"})
    assert found is not None
    assert [c.sha for c in found.good_side] == ["a", "b"]
