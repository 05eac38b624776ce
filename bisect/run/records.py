"""A probe as the store keeps it, and as the engine knows it."""

from collections.abc import Iterable
from pathlib import Path

from ...runner.probe.records import ProbeResult, place_of
from ...runner.verdict.compiler_errors import compiler_errors
from ...runner.workspace.environment import fingerprint
from ...store.journals.probes import ProbeOutcome
from ...store.tables.bisections import ProbeRow
from ...store.vocabulary import BuildSource, Judgement, Phase, Verdict
from ..commits.recompiled import SlotBuild
from ..engine.probes import FinishedProbe, ProbeTimes, slot_build


def finished_probe(stored: ProbeRow, *, kernels: tuple[str, ...] = ()) -> FinishedProbe:
    """A finished probe of the store. `kernels` are the names of those that its build holds, where they matter."""
    assert stored.verdict is not None
    judgement = stored.judgement or Judgement.SKIP
    blames_commit = judgement is Judgement.SKIP and stored.verdict is not Verdict.ENVIRONMENT_ERROR
    return FinishedProbe(
        number=stored.ordinal,
        content=stored.content,
        phase=stored.phase,
        judgement=judgement,
        verdict=stored.verdict,
        signature=stored.signature,
        evidence=_most_telling(stored),
        metrics=stored.metrics or {},
        place=place_of_row(stored),
        kernels=kernels,
        errors=compiler_errors(line.text for line in stored.evidence) if blames_commit else (),
        times=_times(stored),
    )


def place_of_row(stored: ProbeRow) -> str | None:
    """Where a stored probe was made; None where that is not known."""
    return None if stored.slot is None else place_of(stored.host, stored.slot)


def _times(stored: ProbeRow) -> ProbeTimes:
    return ProbeTimes(
        build_source=stored.build_source or BuildSource.NONE,
        build_seconds=stored.build_seconds or 0.0,
        run_seconds=stored.run_seconds or 0.0,
    )


def build_in_slot(stored: ProbeRow) -> SlotBuild | None:
    """What a finished probe of the store left in its slot; None where it was not built."""
    return slot_build(stored.content, place_of_row(stored), _times(stored))


def _most_telling(stored: ProbeRow) -> tuple[str, ...]:
    first = stored.evidence[:1]
    if first and first[0].stream == "ending" and len(stored.evidence) > 1:
        # How it ended tells little; what it printed last may.
        first = [first[0], stored.evidence[-1]]
    return tuple(line.text for line in first)


def kernels_in(directory: Path) -> tuple[str, ...]:
    """The names of the kernels of the build that a probe left in its directory."""
    return tuple(path.stem for path in sorted(directory.glob("build/kernels/*/*.cpp")))


def in_order_of_ends(stored: Iterable[ProbeRow]) -> list[ProbeRow]:
    """Finished probes in the order in which they ended, which with several workers is not that of their starts."""
    return sorted(stored, key=lambda probe: probe.finished or probe.started)


def still_counts(stored: ProbeRow) -> bool:
    """Whether a probe of an earlier start counts: once a bisection is resumed, what the environment prevented is run
    again, and so is an end that could not be judged, for without it there is nothing to go on with."""
    is_end_without_answer = stored.phase is Phase.ENDPOINT and stored.judgement is Judgement.SKIP
    return stored.verdict is not Verdict.ENVIRONMENT_ERROR and not is_end_without_answer


def stored_result(result: ProbeResult, *, golden_data: Path | None) -> ProbeOutcome:
    """What came of a probe, for the store, with the folder of the frozen data that it ran on."""
    classification, ending = result.classification, result.ending
    artifacts = {"log": result.log, "build_directory": result.build_directory, "golden_data": golden_data}
    return ProbeOutcome(
        verdict=classification.verdict,
        judgement=result.judgement,
        signature=classification.signature,
        metrics=classification.metrics,
        exit_code=ending.exit_code if ending.signal is None else -ending.signal,
        evidence=classification.evidence,
        build_key=result.toolchain.key if result.toolchain else None,
        build_source=result.build_source,
        build_seconds=result.build_seconds,
        build_steps=result.toolchain.step_seconds if result.toolchain else {},
        run_seconds=result.run_seconds,
        fingerprint=fingerprint(result.surroundings),
        environment=result.surroundings,
        slot=result.slot,
        host=result.host,
        command=result.command,
        artifacts={kind: (str(path), _bytes(path)) for kind, path in artifacts.items() if path is not None},
    )


def _bytes(path: Path) -> int:
    if path.is_file():
        return path.stat().st_size
    return sum(file.stat().st_size for file in path.rglob("*") if file.is_file())
