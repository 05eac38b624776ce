"""A range as a picture, `good ....x..?...o.. bad`, and what is known of its ends, from the engine's own state."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

from ....store.vocabulary import Judgement, Seeks
from ...engine.evidence import failing_end, passing_end
from ...engine.known import Known
from ...engine.range_search import RangeSearch

NOT_RUN, PASSED, FAILED, SKIPPED, RUNNING = ".", "o", "x", "?", "*"
LEGEND = "o passes  x fails  ? skipped  * running  . not run"
_TELLING = (RUNNING, FAILED, PASSED, SKIPPED, NOT_RUN)
"""Of several commits that share a place, the first of these is shown."""


@dataclass(frozen=True, kw_only=True)
class RangePicture:
    """Candidates from the old end to the new one, a mark each; `ends` are the words for the two ends."""

    ends: tuple[str, str]
    marks: str

    @classmethod
    def of(cls, search: RangeSearch, known: Known) -> "RangePicture":
        """What the probes show so far, those included that are running."""
        running = {probe.wanted.target.content for probe in known.log.running}
        marks = "".join(_marks(search.loaded.candidate_contents, known, running))
        regression = search.loaded.range.seeks is Seeks.REGRESSION
        return cls(ends=("good", "bad") if regression else ("bad", "good"), marks=marks)

    def line(self, width: int) -> str:
        """The picture in one line of at most `width` columns: where they are too few, neighbours share a place.

        >>> RangePicture(ends=("good", "bad"), marks="..x.o.").line(60)
        'good ..x.o. bad'
        >>> RangePicture(ends=("good", "bad"), marks="..x.o.").line(12)
        'good .xo bad'
        """
        old, new = self.ends
        places = max(1, min(len(self.marks), width - len(old) - len(new) - 2))
        bounds = [place * len(self.marks) // places for place in range(places + 1)]
        shared = (self.marks[start:end] for start, end in pairwise(bounds))
        drawn = "".join(next(mark for mark in _TELLING if mark in group) for group in shared if group)
        return f"{old} {drawn} {new}"


def describe_ends(search: RangeSearch, known: Known) -> str:
    """How often each end was seen so far: there is no number of runs that they need."""
    seen = (
        f"{word} seen {len(known.log.of(end.content))}"
        for word, end in (("good", passing_end(search.loaded)), ("bad", failing_end(search.loaded)))
    )
    return f"ends: {', '.join(seen)}"


def _marks(contents: Sequence[str | None], known: Known, running: set[str]) -> Iterator[str]:
    for content in contents:
        tally = known.log.tally(content or "")
        if content in running:
            yield RUNNING
        elif tally[Judgement.BAD]:
            yield FAILED
        elif tally[Judgement.GOOD]:
            yield PASSED
        else:
            yield SKIPPED if content is None or tally[Judgement.SKIP] else NOT_RUN
