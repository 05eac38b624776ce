"""The second set of worlds by their names, which sort by what they are about."""

from collections.abc import Callable
from random import Random

from benchmarks.outsider.second import builds, graphs, machines, margins, rates
from benchmarks.outsider.world import World

SECOND: dict[str, Callable[[Random], World]] = {
    "builds: bad builds kept in a cache": builds.bad_builds_kept,
    "builds: culprit breaks the build": builds.culprit_breaks_the_build,
    "builds: culprit mends the build": builds.culprit_mends_the_build,
    "builds: dependency without a pin": builds.dependency_without_a_pin,
    "builds: each build is a draw": builds.each_build_is_a_draw,
    "builds: fault at odd addresses": builds.odd_addresses,
    "builds: fault crashed at first": builds.crashed_at_first,
    "builds: header without dependency": builds.header_without_dependency,
    "builds: object of the commit before": builds.stale_object,
    "builds: only a train's last commit": builds.merge_trains,
    "builds: option goes on and off": builds.option_on_and_off,
    "control: always fails": rates.always,
    "control: plain flake": rates.plain_flake,
    "control: same flake everywhere": rates.flaky_for_ever,
    "history: branch from before a fix": graphs.branch_from_before_the_fix,
    "history: branch with its own flake": graphs.branch_with_its_own_flake,
    "history: faults that cancel": graphs.faults_that_cancel,
    "history: merge loses a fix": graphs.merge_loses_a_fix,
    "history: octopus merges": graphs.octopuses,
    "history: one to three commits": graphs.tiny,
    "history: thousands of commits": graphs.thousands,
    "machine: board dies at the start": machines.board_dies_at_the_start,
    "machine: boards in turn": machines.boards_in_turn,
    "machine: deaf and shaky boards": machines.deaf_and_shaky_boards,
    "machine: each third run": machines.each_third_run,
    "machine: failures in pairs": machines.failures_in_pairs,
    "machine: inputs in turn": machines.inputs_in_turn,
    "machine: maintenance": machines.maintenance,
    "machine: memory of the last run": machines.memory_of_the_last_run,
    "machine: mended by firmware": machines.mended_by_firmware,
    "machine: passes when new": machines.passes_when_new,
    "machine: tame when repeated": machines.tame_when_repeated,
    "machine: warm and cold hours": machines.warm_and_cold_hours,
    "margin: creeps over the tolerance": margins.creeping,
    "margin: on the edge": margins.on_the_edge,
    "margin: step on a walk": margins.step_on_a_walk,
    "margin: tolerance tightened": margins.tightened,
    "rates: flakier": rates.flakier,
    "rates: half mended at once": rates.half_mended,
    "rates: louder case": rates.louder_case,
    "rates: lucky good end": rates.lucky_good_end,
    "rates: old flake mended before": rates.old_flake_mended,
    "rates: retries land later": rates.retries_land_later,
    "rates: wandering": rates.wandering_rates,
}
