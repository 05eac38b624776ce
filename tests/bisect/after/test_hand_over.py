"""What a bisection tells the localization at its end."""

from precision_bisect.bisect.after.hand_over import closest


def test_the_smallest_tolerance_that_was_told_counts() -> None:
    metrics = {"y": {"rtol": 1e-3, "max_diff": 1.0}, "z": {"rtol": 1e-4}, "w": {"rtol": -1.0}}
    assert closest(metrics, "rtol") == 1e-4
    assert closest(metrics, "atol") is None
    assert closest({}, "rtol") is None
