"""What a page says of each commit is what the search's posterior says after the same runs."""

from collections.abc import Sequence
from pathlib import Path

import pytest

from precision_bisect.bisect.pages.views import RangeBelief, range_beliefs
from precision_bisect.bisect.report.basis import load_rows
from precision_bisect.bisect.search.belief import Observation, Outcome
from precision_bisect.bisect.search.graph import CommitGraph
from precision_bisect.bisect.search.hypotheses import GOOD_END
from precision_bisect.bisect.search.posterior import Posterior
from precision_bisect.bisect.search.rates import Rates
from precision_bisect.store.vocabulary import Phase, Verdict
from tests.bisect.report.stored_bisection import StoredBisection, described, pinned_revisions, sha

SIZE = 6
PLACE = "machine 0"
OUTCOMES = {Outcome.GOOD: Verdict.PASS, Outcome.BAD: Verdict.MISMATCH, Outcome.SKIP: Verdict.BUILD_ERROR}
ENDS = [(0, Outcome.GOOD), (SIZE, Outcome.BAD)] * 3


def stored(folder: Path, runs: Sequence[tuple[int, Outcome]], *, unpinned: int | None = None) -> RangeBelief:
    """What a page says of `c1` to `c6` after runs of them and of the good end, `c0`."""
    bisection = StoredBisection(folder, good=sha("c0"), bad=sha(f"c{SIZE}"))
    without = sha(f"c{unpinned}")
    stage = bisection.stage(
        [(described(f"c{place}", [f"c{place - 1}"]), sha(f"c{place}")) for place in range(1, SIZE + 1)],
        good=sha("c0"),
        bad=sha(f"c{SIZE}"),
        revisions=lambda commit: None if commit == without else pinned_revisions(commit),
    )
    for place, outcome in runs:
        phase = Phase.ENDPOINT if place in (0, SIZE) else Phase.SEARCH
        bisection.probe(stage, sha(f"c{place}"), OUTCOMES[outcome], phase=phase)
    with bisection.sessions() as session:
        (belief,) = range_beliefs(load_rows(session, bisection.name))
    assert belief is not None
    return belief


def expected(observations: Sequence[Observation]) -> list[float]:
    graph = CommitGraph([[place - 1] if place else [] for place in range(SIZE)])
    belief = Posterior.start(graph, Rates.unknown(), observations=observations).belief
    return [*belief.commits.tolist(), belief.no_culprit, belief.environment]


def seen(runs: Sequence[tuple[int, Outcome]]) -> list[Observation]:
    return [Observation(place - 1 if place else GOOD_END, outcome, PLACE) for place, outcome in runs]


@pytest.mark.parametrize(
    "runs",
    [
        [],
        ENDS,
        [*ENDS, (3, Outcome.GOOD), (5, Outcome.BAD)],
        [*ENDS, (3, Outcome.GOOD), (3, Outcome.BAD), (4, Outcome.SKIP)],
    ],
)
def test_a_page_tells_the_posterior_of_the_search(
    runs: Sequence[tuple[int, Outcome]], tmp_path: Path
) -> None:
    belief = stored(tmp_path, runs)
    assert [commit for commit, _ in belief.commits] == [sha(f"c{place}") for place in range(1, SIZE + 1)]
    told = [*(share for _, share in belief.commits), belief.no_culprit, belief.environment]
    assert told == pytest.approx(expected(seen(runs)), abs=1e-12)


def test_a_commit_that_pins_nothing_cannot_be_tested(tmp_path: Path) -> None:
    runs = [*ENDS, (3, Outcome.GOOD)]
    belief = stored(tmp_path, runs, unpinned=5)
    told = [*(share for _, share in belief.commits), belief.no_culprit, belief.environment]
    assert told == pytest.approx(expected([Observation(4, Outcome.SKIP), *seen(runs)]), abs=1e-12)


FORKED_LINE = {"c1": ["c0"], "d1": ["fork"], "d2": ["d1"], "c2": ["c1"], "m": ["c2", "d2"], "c3": ["m"]}
"""`d1` and `d2` are on a line that was forked at `fork`, before the range, and merged in `m`."""


@pytest.mark.parametrize(("fork", "left"), [(Verdict.MISMATCH, 4), (Verdict.PASS, 6)])
def test_a_line_that_fails_from_before_the_range_is_left_out(
    tmp_path: Path, fork: Verdict, left: int
) -> None:
    bisection = StoredBisection(tmp_path, good=sha("c0"), bad=sha("c3"))
    stage = bisection.stage(
        [(described(name, parents), sha(name)) for name, parents in FORKED_LINE.items()],
        good=sha("c0"),
        bad=sha("c3"),
    )
    for name, verdict in {"c0": Verdict.PASS, "c3": Verdict.MISMATCH}.items():
        for _ in range(5):
            bisection.probe(stage, sha(name), verdict, phase=Phase.ENDPOINT)
    bisection.probe(stage, sha("d1"), Verdict.MISMATCH, phase=Phase.SEARCH)
    for _ in range(2):
        bisection.probe(stage, sha("fork"), fork, phase=Phase.CONFIRM)
    bisection.probe(stage, sha("c2"), Verdict.PASS, phase=Phase.SEARCH)
    with bisection.sessions() as session:
        (belief,) = range_beliefs(load_rows(session, bisection.name))
    assert belief is not None
    shares = dict(belief.commits)
    assert (len(shares), belief.left_out) == (left, 6 - left)
    if fork is Verdict.MISMATCH:
        assert {*shares} == {sha(name) for name in ("c1", "c2", "m", "c3")}
        assert shares[sha("m")] + shares[sha("c3")] == pytest.approx(1, abs=0.1)
    else:
        assert shares[sha("d1")] > 0.8
