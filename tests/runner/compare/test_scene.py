"""The matrix that detectors look at, and the window of a tensor that is too large."""

import numpy as np
import pytest
import torch

from precision_bisect.runner.compare.finding import MAX_ELEMENTS, Scene, build_scene, shuffle
from precision_bisect.runner.compare.statistics import IncomparableError, Tolerance
from tests.runner.compare.tensor_makers import view_of

EXACT = Tolerance(rtol=0.0, atol=0.0)


def scene_of(actual: torch.Tensor, expected: torch.Tensor) -> Scene:
    scene = build_scene(view_of(actual), view_of(expected), EXACT)
    assert scene is not None
    return scene


def test_leading_dimensions_are_rows() -> None:
    expected = torch.arange(24.0).reshape(2, 3, 4)
    actual = expected.clone()
    actual[1, 0, 2] = -1
    scene = scene_of(actual, expected)
    assert (scene.rows, scene.columns, scene.shape, scene.is_window) == (6, 4, (2, 3, 4), False)
    assert np.argwhere(scene.wrong).tolist() == [[3, 2]]
    assert (scene.wrong_count, scene.wrong_actual.tolist(), scene.wrong_expected.tolist()) == (1, [-1], [14])


def test_equal_tensors_have_no_scene_and_unlike_ones_no_comparison() -> None:
    one = torch.ones(4)
    assert build_scene(view_of(one), view_of(one.clone()), EXACT) is None
    with pytest.raises(IncomparableError):
        build_scene(view_of(one), view_of(torch.ones(5)), EXACT)


@pytest.mark.parametrize("shape", [(MAX_ELEMENTS // 8, 16), (200, MAX_ELEMENTS // 32), (1, 2 * MAX_ELEMENTS)])
def test_a_large_tensor_is_looked_at_from_its_first_wrong_element_on(shape: tuple[int, int]) -> None:
    expected = torch.zeros(shape, dtype=torch.int8)
    actual = expected.clone()
    actual.reshape(-1)[-3] = 1
    scene = scene_of(actual, expected)
    assert scene.is_window
    assert scene.wrong.size <= MAX_ELEMENTS
    assert scene.origin + int(np.flatnonzero(scene.wrong)[0]) == expected.numel() - 3


def test_only_finite_pairs_are_counted_with() -> None:
    actual = torch.tensor([1.0, float("nan"), 3.0, 4.0])
    scene = scene_of(actual, torch.tensor([2.0, 2.0, float("inf"), 4.0]))
    assert [side.tolist() for side in scene.finite_wrong] == [[1.0], [2.0]]


def test_others_of_another_type_or_size_are_left_aside() -> None:
    same, other = torch.full((4,), 7.0), torch.ones(4, dtype=torch.int32)
    views = [view_of(same), view_of(other), view_of(torch.ones(5))]
    scene = build_scene(view_of(torch.ones(4)), view_of(torch.zeros(4)), EXACT, views)
    assert scene is not None
    assert len(scene.stale_candidates) == 1
    assert scene.bits_of(scene.stale_candidates[0]).view(np.float32).tolist() == [[7.0] * 4]


def test_a_limit_parts_what_is_right_from_what_was_expected_beyond_it() -> None:
    scene = scene_of(torch.tensor([1.0, 2.0, 5.0, 5.0]), torch.tensor([1.0, 2.0, 8.0, 9.0]))
    assert scene.is_limit(5.0, scene.wrong_expected)
    assert not scene.is_limit(8.5, scene.wrong_expected)
    assert not scene.is_limit(5.0, scene.wrong_expected[:0])


def test_shuffling_is_the_same_each_time() -> None:
    values = np.arange(100)
    assert np.array_equal(shuffle(values), shuffle(values))
    assert sorted(shuffle(values)) == list(range(100))
