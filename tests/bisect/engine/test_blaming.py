"""Commits that were tested with patches: where a commit and its parent differ by one, it may be what fails."""

import pytest

from precision_bisect.bisect.engine.answer import Conclusion, named_commit
from precision_bisect.bisect.engine.culprit import add_patches, patch_questions, unshared_patches
from precision_bisect.bisect.engine.runs import BisectionKnowledge
from precision_bisect.bisect.history.questions import AskPatches
from precision_bisect.bisect.search.graph import CommitGraph
from precision_bisect.store.vocabulary import BisectionOutcome
from tests.bisect.engine.planted import broken_line
from tests.bisect.engine.simulated import loaded_range
from tests.bisect.engine.stepping import about_stack

LOADED = loaded_range(["1", "2", "3"], CommitGraph([[], [0], [1]]), "0")
SUSPECT = named_commit(LOADED, 1, 0.5).model_copy(update={"parent": "1"})


def known(
    of_commit: tuple[str, ...], of_parent: tuple[str, ...], *, patched: bool = True
) -> BisectionKnowledge:
    """What is known where a suspect and its parent are tested with these patches."""
    found = about_stack(broken_line(3, 1), has_patches=patched)
    for sha, patches in ((SUSPECT.commit, of_commit), ("1", of_parent)):
        found = found.with_answer(AskPatches(repository=SUSPECT.repository, commit=sha), patches)
    return found


@pytest.mark.parametrize(
    ("of_commit", "of_parent", "others"),
    [(("3",), (), ["3"]), ((), ("3",), ["3"]), (("3",), ("3",), []), (("2",), (), [])],
)
def test_a_patch_of_one_side_is_a_suspect_beside_the_commit(
    of_commit: tuple[str, ...], of_parent: tuple[str, ...], others: list[str]
) -> None:
    asked = known(of_commit, of_parent)
    assert unshared_patches(asked, SUSPECT) == others
    plain = Conclusion(outcome=BisectionOutcome.SUSPECT, message="one of 1 commit", suspects=(SUSPECT,))
    answer = add_patches(asked, LOADED, plain)
    assert [each.commit for each in answer.suspects] == [SUSPECT.commit, *others]
    assert ("or it is 3, which was cherry-picked" in answer.message) is bool(others)


def test_where_nothing_is_patched_nothing_is_asked() -> None:
    assert [*patch_questions(known((), (), patched=False), [SUSPECT])] == []
    assert [each.commit for each in patch_questions(known((), ()), [SUSPECT])] == [SUSPECT.commit, "1"]
