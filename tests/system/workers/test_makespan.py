"""How much sooner several hosts are done than one, by dask's own scheduler, in simulated time."""

import pytest

from benchmarks.farm.simulated import makespan

pytest.importorskip("distributed", reason="dask's distributed is not installed")


@pytest.mark.parametrize("culprit", [865, pytest.param(242, marks=pytest.mark.long)])
def test_four_hosts_take_little_more_than_half_of_the_time_of_one(culprit: int) -> None:
    alone, together = (makespan(1024, hosts=hosts, culprit=culprit) for hosts in (1, 4))
    assert alone.builds <= 14
    assert together.seconds <= 0.55 * alone.seconds
