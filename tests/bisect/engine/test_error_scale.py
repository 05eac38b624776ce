"""Errors of another size are another failure; those of one fault are not, however they are spread."""

import random
import sys

import pytest

from precision_bisect.bisect.engine.failures import ErrorScale


def run(value: float, measure: str = "relative_l2") -> dict[str, dict[str, float]]:
    """Two outputs, of which one is right."""
    return {"y": {measure: value}, "right": {measure: value * 1e-6}}


NAN = {"y": {"not_finite": 0.5, "beyond_tolerance": 0.5}}


@pytest.mark.parametrize(
    ("failing", "value", "other"),
    [
        ([1e-2], 9e-2, False),
        ([1e-2], 2e-1, True),
        ([1e-2], 1.2e-3, False),
        ([1e-2], 9e-4, True),
        ([1e-2] * 5, 0.0, True),
        # The quotient of the two sizes is no float any more.
        ([1e30], 0.0, True),
        ([sys.float_info.max], 1.0, True),
        # A failure whose own runs lie far apart may lie further still.
        ([1e-3, 1e-2, 1e-1], 9.0, False),
        ([1e-3, 1e-2, 1e-1], 11.0, True),
    ],
)
def test_size(failing: list[float], value: float, other: bool) -> None:
    scale = ErrorScale.from_runs([run(each) for each in failing])
    assert scale is not None
    assert scale.is_other(run(value)) is other


def test_not_finite_is_a_kind_of_its_own() -> None:
    finite, not_finite = ErrorScale.from_runs([run(1e-2)]), ErrorScale.from_runs([NAN, NAN])
    assert finite is not None
    assert not_finite is not None
    assert finite.is_other(NAN)
    assert not_finite.is_other(run(1e30))
    assert not not_finite.is_other(NAN)
    assert ErrorScale.from_runs([run(1e-2), NAN]) is None


def test_what_was_not_measured_is_never_another_failure() -> None:
    scale = ErrorScale.from_runs([run(1e-2), run(1e-2)])
    assert scale is not None
    assert not scale.is_other({})
    assert not scale.is_other(run(1e9, "max_diff"))
    assert ErrorScale.from_runs([]) is None
    assert ErrorScale.from_runs([{}]) is None
    # One run without the best measure: the next one that all have.
    shared = ErrorScale.from_runs([run(2.0, "max_diff"), {"y": {"max_diff": 3.0, "relative_l2": 1e-2}}])
    assert shared is not None
    assert shared.measure == "max_diff"


def test_runs_of_the_failing_end_itself_are_never_another_failure() -> None:
    rng = random.Random(2)
    for _ in range(200):
        runs = [run(10 ** rng.uniform(-6, 3)) for _ in range(rng.randint(2, 9))]
        scale = ErrorScale.from_runs(runs)
        assert scale is not None
        assert not any(scale.is_other(each) for each in runs)


def test_a_scale_is_shown_however_wide_it_is() -> None:
    shown = [
        str(ErrorScale.from_runs([run(each) for each in sizes])) for sizes in ([1e-2], [0.0, 1e-2, 1e-2])
    ]
    assert shown == ["relative l2 0.01, within a factor of 10", "relative l2 0.01, within a factor of 1e894"]
