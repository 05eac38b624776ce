"""Searches, nights and queues that meet kills, full disks, clock jumps, lost locks and power cuts at drawn moments.

    python -m benchmarks.outages [--seed 0] [--jobs 12] [--kills 100] [--others 20] [--cuts 36]

Each job meets its share, in new jobs of its kind where it is over before. `--others` is how many full disks, clock
jumps and lost locks there are each. A job whose power is cut has it cut once more behind its answer. One that does not
come to the right answer, or that loses a run or counts one twice, ends this with an error.
"""

from __future__ import annotations

import argparse
import os
import random
import tempfile
import time
from pathlib import Path

from tests.conftest import IDENTITY
from tests.system.outages.jobs import KINDS
from tests.system.outages.outages import Outage, meet_all
from tests.system.outages.power import Loss, meet_cuts


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--jobs", type=int, default=12)
    parser.add_argument("--kills", type=int, default=100)
    parser.add_argument("--others", type=int, default=20)
    parser.add_argument("--cuts", type=int, default=36)
    asked = parser.parse_args()
    os.environ |= IDENTITY
    chance = random.Random(asked.seed)
    outages = [Outage.KILL] * asked.kills
    outages += [each for each in Outage if each is not Outage.KILL for _ in range(asked.others)]
    chance.shuffle(outages)
    losses = [loss for loss in Loss for _ in range(asked.cuts // len(Loss))]
    chance.shuffle(losses)
    for job in range(asked.jobs):
        kind, share, begun = KINDS[job % len(KINDS)], slice(job, None, asked.jobs), time.monotonic()
        with tempfile.TemporaryDirectory() as folder:
            places = [Path(folder, name) for name in ("outages", "cuts")]
            for place in places:
                place.mkdir()
            jobs = meet_all(kind, outages[share], places[0], random.Random(f"{asked.seed} {job}"))
            ends = meet_cuts(kind, losses[share], places[1], random.Random(f"{asked.seed} {job} power"))
        told = ", ".join(f"{each.name.lower()} {outages[share].count(each)}" for each in Outage)
        cuts = f"cuts {len(losses[share])} and {ends} behind an answer"
        seconds = time.monotonic() - begun
        print(f"{kind.__name__:6} x{jobs + ends}: {told}, {cuts}: right, {seconds:.0f} s", flush=True)
    print(f"{len(outages)} outages and {len(losses)} power cuts: all right, nothing lost, nothing twice")


if __name__ == "__main__":
    main()
