"""A farm under faults: nothing is lost, nothing counts twice, and the culprit is named."""

import gzip
import os
import random
import re
from pathlib import Path

import pytest

from precision_bisect.store.tables import ProbeRow
from precision_bisect.store.vocabulary import ProbeState
from tests.system.slow_line import SlowLine
from tests.system.workers import namespaces
from tests.system.workers.faults import Fault, FaultyFarm, telling_case, telling_step
from tests.system.workers.ray_hosts import RayFarm

HOSTS = ("a", "b", "c")
SEED = os.environ.get("PRECISION_BISECT_FAULTS")
"""Draw other faults and moments, and on ray all of them: a node of it takes seconds to start."""
BISECTIONS = range(5)
"""Five faults in each."""
ON_RAY = BISECTIONS if SEED else [2]
SOON = {
    # So soon dask gives up a cut link: the least that it takes. Its own setting is 30 seconds.
    "DASK_DISTRIBUTED__COMM__TIMEOUTS__TCP": "11s",
    # Ray gives up a node that is silent for a minute.
    "RAY_health_check_period_ms": "1000",
    "RAY_health_check_timeout_ms": "3000",
    # A node ends where its head has been gone for a minute.
    "RAY_gcs_rpc_server_reconnect_timeout_s": "15",
}
KINDS = [
    *(pytest.param("distributed", namespaces.Farm, number, id=f"dask-{number}") for number in BISECTIONS),
    *(
        pytest.param("ray", RayFarm, number, id=f"ray-{number}", marks=pytest.mark.xdist_group("ray"))
        for number in ON_RAY
    ),
]


def faults_of(bisection: int) -> list[Fault]:
    """Those of a bisection, of 25 of which five are of each kind."""
    every = [*Fault] * 5
    random.Random(SEED or "7").shuffle(every)
    return every[5 * bisection : 5 * bisection + 5]


def telling_line(folder: Path, chance: random.Random) -> SlowLine:
    """A line of commits whose builds and runs tell what they do."""
    line = SlowLine(folder, commits=64, culprit=chance.randint(1, 63), step=telling_step(folder))
    (folder / "case.sh").write_text(telling_case(folder, culprit=line.culprit))
    return line


def run_of(line: SlowLine, probe: ProbeRow) -> str:
    """The run that a probe's log tells of."""
    (folder,) = (line.folder / "home" / "state" / "bisections").glob(f"*/probes/{probe.ordinal:04d}")
    text = gzip.decompress((folder / "run.log.gz").read_bytes()).decode()
    (token,) = re.findall(r"^run (\S+)$", text, re.MULTILINE)
    return token


@pytest.mark.long
@pytest.mark.parametrize(("package", "kind", "bisection"), KINDS)
def test_faults_lose_nothing_and_nothing_counts_twice(
    package: str, kind: type[namespaces.Farm], bisection: int, tmp_path: Path
) -> None:
    if (why := namespaces.absent(package)) is not None:
        pytest.skip(why)
    chance = random.Random(f"{SEED or 7} {bisection}")
    line = telling_line(tmp_path, chance)
    with kind(tmp_path, HOSTS, settings=SOON) as farm:
        faulty = FaultyFarm(farm, line, chance, faults_of(bisection))
        try:
            faulty.run()
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
