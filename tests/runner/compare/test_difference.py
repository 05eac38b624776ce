"""Two sources name by name: what is equal, what differs and why, and what cannot be told."""

import time
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from precision_bisect.runner.build_output.files import MalformedFileError
from precision_bisect.runner.compare.diff_command import check_sources
from precision_bisect.runner.compare.finding import Pattern
from precision_bisect.runner.compare.judges import Comparison, ComparisonResult, Equality, compare_sources
from precision_bisect.runner.compare.sources import Entry, Scalar, Source
from precision_bisect.runner.compare.statistics import Tolerance
from precision_bisect.runner.tensor import TensorView
from tests.runner.compare.tensor_makers import view_of

EXACT = Comparison(tolerance=Tolerance(rtol=0.0, atol=0.0))


def source(
    name: str,
    tensors: Mapping[str, torch.Tensor],
    *,
    scalars: Mapping[str, Scalar] | None = None,
    flawed: Mapping[str, str] | None = None,
) -> Source:
    entries = {
        key: Entry(
            load_layout=lambda tensor=tensor: view_of(tensor),
            open=lambda tensor=tensor: view_of(tensor),
            is_input=False,
        )
        for key, tensor in tensors.items()
    }
    return Source(path=Path(name), tensors=entries, scalars=scalars or {}, flawed=flawed or {})


def compared(actual: Source, expected: Source, how: Comparison = EXACT) -> dict[str, ComparisonResult]:
    return {difference.name: difference for difference in compare_sources(actual, expected, how)}


def test_names_of_one_side_alone_differ() -> None:
    found = compared(
        source("a", {"x": torch.ones(2), "more": torch.ones(2)}),
        source("b", {"x": torch.ones(2), "less": torch.ones(2)}),
    )
    assert list(found) == ["x", "less", "more"]
    assert (found["x"].outcome, found["x"].identical) == (Equality.EQUAL, True)
    assert (found["less"].outcome, found["less"].reason) == (Equality.DIFFERENT, "only in b")
    assert found["more"].reason == "only in a"


def test_many_files_take_no_time_of_their_square() -> None:
    files = tuple(f"log{number}" for number in range(12_000))
    a, b = (replace(source(side, {}), plain_files=files) for side in ("a", "b"))
    begun = time.process_time()
    assert len(compared(a, b)) == len(files)
    assert time.process_time() - begun < 4


def test_as_many_tensors_before_a_wrong_one_as_after_it_may_explain_it() -> None:
    random = torch.Generator().manual_seed(1)
    tensors = {f"x{number:02}": torch.randn(64, generator=random) for number in range(40)}
    for other in ("x04", "x36"):
        found = compared(source("a", {**tensors, "x20": tensors[other]}), source("b", tensors))["x20"]
        assert [each.pattern for each in found.patterns] == [Pattern.STALE]


def test_two_single_tensors_are_compared_whatever_their_names() -> None:
    found = compared(source("a", {"x": torch.ones(2)}), source("b", {"y": torch.zeros(2)}))
    assert found["y"].reason == "2 of 2 elements differ"
    assert found["y"].rows is not None


def test_values_within_tolerance_are_equal_and_not_identical() -> None:
    how = Comparison(tolerance=Tolerance(rtol=0.0, atol=0.1))
    found = compared(source("a", {"x": torch.ones(2)}), source("b", {"x": torch.full((2,), 1.05)}), how)
    assert (found["x"].outcome, found["x"].identical) == (Equality.EQUAL, False)


def test_another_shape_is_a_difference_and_a_flaw_is_not_compared() -> None:
    found = compared(
        source("a", {"x": torch.ones(2), "s": torch.ones(1)}, flawed={"z": "truncated"}),
        source("b", {"x": torch.ones(3), "z": torch.ones(1)}, scalars={"s": 1.0}),
    )
    assert found["x"].outcome is Equality.DIFFERENT
    assert (found["z"].outcome, found["z"].reason) == (Equality.UNKNOWN, "a: truncated")
    assert found["s"].reason == "a scalar against a tensor"


@pytest.mark.parametrize(
    ("ours", "theirs", "outcome"),
    [
        (1, 1, Equality.EQUAL),
        (float("nan"), float("nan"), Equality.EQUAL),
        (0.0, -0.0, Equality.EQUAL),
        (1.0, 2.0, Equality.DIFFERENT),
        (None, 1, Equality.DIFFERENT),
    ],
)
def test_scalars(ours: Scalar, theirs: Scalar, outcome: Equality) -> None:
    found = compared(source("a", {}, scalars={"s": ours}), source("b", {}, scalars={"s": theirs}))
    assert found["s"].outcome is outcome


def test_a_tensor_that_cannot_be_read_is_not_compared() -> None:
    def broken() -> TensorView:
        raise MalformedFileError(path=Path("x.pt"), expected="a tensor", found="none")

    actual = Source(
        path=Path("a"),
        tensors={"x": Entry(load_layout=broken, open=broken, is_input=False)},
        scalars={},
        flawed={},
    )
    found = compared(actual, source("b", {"x": torch.ones(1)}))
    assert found["x"].outcome is Equality.UNKNOWN
    assert "x.pt" in found["x"].reason


@pytest.mark.parametrize("how", [EXACT, Comparison(tolerance=Tolerance(rtol=0.1, atol=0.1))])
def test_tensors_of_different_shapes_are_not_read(how: Comparison) -> None:
    def read() -> TensorView:
        raise AssertionError("the elements were read")

    sides = [
        Source(
            path=Path(name),
            tensors={
                "x": Entry(
                    load_layout=lambda shape=shape: view_of(torch.ones(shape)), open=read, is_input=True
                )
            },
            scalars={},
            flawed={},
        )
        for name, shape in (("a", (4,)), ("b", (3,)))
    ]
    assert compared(sides[0], sides[1], how)["x"].reason == "shape (4,) against expected (3,)"
    remarks = check_sources(sides[0], sides[1], how.tolerance)
    assert remarks[0].message.startswith("inputs of different geometry: shape (4,)")


def test_tensors_that_do_not_fit_into_memory_are_told_and_the_others_compared() -> None:
    def broken() -> TensorView:
        raise MemoryError

    actual, expected = (source(name, {"x": torch.ones(2), "y": torch.ones(2)}) for name in "ab")
    entries = {**actual.tensors, "x": replace(actual.tensors["x"], open=broken)}
    found = compared(replace(actual, tensors=entries), expected)
    assert found["x"].outcome is Equality.UNKNOWN
    assert "does not have enough memory" in found["x"].reason
    assert found["y"].outcome is Equality.EQUAL
