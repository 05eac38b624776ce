"""Probes and results as a view is told of them."""

from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path

from precision_bisect.bisect.drive.progress import StartedProbe
from precision_bisect.runner.probe.builder import BuiltToolchain
from precision_bisect.runner.probe.probe import ProbeResult
from precision_bisect.runner.verdict.classify import Classification
from precision_bisect.runner.verdict.rules import Ending
from precision_bisect.store.vocabulary import BuildSource, Judgement, Phase, Verdict

COMMIT = "0123456789abcdef"
SUBJECT = "One rounding mode for all casts of the compiler and its runtime"


def started(ordinal: int, *, phase: Phase = Phase.SEARCH, again: str | None = None) -> StartedProbe:
    return StartedProbe(
        ordinal=ordinal,
        phase=phase,
        repository="tool",
        commit=COMMIT,
        subject=SUBJECT,
        date=datetime(2026, 3, 31, tzinfo=UTC),
        rerun_reason=again,
    )


def result(
    *,
    judgement: Judgement = Judgement.BAD,
    verdict: Verdict = Verdict.MISMATCH,
    signature: str | None = "out: 3/512 differ",
    metrics: Mapping[str, Mapping[str, float]] | None = None,
    source: BuildSource = BuildSource.BUILT,
) -> ProbeResult:
    toolchain = BuiltToolchain(key="0" * 64, source=source, seconds=2.0, step_seconds={})
    return ProbeResult(
        classification=Classification(
            verdict=verdict, signature=signature, evidence=(), metrics=metrics or {}
        ),
        judgement=judgement,
        ending=Ending(exit_code=1),
        command=(),
        missing_options=(),
        toolchain=None if source is BuildSource.NONE else toolchain,
        build_seconds=2.0,
        run_seconds=0.5,
        surroundings={},
        slot=0,
        host="machine",
        log=Path("run.log.gz"),
        build_directory=None,
    )
