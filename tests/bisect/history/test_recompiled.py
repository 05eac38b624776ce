"""What is compiled again follows from what includes what."""

import random
from dataclasses import replace
from functools import reduce
from operator import or_

import pytest

from precision_bisect.bisect.history.range import RecompiledObjects, object_masks
from precision_bisect.bisect.search.graph import CommitGraph
from precision_bisect.store.vocabulary import TreeChange
from tests.bisect.engine.simulated import loaded_range
from tests.bisect.search.search_histories import branching

FILES = [
    "src/a.cpp",
    "src/b.cpp",
    "src/near.h",
    "include/core/base.h",
    "include/core/more.h",
    "setup.py",
    "old/base.h",
]


def compiled(includes: list[tuple[str, str]]) -> dict[str, set[str]]:
    """The files by whose names the objects go that are made of each file."""
    objects = object_masks(FILES, includes)
    own = {
        file: bits for file, bits in objects.items() if bits.bit_count() == 1 and file.endswith(("cpp", "py"))
    }
    return {file: {name for name, bit in own.items() if bits & bit} for file, bits in objects.items()}


def test_a_header_is_all_objects_that_include_it_by_however_many_steps() -> None:
    includes = [
        ("src/a.cpp", "near.h"),
        ("src/near.h", "core/more.h"),
        ("src/b.cpp", "core/more.h"),
        ("include/core/more.h", "base.h"),
        ("src/a.cpp", "vector"),
    ]
    found = compiled(includes)
    assert found["src/near.h"] == {"src/a.cpp"}
    assert found["include/core/more.h"] == found["include/core/base.h"] == {"src/a.cpp", "src/b.cpp"}
    assert found["setup.py"] == {"setup.py"}
    # Nobody includes it, so that it is one by itself: beside `more.h` there is another of that name.
    assert object_masks(FILES, includes)["old/base.h"].bit_count() == 1


def test_headers_that_include_each_other_are_the_objects_of_both() -> None:
    found = compiled(
        [
            ("src/a.cpp", "near.h"),
            ("src/near.h", "../include/core/base.h"),
            ("include/core/base.h", "../../src/near.h"),
            ("src/b.cpp", "core/base.h"),
        ]
    )
    assert found["src/near.h"] == found["include/core/base.h"] == {"src/a.cpp", "src/b.cpp"}


def test_a_path_that_may_mean_several_files_means_all_of_them() -> None:
    found = compiled([("src/a.cpp", "base.h")])
    assert found["include/core/base.h"] == found["old/base.h"] == {"src/a.cpp"}


def recompiled(parents: list[list[int]], objects: list[int]) -> RecompiledObjects:
    """A range whose commits change one file each, of which such objects are made."""
    names = [f"c{place}" for place in range(len(parents))]
    loaded = loaded_range(names, CommitGraph(parents), "good")
    nodes = tuple(
        replace(node, members=(replace(node.commit, changes=(TreeChange(name, "1", "1", "1", "2"),)),))
        for name, node in zip(names, loaded.commit_range.nodes, strict=True)
    )
    return RecompiledObjects(
        replace(loaded.commit_range, nodes=nodes), dict(zip(names, objects, strict=True))
    )


def test_on_a_line_what_changed_between_two_commits_counts_once() -> None:
    line = recompiled([[], [0], [1], [2]], [0b1, 0b110, 0b010, 0b1000])
    assert line.objects == 4
    assert line.objects_from(1).tolist() == [2, 0, 1, 2, 3]
    assert line.objects_from(-1).tolist() == [1, 3, 3, 4, 0]
    assert line.objects_after([0, 3]).tolist() == [0, 2, 1, 0, 1]


def test_between_two_branches_lies_what_changed_on_either() -> None:
    # A side branch off the good end is merged; the merge changes what the branch did.
    graph = recompiled([[], [], [0, 1]], [0b1, 0b110, 0b110])
    assert graph.objects_from(0).tolist() == [0, 3, 2, 1]
    assert graph.objects_from(1).tolist()[:2] == [3, 0]


@pytest.mark.parametrize("seed", range(20))
def test_what_is_compiled_again_is_all_that_differs_on_the_way(seed: int) -> None:
    rng = random.Random(seed)
    parents = branching(24, 0.3, rng)
    objects = [rng.getrandbits(6) for _ in parents]
    # The way to a commit is that of first parents. The good end is the last place.
    ways: list[set[int]] = []
    for place, those in enumerate(parents):
        ways.append({place} | (ways[those[0]] if those else set()))
    ways.append(set())
    made = recompiled(parents, objects)
    for start, here in enumerate(ways):
        expected = [reduce(or_, (objects[place] for place in here ^ there), 0).bit_count() for there in ways]
        assert made.objects_from(start).tolist() == expected
