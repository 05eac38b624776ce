"""Finished probes as the report gives them, and the commits that they could not judge."""

import math
from collections.abc import Mapping

from ...store.schema import Judgement, Phase, Probe
from .model import EvidenceLine, Metric, ProbeReport, SkippedCommit
from .rows import Rows


def probe_report(probe: Probe, subject: str | None) -> ProbeReport:
    """One finished probe."""
    assert probe.finished is not None
    assert probe.verdict is not None
    assert probe.judgement is not None
    assert probe.build_source is not None
    artifacts = {artifact.kind: artifact.path for artifact in probe.artifacts}
    build_seconds, run_seconds = probe.build_seconds or 0.0, probe.run_seconds or 0.0
    return ProbeReport(
        ordinal=probe.ordinal,
        phase=probe.phase,
        repository=probe.repository,
        commit=probe.commit,
        subject=subject,
        revisions=probe.revisions,
        verdict=probe.verdict,
        judgement=probe.judgement,
        signature=probe.signature,
        metrics=_metrics(probe.metrics or {}),
        seconds=build_seconds + run_seconds,
        build_seconds=build_seconds,
        run_seconds=run_seconds,
        build=probe.build_source,
        build_key=probe.build.key if probe.build else None,
        exit_code=probe.exit_code,
        slot=probe.slot or 0,
        host=probe.host or "",
        attempt=probe.attempt,
        run=probe.run,
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
                reason="it pins no commit of a submodule",
            )
    for probe in rows.probes:
        if probe.content in known or probe.phase is Phase.COUNTERFACTUAL or probe.verdict is None:
            continue
        skipped[probe.repository, probe.commit] = SkippedCommit(
            repository=probe.repository,
            commit=probe.commit,
            subject=rows.subject(probe.repository, probe.commit),
            verdict=probe.verdict,
            reason=_reason(probe),
        )
    return tuple(skipped.values())


def _reason(probe: Probe) -> str:
    if probe.signature:
        return probe.signature
    return probe.evidence[0].text if probe.evidence else "no line of its output says why"


def _metrics(stored: Mapping[str, Mapping[str, float]]) -> dict[str, dict[str, Metric]]:
    return {
        output: {name: _metric(value) for name, value in values.items()} for output, values in stored.items()
    }


def _metric(value: float) -> Metric:
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "Infinity" if value > 0 else "-Infinity"
    return value
