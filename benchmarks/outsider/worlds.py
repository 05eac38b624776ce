"""All worlds, by name, and by the outsider who made them."""

from collections.abc import Callable
from random import Random

from benchmarks.outsider import by_commit, by_shape, by_skip, by_time, plain
from benchmarks.outsider.second.worlds import SECOND
from benchmarks.outsider.world import Shown, World

_FIRST: dict[str, Callable[[Random], World]] = {
    # Chance alone.
    "rates 0, 1": lambda rng: plain.rates(rng, 0.0, 1.0),
    "rates 0, 0.5": lambda rng: plain.rates(rng, 0.0, 0.5),
    "rates 0.05, 0.9": lambda rng: plain.rates(rng, 0.05, 0.9),
    "rates 0, 0.1": lambda rng: plain.rates(rng, 0.0, 0.1),
    "rates 0.2, 0.8": lambda rng: plain.rates(rng, 0.2, 0.8),
    "rates 0.4, 1": lambda rng: plain.rates(rng, 0.4, 1.0),
    "rates 0.01, 1": lambda rng: plain.rates(rng, 0.01, 1.0),
    "rates 0, 1, a tangle of 300": plain.large_tangle,
    "rates 0.1, 0.7, a line of 300": plain.large_line,
    "rates 0.1, 0.8, first or last commit": plain.at_the_edge,
    "rates 0.1, 0.8, 1 to 4 commits": plain.tiny,
    "nothing broke, flaky": lambda rng: plain.nothing_broke(rng, (0.1, 0.3, 0.5, 0.9)),
    "nothing broke, rarely fails": lambda rng: plain.nothing_broke(rng, (0.0, 0.01, 0.03)),
    "nothing broke, storms": by_time.nothing_broke_storms,
    "nothing broke, two boards in turns, one bad": plain.nothing_broke_boards,
    "nothing broke, 3 of 10 commits always fail": plain.nothing_broke_layout,
    # Outcomes and rates of the commit's own.
    "a bad commit always passes": by_commit.hidden_once,
    "a good commit always fails": by_commit.unlucky_once,
    "15 % of bad commits always pass": lambda rng: by_commit.hidden_often(rng, 0.15),
    "half of the bad commits always pass": lambda rng: by_commit.hidden_often(rng, 0.5),
    "5 % of good commits always fail": lambda rng: by_commit.unlucky_often(rng, 0.05),
    "10 % of commits show the opposite": lambda rng: by_commit.flipped_both(rng, 0.1),
    "a rate for each commit": by_commit.own_rates,
    "15 % of good commits flaky": by_commit.flaky_good_ones,
    "bad commits fail always or rarely": by_commit.rare_or_always,
    "good end passes, good commits fail at 0.2": by_commit.lucky_good_end,
    "bad end fails, bad commits at 0.3": by_commit.loud_bad_end,
    "rate grows 0.05 to 1": by_commit.growing,
    "rate falls 1 to 0.3": by_commit.mended_by_and_by,
    "latent, then exposed": by_commit.latent,
    "two culprits in line, 0, 0.3, 1": by_commit.two_steps,
    "three culprits in line": by_commit.three_steps,
    # When, where, and after what.
    "storms over 0, 1": lambda rng: by_time.storms(rng, 0.0, 1.0),
    "storms over 0, 0.6": lambda rng: by_time.storms(rng, 0.0, 0.6),
    "fails when busy, in spells": by_time.busy_hours,
    "rate swings each 24 runs": by_time.daily,
    "all fails from a run on": lambda rng: by_time.moves(rng, Shown.FAIL),
    "all passes from a run on": lambda rng: by_time.moves(rng, Shown.PASS),
    "all fails for 15 runs": lambda rng: by_time.moves(rng, Shown.FAIL, 15),
    "all passes for 15 runs": lambda rng: by_time.moves(rng, Shown.PASS, 15),
    "all are device errors for 15 runs": lambda rng: by_time.moves(rng, Shown.DEVICE, 15),
    "good commits get flaky by time": by_time.drifts,
    "a failure poisons the next run": by_time.poison,
    "stale memory hides after a good run": by_time.stale_memory,
    "fault on one of two boards in turns": by_time.fault_on_one_board,
    "first run of a commit fails": lambda rng: by_time.first_run_shows(rng, Shown.FAIL),
    "first run of a commit passes": lambda rng: by_time.first_run_shows(rng, Shown.PASS),
    "bad slot of 4, 0, 1": lambda rng: by_time.bad_slot(rng, 1.0),
    "bad slot of 4, 0, 0.5": lambda rng: by_time.bad_slot(rng, 0.5),
    "blind slot of 3": by_time.blind_slot,
    # Shapes.
    "regress, fix, regress": lambda rng: by_shape.toggled(rng, 0.0, 1.0, times=1),
    "regress, fix, regress, 0.05, 0.9": lambda rng: by_shape.toggled(rng, 0.05, 0.9, times=1),
    "four regressions, three fixes": lambda rng: by_shape.toggled(rng, 0.0, 1.0, times=3),
    "revert of a revert": by_shape.revert_of_a_revert,
    "picked to two branches": lambda rng: by_shape.picked_twice(rng, 0.0, 1.0),
    "picked to two branches, 0.05, 0.9": lambda rng: by_shape.picked_twice(rng, 0.05, 0.9),
    "two culprits anywhere in a tangle": by_shape.two_anywhere,
    "needs two changes": lambda rng: by_shape.needs_both(rng, 0.0, 1.0),
    "needs two changes, 0.05, 0.9": lambda rng: by_shape.needs_both(rng, 0.05, 0.9),
    "merge of two good branches breaks": lambda rng: by_shape.merge_breaks(rng, 0.0, 1.0),
    "merge of two good branches breaks, 0.1, 0.8": lambda rng: by_shape.merge_breaks(rng, 0.1, 0.8),
    "branch forked before a fix": by_shape.unfixed_branch,
    "merge drops a fix": by_shape.mend_lost_by_merge,
    "broken, mended and broken in a graph": by_shape.mended_elsewhere,
    # Runs that tell nothing.
    "culprit among commits that do not build": by_skip.around_the_culprit,
    "culprit behind commits that do not build": by_skip.before_the_culprit,
    "35 % do not build": by_skip.one_in_three,
    "half the range does not build": by_skip.half_the_range,
    "nothing between the ends builds": by_skip.nothing_builds,
    "30 % of runs are device errors, 0.05, 0.9": lambda rng: by_skip.device_errors(rng, ends=True),
    "the same, never at the ends": lambda rng: by_skip.device_errors(rng, ends=False),
    "bad commits rather crash": lambda rng: by_skip.rather_crashes(rng, ends=True),
    "the same, but the bad end fails": lambda rng: by_skip.rather_crashes(rng, ends=False),
}

OUTSIDERS = {"first": _FIRST, "second": SECOND}
"""Each had not read the search."""
WORLDS = _FIRST | SECOND
