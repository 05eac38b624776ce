"""Counts and times as people say them, for everything that is printed."""

import math

from .vocabulary import BuildSource

_BUILDS = {
    BuildSource.BUILT: "built in {seconds:.1f} s",
    BuildSource.CACHED: "build from the cache in {seconds:.1f} s",
    BuildSource.PRESENT: "built before",
    BuildSource.NONE: "nothing built",
}
_EXIT_CODE = "exit code "
_OF_COMMANDS = ("mismatch", "unknown")
"""Verdicts of commands that do not pass, whose exit codes say all that is known."""


def plural(count: int, noun: str) -> str:
    """A count with its noun.

    >>> plural(1, "step"), plural(3, "step"), plural(2, "pass")
    ('1 step', '3 steps', '2 passes')
    """
    if count == 1:
        return f"{count} {noun}"
    return f"{count} {noun}{'es' if noun.endswith('s') else 's'}"


def percent(probability: float) -> str:
    """A probability, or a share, as people read it, never rounded up to certainty.

    >>> percent(0.99), percent(0.99996)
    ('99 %', '99.99 %')
    """
    return f"{math.floor(probability * 10_000 + 1e-6) / 100:g} %"


def exit_code(code: int) -> str:
    """How a command ended that judges by its exit code: the signature of its runs."""
    return f"{_EXIT_CODE}{code}"


def build_words(source: BuildSource, seconds: float) -> str:
    """Where the toolchain of a run came from, and how long that took.

    >>> build_words(BuildSource.BUILT, 2)
    'built in 2.0 s'
    """
    return _BUILDS[source].format(seconds=seconds)


def verdict_words(verdict: str, signature: str | None) -> str:
    """A verdict with its signature; of a command that judges by its exit code, that code alone.

    >>> verdict_words("mismatch", "y"), verdict_words("pass", None), verdict_words("mismatch", exit_code(1))
    ('mismatch (y)', 'pass', 'exit code 1')
    >>> verdict_words("build_error", exit_code(2))
    'build_error (exit code 2)'
    """
    if not signature:
        return verdict
    of_command = verdict in _OF_COMMANDS and signature.startswith(_EXIT_CODE)
    return signature if of_command else f"{verdict} ({signature})"


def duration(seconds: float) -> str:
    """Seconds as people say them.

    >>> duration(42), duration(150), duration(7260)
    ('42 s', '2 min 30 s', '2 h 1 min')
    """
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60} s"
    return f"{whole // 3600} h {whole % 3600 // 60} min"
