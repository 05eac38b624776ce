"""Whatever happens to a job, the power cut included, it comes to the right answer, and no run is lost or counted twice.

`python -m benchmarks.outages` meets more of the same.
"""

import random
from pathlib import Path

import pytest

from tests.system.outages.jobs import KINDS, Job
from tests.system.outages.outages import Outage, meet_all
from tests.system.outages.power import Loss, meet_cuts

pytestmark = pytest.mark.long


@pytest.mark.parametrize("kind", KINDS)
def test_outages_lose_nothing_and_nothing_counts_twice(kind: type[Job], tmp_path: Path) -> None:
    chance = random.Random(kind.__name__)
    outages = [Outage.KILL, *Outage]
    chance.shuffle(outages)
    meet_all(kind, outages, tmp_path, chance)


@pytest.mark.parametrize("kind", KINDS)
def test_power_cuts_take_nothing_that_was_said_to_be_kept(kind: type[Job], tmp_path: Path) -> None:
    meet_cuts(kind, Loss, tmp_path, random.Random(kind.__name__))
