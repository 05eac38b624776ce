"""Finished runs as the report gives them, and the commits that they could not judge."""

import math
from collections.abc import Mapping, Sequence

from ....runner.verdict.error_size import error_size
from ....runner.workspace.perturbations import perturbation_in
from ....store.tables.bisections import ProbeRow
from ....store.vocabulary import Judgement, Phase, Seeks
from .model import EvidenceLine, Metric, PerturbationReport, ProbeReport, RunError, RunReport, SkippedCommit
from .rows import Rows
from .standing import Standing

_NAMED = "it was named with --skip"


def probe_reports(rows: Rows) -> tuple[ProbeReport, ...]:
    """All finished runs, by the commit (or equal content) that they tested and the reason for it, in order."""
    groups: dict[tuple[Phase, int, str], list[ProbeRow]] = {}
    for probe in rows.probes:
        groups.setdefault((probe.phase, probe.stage_id, probe.content), []).append(probe)
    return tuple(_probe_report(rows, runs) for runs in groups.values())


def _probe_report(rows: Rows, stored: Sequence[ProbeRow]) -> ProbeReport:
    first = stored[0]
    runs = tuple(_run_report(rows, probe) for probe in stored)
    by_weight = (Judgement.BAD, Judgement.GOOD, Judgement.SKIP)
    deciding = min(runs, key=lambda run: by_weight.index(run.judgement))
    return ProbeReport(
        repository=first.repository,
        commit=first.commit,
        subject=rows.subject(first.repository, first.commit),
        phase=first.phase,
        revisions=first.revisions,
        verdict=deciding.verdict,
        judgement=deciding.judgement,
        signature=deciding.signature,
        seconds=sum(run.build_seconds + run.run_seconds for run in runs),
        build=runs[0].build,
        runs=runs,
    )


def _run_report(rows: Rows, probe: ProbeRow) -> RunReport:
    judgement = rows.judgement(probe)
    assert probe.finished is not None
    assert probe.verdict is not None
    assert judgement is not None
    assert probe.build_source is not None
    artifacts = {artifact.kind: artifact.path for artifact in probe.artifacts}
    return RunReport(
        ordinal=probe.ordinal,
        verdict=probe.verdict,
        judgement=judgement,
        signature=probe.signature,
        metrics=_metrics(probe.metrics or {}),
        error=_error(probe),
        build_seconds=probe.build_seconds or 0.0,
        run_seconds=probe.run_seconds or 0.0,
        build=probe.build_source,
        build_key=probe.build.key if probe.build else None,
        exit_code=probe.exit_code,
        slot=probe.slot or 0,
        host=probe.host or "",
        attempt=probe.attempt,
        started=probe.started,
        finished=probe.finished,
        evidence=tuple(
            EvidenceLine(stream=line.stream, line=line.line, text=line.text, why=line.why)
            for line in probe.evidence
        ),
        log=artifacts.get("log"),
        build_directory=artifacts.get("build_directory"),
        command=tuple(probe.command or ()),
    )


def skipped_commits(rows: Rows) -> tuple[SkippedCommit, ...]:
    """The commits that cannot be run, and those whose every run ended in a verdict that is neither good nor bad."""
    known = {probe.content for probe in rows.probes if probe.judgement is not Judgement.SKIP}
    skipped: dict[tuple[str, str], SkippedCommit] = {}
    for standing in rows.ranges:
        repository = standing.stage.repository
        for sha in standing.untestable:
            skipped[repository, sha] = SkippedCommit(
                repository=repository,
                commit=sha,
                subject=rows.subject(repository, sha),
                verdict=None,
                reason=_NAMED if sha in rows.request.skip else "it pins no commit of a submodule",
            )
    for probe in rows.probes:
        if probe.content in known or not probe.phase.is_as_asked or probe.verdict is None:
            continue
        skipped[probe.repository, probe.commit] = SkippedCommit(
            repository=probe.repository,
            commit=probe.commit,
            subject=rows.subject(probe.repository, probe.commit),
            verdict=probe.verdict,
            reason=_reason(probe),
        )
    return tuple(skipped.values())


def _reason(probe: ProbeRow) -> str:
    if probe.signature:
        return probe.signature
    return probe.evidence[0].text if probe.evidence else "no line of its output says why"


def _metrics(stored: Mapping[str, Mapping[str, float]]) -> dict[str, dict[str, Metric]]:
    return {
        output: {name: _metric(value) for name, value in values.items()} for output, values in stored.items()
    }


def _error(probe: ProbeRow) -> RunError | None:
    size = error_size(probe.metrics or {})
    return RunError(measure=size.measure, value=_metric(size.value)) if size else None


def _metric(value: float) -> Metric:
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "Infinity" if value > 0 else "-Infinity"
    return value


def perturbation_reports(rows: Rows) -> tuple[PerturbationReport, ...]:
    """What both ends of a range did under each perturbation, in the order in which they were tried."""
    runs: dict[tuple[int, str], list[ProbeRow]] = {}
    for probe in rows.probes:
        name = perturbation_in(probe.revisions)
        if name is not None:
            runs.setdefault((probe.stage_id, name), []).append(probe)
    ranges = {standing.stage.id: standing for standing in rows.ranges}
    return tuple(_perturbation(rows, ranges[stage], name, probes) for (stage, name), probes in runs.items())


def _perturbation(
    rows: Rows, standing: Standing, name: str, probes: Sequence[ProbeRow]
) -> PerturbationReport:
    stage = standing.stage
    ends = standing.of(stage.old), standing.of(stage.new)
    good, bad = ends if stage.seeks is Seeks.REGRESSION else ends[::-1]

    def judged(end: str) -> list[Judgement | None]:
        of_end = [probe.judgement for probe in probes if standing.of(probe.commit) == end]
        return [judgement for judgement in of_end if judgement is not Judgement.SKIP]

    return PerturbationReport(
        name=name,
        changes=rows.request.stack.perturbations[name].told,
        bad_runs=len(judged(bad)),
        bad_failures=judged(bad).count(Judgement.BAD),
        good_runs=len(judged(good)),
        good_failures=judged(good).count(Judgement.BAD),
        searched=any(standing.of(probe.commit) not in ends for probe in probes),
    )
