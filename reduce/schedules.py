"""Under which schedules of the runtime the outputs go wrong: a failure that comes and goes with the order is a race."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from ..runner.build_output.golden_data import TensorFolder
from ..runner.tensors.statistics import Tolerance
from .comparison import differs
from .replay import ReplayError
from .side import Side

AS_IT_IS = "as it is"
_REPEATS = 3


@dataclass(frozen=True, kw_only=True)
class Trial:
    """Runs of the failing build under one schedule on the same data. `failed` ones put out something else than the
    reference; those that did not get to their end are `stopped`."""

    schedule: str
    variables: Mapping[str, str]
    runs: int
    failed: int
    stopped: int


def try_schedules(
    failing: Side, reference: Side, tolerance: Tolerance, *, on_progress: Callable[[str], None]
) -> tuple[Trial, ...]:
    """Run the failing build under each schedule of the stack file, and repeatedly as it is.

    Empty where the harness does not tell what a run put out.
    """
    if failing.outputs is None or reference.outputs is None:
        return ()
    failing.restore()
    knobs: dict[str, Mapping[str, str]] = {AS_IT_IS: {}}
    knobs |= {name: one.variables for name, one in failing.replayer.toolchain.stack.schedules.items()}
    return tuple(
        _trial(failing, reference.outputs, name, variables, tolerance, on_progress)
        for name, variables in knobs.items()
    )


def is_confirmed(trials: tuple[Trial, ...]) -> bool:
    """Whether the failure depends on the schedule alone: some runs to the end fail and others pass."""
    ended = [trial for trial in trials if trial.runs > trial.stopped]
    return any(trial.failed for trial in ended) and any(
        trial.failed + trial.stopped < trial.runs for trial in ended
    )


def _trial(
    failing: Side,
    expected: TensorFolder,
    name: str,
    variables: Mapping[str, str],
    tolerance: Tolerance,
    on_progress: Callable[[str], None],
) -> Trial:
    runs = _REPEATS if name == AS_IT_IS else 1
    on_progress(f"running the failing build {name if name == AS_IT_IS else f'under schedule {name}'}")
    outcomes = list(_outcomes(failing, expected, variables, tolerance, runs))
    return Trial(
        schedule=name,
        variables=variables,
        runs=runs,
        failed=outcomes.count(True),
        stopped=outcomes.count(None),
    )


def _outcomes(
    failing: Side, expected: TensorFolder, variables: Mapping[str, str], tolerance: Tolerance, runs: int
) -> Iterator[bool | None]:
    for _ in range(runs):
        try:
            outputs = failing.run(schedule=variables).outputs
        except ReplayError:
            outputs = None
        yield (
            None
            if outputs is None
            else any(
                name not in outputs.names or differs(outputs.tensor(name), expected.tensor(name), tolerance)
                for name in expected.names
            )
        )
