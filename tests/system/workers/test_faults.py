"""A farm under faults: nothing is lost, nothing counts twice, and the culprit is named."""

import gzip
import os
import random
import re
import subprocess
from pathlib import Path

import pytest

from precision_bisect.store.tables.bisections import ProbeRow
from precision_bisect.store.vocabulary import ProbeState
from tests.support.interrupts import obey_interrupts
from tests.support.program import PROGRAM
from tests.system.slow_line import SlowLine
from tests.system.workers import namespaces
from tests.system.workers.faults import Fault, FaultyFarm, telling_case, telling_step

pytest.importorskip("distributed", reason="dask's distributed is not installed")

HOSTS = ("a", "b", "c")
SEED = os.environ.get("PRECISION_BISECT_FAULTS", "7")
"""Give another one to draw other faults and moments."""
IMPATIENT = {"DASK_DISTRIBUTED__COMM__TIMEOUTS__TCP": "11s"}
"""So soon a cut link is given up: the least that dask takes. Its own setting is 30 seconds."""


def faults_of(bisection: int) -> list[Fault]:
    """Five of 25 faults, five of each kind."""
    every = [*Fault] * 5
    random.Random(SEED).shuffle(every)
    return every[5 * bisection : 5 * bisection + 5]


def telling_line(folder: Path, chance: random.Random) -> SlowLine:
    """A line of commits whose builds and runs tell what they do."""
    line = SlowLine(folder, commits=64, culprit=chance.randint(1, 63), step=telling_step(folder))
    (folder / "case.sh").write_text(telling_case(folder, culprit=line.culprit))
    return line


def driver_of(farm: namespaces.Farm, line: SlowLine, *words: str) -> "subprocess.Popen[bytes]":
    """Start the driver beside the scheduler."""
    return subprocess.Popen(
        farm.middle.words(*PROGRAM, *words, "--jobs", "3", "--backend", "dask"),
        cwd=line.folder,
        env={**line.variables, **farm.settings, "DASK_SCHEDULER_ADDRESS": farm.address},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        preexec_fn=obey_interrupts,
    )


def run_of(line: SlowLine, probe: ProbeRow) -> str:
    """The run that a probe's log tells of."""
    (folder,) = (line.folder / "home" / "state" / "bisections").glob(f"*/probes/{probe.ordinal:04d}")
    text = gzip.decompress((folder / "run.log.gz").read_bytes()).decode()
    (token,) = re.findall(r"^run (\S+)$", text, re.MULTILINE)
    return token


@pytest.mark.long
@pytest.mark.parametrize("bisection", range(5))
def test_faults_lose_nothing_and_nothing_counts_twice(bisection: int, tmp_path: Path) -> None:
    if (why := namespaces.absent()) is not None:
        pytest.skip(why)
    chance = random.Random(f"{SEED} {bisection}")
    line = telling_line(tmp_path, chance)
    with namespaces.Farm(tmp_path, HOSTS, settings=IMPATIENT) as farm:
        faulty = FaultyFarm(farm, line, chance, faults_of(bisection))
        try:
            faulty.run(lambda *words: driver_of(farm, line, *words))
        finally:
            faulty.close()
    assert faulty.faults == []
    probes = line.check()
    finished = [probe for probe in probes if probe.state is ProbeState.FINISHED]
    ran = {told.token: told for told in faulty.told if told.what == "ran"}
    counted = [run_of(line, probe) for probe in finished]
    assert len({*counted}) == len(counted)
    for token, probe in zip(counted, finished, strict=True):
        assert (ran[token].host, ran[token].number) == (probe.host, line.shas.index(probe.commit))
    # What ran and does not count was stopped, or is noted as started once more.
    again = sum(probe.attempt - 1 for probe in probes) + len(probes) - len(finished)
    print(
        f"{len(ran)} runs, {len(counted)} counted, {again} stopped or made again, drivers ended: {faulty.endings}"
    )
    assert len(ran) - len(counted) <= again
