"""How much sooner several hosts are done than one, by dask's own scheduler, in simulated time."""

import pytest

from benchmarks.farm.simulated import makespan

pytest.importorskip("distributed", reason="dask's distributed is not installed")


@pytest.mark.parametrize(
    "culprit", [865, *(pytest.param(each, marks=pytest.mark.long) for each in (138, 244, 638, 979))]
)
def test_four_hosts_take_half_of_the_time_of_one(culprit: int) -> None:
    alone, together = (makespan(1024, hosts=hosts, culprit=culprit) for hosts in (1, 4))
    assert alone.builds <= 14
    assert together.seconds <= 0.5 * alone.seconds
    assert together.runs <= 2 * alone.runs
