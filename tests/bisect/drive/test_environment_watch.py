"""What is said of a host whose surroundings are not what they were."""

import time

from precision_bisect.bisect.drive.driven import EnvironmentWatch


def test_a_clock_that_is_off_is_told_as_a_clock_once_for_each_host() -> None:
    watch = EnvironmentWatch()
    assert watch.wrong_clock("lab", time.time()) is None
    told = watch.wrong_clock("lab", time.time() + 37 * 3600 + 30)
    assert told == (
        "the clock of lab is 37 h 0 min ahead of this machine's: set it, because builds compare the times of files"
    )
    assert watch.wrong_clock("lab", time.time() + 37 * 3600) is None
    assert "is 2 h 0 min behind" in str(watch.wrong_clock("other", time.time() - 7210))


def test_the_last_environment_of_earlier_starts_is_the_one_to_compare_with() -> None:
    earlier = [("lab", {"kernel": "1"}), ("other", {"kernel": "9"}), ("lab", {"kernel": "2"})]
    assert EnvironmentWatch(earlier).changes("lab", {"kernel": "2"}) == []
    (change,) = EnvironmentWatch(earlier).changes("lab", {"kernel": "1"})
    assert change.startswith("the environment moved within the bisection: kernel")
