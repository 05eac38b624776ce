"""What it means where the merge base, run in place of an end on another branch, does not do as that end does."""

from collections.abc import Iterable

from ...runner.errors import EndsError
from ...store.tables.bisections import ProbeRow
from ...store.vocabulary import Judgement, Seeks
from ..plan.request import BisectRequest


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
