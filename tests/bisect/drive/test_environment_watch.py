"""What is said of a host whose surroundings are not what they were."""

import time

from precision_bisect.bisect.drive.driven import EnvironmentWatch


def test_a_clock_that_is_off_is_told_as_a_clock_once_for_each_host() -> None:
    watch = EnvironmentWatch()
    assert watch.wrong_clock("lab", time.time()) is None
    told = watch.wrong_clock("lab", time.time() + 37 * 3600 + 30)
    assert told == "the clock of lab is 37 h 0 min ahead of this machine's: set it, for tools may mind"
    assert watch.wrong_clock("lab", time.time() + 37 * 3600) is None
    assert "is 2 h 0 min behind" in str(watch.wrong_clock("other", time.time() - 7210))
