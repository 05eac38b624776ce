"""The ends that the options name, alone or with those of a `git bisect log`."""

from dataclasses import dataclass

from ....runner.errors import UsageError
from ...plan.ends.replay import BisectLog
from .bisect_options import BisectOptions


@dataclass(frozen=True, kw_only=True)
class NamedEnds:
    """Ends as they are named, not looked up yet (see `Question`)."""

    good: tuple[str, ...]
    bad: str
    also_old: tuple[str, ...] = ()


def named_ends(options: BisectOptions, log: BisectLog | None) -> NamedEnds:
    """The ends to ask about: those of the options, before those of the log.

    Raises `UsageError` where one is missing, or they contradict each other.
    """
    olds, news = (tuple(log.olds), log.news[-1:]) if log else ((), [])
    if options.bad == "":
        raise UsageError("--bad: expected a commit, found an empty word")
    good, bad, also_old = options.good, options.bad, tuple[str, ...]()
    if options.find_fix:
        good = good or tuple(news)
        bad = bad or next(reversed(olds), None)
        also_old = tuple(sha for sha in olds if sha != bad)
    else:
        good, bad = (*good, *olds), bad or next(iter(news), None)
    if bad is None:
        raise UsageError("expected a bad end, found no --bad: name a commit where the case fails")
    if not good and options.find_fix:
        raise UsageError(
            "--find-fix: expected both ends, found no --good: name a later commit where the case passes"
        )
    if len(good) > 1 and options.find_fix:
        raise UsageError(
            f"--find-fix: expected one --good, found {', '.join(good)}: name the first known to pass again"
        )
    if good and options.gallop is not None:
        raise UsageError(
            f"--gallop {options.gallop}: expected no --good, which it looks for; found --good {good[0]}"
        )
    return NamedEnds(good=good, bad=bad, also_old=also_old)
