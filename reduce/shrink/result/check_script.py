"""`check.sh` of a result: whether the twin passes and the failing build fails, in as many runs as that takes."""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from math import ceil, log
from pathlib import Path

from .reduction import Verified

_MISSED = 0.01
"""The chance that no run of a check shows the failure, though the build has it."""
_Z = 1.2816
"""Of the normal distribution: 90 % lie below."""


def runs_to_show(verified: Verified) -> int:
    """Runs in which a build fails at least once with a chance of 99 %, by those that verified it. A program of which
    it is a part may have failed each time, where this one does not: its fault may need what was dropped.

    The rate is Wilson's lower bound at 90 % (E. B. Wilson, 1927).

    >>> runs_to_show(Verified(runs=4, failures=4, passes=4))
    4
    >>> runs_to_show(Verified(runs=13, failures=5, passes=13))
    18
    """
    share, z2 = verified.failures / verified.runs, _Z * _Z / verified.runs
    half = _Z * ((share * (1 - share) + z2 / 4) / verified.runs) ** 0.5
    rate = (share + z2 / 2 - half) / (1 + z2)
    return max(1, ceil(log(_MISSED) / log(1 - rate)))


def interpreter_lines(python: Path) -> list[str]:
    """Of a shell script that needs an interpreter with the case's stack: it may be a slot's, which is gone by then.
    Each build has its own, so that no one variable names another."""
    return [
        f"python={shlex.quote(str(python))}",
        'command -v "$python" >/dev/null || {',
        '    echo "$0: expected the interpreter $python with the case\'s stack, found none; name another there" >&2',
        "    exit 2",
        "}",
    ]


@dataclass(frozen=True, kw_only=True)
class CheckScript:
    """What a check runs: `python` judges the failing run's log, or the user's `script` the build. `timeout` is seconds
    of a run."""

    python: Path
    timeout: float
    has_twin: bool
    script: Path | None

    def lines(self, *, runs: int) -> list[str]:
        """Of a shell script that exits with 0 where one of up to `runs` runs shows the failure."""
        limit = f"timeout {self.timeout:g}"
        twin = [
            f"{limit} ./passing/run.sh >passing.log 2>&1 || {{ echo 'the twin does not pass: passing.log'; exit 2; }}"
        ]
        once = [
            f"{limit} ./failing/run.sh >failing.log 2>&1; code=$?",
            "[ $code != 0 ] || return 1",
            '"$python" failing/debug/same_failure.py failing.log $code || '
            "{ echo 'another failure: failing.log'; exit 2; }",
        ]
        if self.script is not None:
            once = [f"(cd failing && {shlex.quote(str(self.script))}) >failing.log 2>&1"]
        said = "passed: not reproduced" if self.script is None else "not interesting: failing.log"
        return [
            *interpreter_lines(self.python),
            'cd "$(dirname "$0")" || exit',
            *(twin if self.has_twin and self.script is None else ()),
            "fails() {",
            *(f"    {line}" for line in once),
            "}",
            f"runs={runs}  # as often as it takes to see the failure with a chance of 99 %, by its measured rate",
            "for run in $(seq $runs); do",
            '    fails && { echo "reproduced in run $run of up to $runs"; exit 0; }',
            "done",
            f'echo "{said}, in $runs runs"',
            "exit 1",
        ]
