"""What it means where the merge base, run in place of an end on another branch, does not do as that end does, or cannot
be judged."""

from collections.abc import Iterable

from ...runner.errors import EndsError, UndecidedError
from ...store.tables.bisections import ProbeRow
from ...store.vocabulary import Judgement, Seeks, Verdict
from ...store.words import verdict_words
from ..plan.request import BisectRequest


def untold_by_merge_base(request: BisectRequest, probes: Iterable[ProbeRow]) -> UndecidedError | None:
    """That the merge base cannot be judged, so that nobody knows on which side the change lies; None where it can."""
    base = request.range.old
    judged = [probe for probe in probes if probe.commit == base]
    if not request.parted or not judged or judged[-1].judgement is not Judgement.SKIP:
        return None
    other, found = request.parted[0], judged[-1]
    old, new = ("good", "bad") if request.seeks is Seeks.REGRESSION else ("bad", "good")
    shown = verdict_words(found.verdict or Verdict.UNKNOWN, found.signature)
    return UndecidedError(
        f"the merge base {base[:12]} of {old} {other[:12]} and {new} {request.range.new[:12]} cannot be judged "
        f"({shown}): on which side the change lies is unknown; mend that and resume, or name a commit between "
        f"{base[:12]} and {request.range.new[:12]} as --{old}"
    )


def merge_base_finding(request: BisectRequest, probes: Iterable[ProbeRow]) -> EndsError | None:
    """That the branches differ by a change on the other side; None where the merge base does not show that."""
    regression = request.seeks is Seeks.REGRESSION
    base = request.range.old
    unlike = Judgement.BAD if regression else Judgement.GOOD
    if not request.parted or not any(probe.commit == base and probe.judgement is unlike for probe in probes):
        return None
    other = request.parted[0]
    old, new, does, what = (
        ("good", "bad", "fails", "fixed") if regression else ("bad", "good", "passes", "introduced")
    )
    ends = f"--find-fix --bad {base} --good {other}" if regression else f"--good {base} --bad {other}"
    return EndsError(
        f"the merge base {base[:12]} of {old} {other[:12]} and {new} {request.range.new[:12]} {does} too: it was "
        f"{what} on the side of {other[:12]}; to find by which commit, ask with {ends}"
    )
