"""What `check.sh` of a result asks of the failing run: an exit code, and a line in which a pattern is found."""

from __future__ import annotations

import signal
from dataclasses import dataclass

from ....runner.stack.stack import Stack
from ....store.vocabulary import Verdict
from .failure import Broken, Failure, Printed

_OF_TIMEOUT = 124  # of timeout(1)


@dataclass(frozen=True, kw_only=True)
class Expected:
    """`code` as a shell sees it, None if any will do; without patterns, any text will do."""

    code: int | None
    patterns: tuple[str, ...]

    @classmethod
    def of(cls, failure: Failure, stack: Stack) -> Expected:
        """What tells a failure, by the stack's own verdict patterns."""
        if isinstance(failure, Printed):
            return cls(
                code=failure.code, patterns=(failure.pattern.pattern,) if failure.pattern is not None else ()
            )
        verdict = failure.verdict if isinstance(failure, Broken) else Verdict.MISMATCH
        code = _OF_TIMEOUT if verdict is Verdict.TIMEOUT else None
        sent = (
            signal.Signals.__members__.get(failure.signature or "") if isinstance(failure, Broken) else None
        )
        if verdict is Verdict.CRASH and sent is not None:
            code = 128 + sent.value
        rules = [rule.pattern.pattern for rule in stack.verdicts if rule.verdict is verdict]
        return cls(code=code, patterns=tuple(rules) if code is None else ())
