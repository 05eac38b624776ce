"""Whether the failure that was found is the one of the failing end."""

from collections.abc import Iterable

from .....store.tables.bisections import ProbeRow
from .....store.vocabulary import Judgement, Seeks
from ....engine.failures.exit_codes import with_faces
from ..model import Side
from ..rows import Rows


def other_failure(rows: Rows, bad: Side | None) -> str | None:
    """A note where the answer's bad side and the end that fails have no signature in common: between them one failure
    may have been mended and another begun. None where they have, or where that cannot be told."""
    if rows.conclusion is None or not rows.conclusion.culprits or bad is None:
        return None
    standing = rows.ranges[0]
    end = standing.stage.old if standing.stage.seeks is Seeks.FIX else standing.stage.new
    of_end = _signatures(standing.runs_of(end))
    if rows.conclusion.failures:
        # The search told failures apart: what it names shows one of those that it went for.
        return None
    at_end = with_faces(of_end, [_signatures(runs) for runs in standing.runs.values()])
    found = _signatures(rows.runs_of(bad))
    if not at_end or not found or at_end & found:
        return None
    other = sorted(found)[0]
    skip = (
        "let the command exit with 125 where it fails so"
        if rows.request.bad_when is None
        else f"ask with --bad-when 'signature:{sorted(at_end)[0]}'"
    )
    return (
        f"{bad.commit[:12]} fails otherwise ({other}) than the end {end[:12]} ({sorted(at_end)[0]}): "
        f"if that failure was mended in between, another commit brought the one of the end; to find it, {skip}"
    )


def _signatures(probes: Iterable[ProbeRow]) -> frozenset[str]:
    return frozenset(
        probe.signature for probe in probes if probe.judgement is Judgement.BAD and probe.signature
    )
