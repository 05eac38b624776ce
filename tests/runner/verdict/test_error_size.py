"""The size of the errors of one run: its largest, by the most telling measure that there is."""

import math

from precision_bisect.runner.verdict.rules import ErrorSize, error_size


def test_size_of_a_run() -> None:
    assert error_size({}) is None
    assert error_size({"y": {"max_diff": math.nan}}) == ErrorSize("max_diff", math.inf)
    assert error_size({"a": {"relative_l2": 1.0, "max_diff": 9.0}, "b": {"relative_l2": 2.0}}) == ErrorSize(
        "relative_l2", 2.0
    )


def test_size_by_one_measure() -> None:
    metrics = {"a": {"relative_l2": 1.0, "max_diff": 9.0}, "b": {"max_diff": 2.0}}
    assert str(error_size(metrics, "max_diff")) == "max diff 9"
    assert error_size(metrics, "beyond_tolerance") is None
    assert error_size({"a": {"not_finite": 0.25}}, "max_diff") == ErrorSize("max_diff", math.inf)
