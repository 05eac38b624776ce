"""The builds that an answer rests on, left behind so that `reduce --bisection NAME` needs nothing else."""

import contextlib
from collections.abc import Mapping

from sqlalchemy.orm import Session, sessionmaker

from ...runner.localization.compared import ComparedBuild, ComparedBuilds, leave_compared_builds
from ...runner.workspace.home import Home
from ...store.tables.bisections import ProbeRow
from ..plan.request import BisectRequest
from ..report.model.compared import ComparedPair, ComparedProbe, NothingToCompareError, compared_pair
from ..report.model.rows import Rows, load_rows

_LEAST_TIMEOUT = 60.0
_TIMES_THE_RUN = 10


def leave_builds(sessions: sessionmaker[Session], name: str, home: Home) -> None:
    """Keep where the builds of a bisection are; nothing where there are none to compare."""
    with sessions() as session:
        rows = load_rows(session, name)
    with contextlib.suppress(NothingToCompareError):
        leave_compared_builds(compared_builds(rows, compared_pair(rows)), name, home)


def compared_builds(rows: Rows, pair: ComparedPair) -> ComparedBuilds:
    """Both builds with all that running them again takes."""
    request, culprit = rows.request, pair.culprit.probe
    metrics = culprit.metrics or {}
    return ComparedBuilds(
        stack=request.stack,
        platform=request.platform,
        device=request.device,
        golden=pair.golden,
        timeout=longest_run(request, culprit),
        rtol=closest(metrics, "rtol"),
        atol=closest(metrics, "atol"),
        failing=_build(pair.culprit),
        reference=_build(pair.parent),
    )


def longest_run(request: BisectRequest, probe: ProbeRow) -> float:
    """Seconds after which a further run of what a probe ran is stopped."""
    return request.timeout or max(_LEAST_TIMEOUT, _TIMES_THE_RUN * (probe.run_seconds or 0.0))


def closest(metrics: Mapping[str, Mapping[str, float]], name: str) -> float | None:
    """The smallest tolerance of that name that the harness told of an output; None where it told none."""
    told = (measures[name] for measures in metrics.values() if name in measures)
    return min((value for value in told if value >= 0), default=None)


def _build(compared: ComparedProbe) -> ComparedBuild:
    side = compared.side
    return ComparedBuild(
        role=compared.role,
        repository=side.repository,
        commit=side.commit,
        revisions=side.revisions,
        build=compared.build,
    )
