"""What earlier runs tell of rates: more of what was seen, and nothing excluded."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from precision_bisect.bisect.search.rates import EarlierRuns, FlakyShare, Rates, RunTally, learn_rates

SHIPPED = Rates.unknown()


def shares() -> st.SearchStrategy[FlakyShare]:
    return st.integers(0, 300).flatmap(
        lambda count: st.integers(0, count).map(lambda flaky: FlakyShare(flaky=flaky, all=count))
    )


def tallies() -> st.SearchStrategy[RunTally]:
    return st.builds(
        RunTally, failures=st.integers(0, 9), passes=st.integers(0, 99), commits=st.integers(1, 999)
    )


@given(
    st.builds(
        EarlierRuns,
        good=st.lists(tallies(), max_size=4).map(tuple),
        faults=shares(),
        other_cases=shares(),
        other_faults=shares(),
    )
)
def test_whatever_was_seen_nothing_is_excluded(earlier: EarlierRuns) -> None:
    learned = learn_rates(SHIPPED, earlier)
    assert abs(learned.weight.sum() - 1) < 1e-9
    assert abs(sum(weight for _, weight in learned.models) - 1) < 1e-9
    assert (learned.weight >= 0.05 * SHIPPED.weight - 1e-15).all()
    for (model, weight), (same, before) in zip(learned.models, SHIPPED.models, strict=True):
        assert model == same
        assert weight >= 0.05 * before


def test_commits_that_always_passed_tell_that_good_ones_never_fail_and_that_outcomes_belong_to_none() -> None:
    learned = learn_rates(SHIPPED, EarlierRuns(good=(RunTally(failures=0, passes=1, commits=400),)))
    assert learned.weight[0].sum() > 0.95
    assert learned.models[1][1] < 0.1 * SHIPPED.models[1][1]


def test_failures_at_good_commits_tell_their_rate() -> None:
    good = (RunTally(failures=0, passes=1, commits=320), RunTally(failures=1, passes=0, commits=80))
    learned = learn_rates(SHIPPED, EarlierRuns(good=good))
    near = np.abs(learned.good - 0.2) < 0.1
    assert learned.weight[near].sum() > 0.8


def test_good_commits_that_always_fail_tell_that_outcomes_belong_to_commits() -> None:
    good = (RunTally(failures=0, passes=5, commits=40), RunTally(failures=5, passes=0, commits=5))
    assert learn_rates(SHIPPED, EarlierRuns(good=good)).models[1][1] > 0.9


def test_faults_of_the_case_and_of_the_stack_tell_how_often_one_fails_in_every_run() -> None:
    def always(earlier: EarlierRuns) -> float:
        return float(learn_rates(SHIPPED, earlier).weight[:, -1].sum())

    shipped = float(SHIPPED.weight[:, -1].sum())
    assert always(EarlierRuns(faults=FlakyShare(flaky=0, all=20))) > shipped + 0.1
    assert always(EarlierRuns(other_faults=FlakyShare(flaky=20, all=20))) < shipped - 0.2
    # The case's own speak last.
    own = EarlierRuns(faults=FlakyShare(all=50), other_faults=FlakyShare(flaky=50, all=50))
    assert always(own) > 0.85


def test_nothing_remembered_leaves_the_rates_as_they_are() -> None:
    learned = learn_rates(SHIPPED, EarlierRuns())
    assert np.allclose(learned.weight, SHIPPED.weight)
    assert np.allclose([weight for _, weight in learned.models], [weight for _, weight in SHIPPED.models])
