"""The report says what the rows say, for every way a bisection can end."""

from dataclasses import replace

from precision_bisect.bisect.report.model import Report
from precision_bisect.bisect.report.report_builder import make_report
from precision_bisect.store.vocabulary import Judgement, Phase, Verdict
from tests.bisect.report.stored_bisection import ENVIRONMENT, StoredBisection, described, sha


def test_culprit(culprit: StoredBisection) -> None:
    report = culprit.report()
    found = report.culprits[0]
    assert (report.outcome, found.commit, found.parent) == ("culprit", sha("c5"), sha("c4"))
    assert (found.author, found.subject, found.files) == ("Ada Example", "Subject of c5", ("src/c5.py",))
    assert found.confidence == 0.9993
    assert [(each.commit, each.reason) for each in report.skipped] == [
        (sha("c3"), "runtime: no rule to make target")
    ]
    assert [(each.commit, each.same_as) for each in report.collapsed] == [(sha("c2"), sha("c1"))]
    assert [(each.commits, each.candidates) for each in report.ranges] == [(6, 5)]
    assert [(rate.end, rate.failures, rate.runs) for rate in report.rates] == [("good", 0, 3), ("bad", 3, 3)]
    assert [pin.value_good for pin in report.pins] == ["v0.57"]


def test_runs_carry_all_that_was_noted(culprit: StoredBisection) -> None:
    probe = next(probe for probe in culprit.report().probes if probe.verdict is Verdict.MISMATCH)
    assert (probe.phase, probe.commit, probe.subject) == (Phase.ENDPOINT, sha("c6"), "Subject of c6")
    assert probe.revisions["runtime"] == sha("pinned")
    run = probe.runs[0]
    assert (run.ordinal, run.build_seconds, run.run_seconds) == (2, 2.0, 0.5)
    assert (run.build, run.build_key, run.attempt) == ("built", "0" * 64, 1)
    assert run.evidence[0].text == "[RUN] mismatch"
    assert run.log == "/home/probes/2/run.log.gz"
    assert run.build_directory == "/home/probes/2/build"


def test_a_probe_is_one_commit_for_one_reason_in_all_its_runs(culprit: StoredBisection) -> None:
    probes = culprit.report().probes
    keys = [(probe.phase, probe.commit) for probe in probes]
    assert len(set(keys)) == len(keys)
    ends = [probe for probe in probes if probe.phase is Phase.ENDPOINT]
    assert [len(probe.runs) for probe in ends] == [3, 3]
    assert ends[1].seconds == sum(run.build_seconds + run.run_seconds for run in ends[1].runs)
    assert sorted(run.ordinal for probe in probes for run in probe.runs) == list(range(1, 14))


def test_the_first_run_that_failed_decides_a_probe(culprit: StoredBisection) -> None:
    for verdict in (Verdict.CRASH, Verdict.PASS, Verdict.MISMATCH, Verdict.PASS):
        culprit.probe(1, sha("c1"), verdict, phase=Phase.COUNTERFACTUAL)
    probe = culprit.report().probes[-1]
    assert [run.verdict for run in probe.runs] == ["crash", "pass", "mismatch", "pass"]
    assert (probe.verdict, probe.judgement) == (Verdict.MISMATCH, Judgement.BAD)


def test_sides_of_a_culprit_are_its_own_runs_and_its_parent_s(culprit: StoredBisection) -> None:
    sides = culprit.report().reproduce
    assert sides.bad is not None
    assert sides.good is not None
    assert (sides.bad.commit, sides.bad.failures, len(sides.bad.runs)) == (sha("c5"), 3, 3)
    assert (sides.good.commit, sides.good.failures, len(sides.good.runs)) == (sha("c4"), 0, 3)


def test_sides_of_a_submodule_culprit_hold_the_superproject(submodule_culprit: StoredBisection) -> None:
    report = submodule_culprit.report()
    assert report.through is not None
    assert (report.culprits[0].repository, report.through.commit) == ("runtime", sha("c5"))
    sides = report.reproduce
    assert sides.bad is not None
    assert sides.good is not None
    assert (sides.bad.revisions["runtime"], sides.bad.revisions["compiler"]) == (sha("r2"), sha("c5"))
    assert (sides.good.revisions["runtime"], sides.good.revisions["compiler"]) == (sha("r1"), sha("c5"))
    assert [(each.repository, each.held) for each in report.ranges] == [
        ("compiler", {}),
        ("runtime", {"compiler": sha("c5")}),
    ]


def test_an_earlier_failure_is_named_in_the_repository_of_its_range(
    submodule_culprit: StoredBisection,
) -> None:
    rows = submodule_culprit.rows()
    assert rows.conclusion is not None
    both = rows.conclusion.model_copy(update={"earlier_failures": (sha("r1"), sha("c5"))})
    report = make_report(replace(rows, conclusion=both))
    assert [(each.repository, each.commit, each.subject) for each in report.earlier_failures] == [
        ("runtime", sha("r1"), "Subject of r1"),
        ("compiler", sha("c5"), "Subject of c5"),
    ]


def test_a_suspect_that_the_store_does_not_describe_has_the_subject_of_its_range(
    only_skipped: StoredBisection,
) -> None:
    rows = only_skipped.rows()
    report = make_report(replace(rows, commits={}))
    assert [each.subject for each in report.suspects] == [f"Subject of {name}" for name in ("c4", "c5", "c6")]


def test_only_skipped_shows_the_ends(only_skipped: StoredBisection) -> None:
    report = only_skipped.report()
    assert [each.commit for each in report.suspects] == [sha("c4"), sha("c5"), sha("c6")]
    assert report.reproduce.bad is not None
    assert report.reproduce.good is not None
    assert (report.reproduce.good.commit, report.reproduce.bad.commit) == (sha("c0"), sha("c6"))


def test_ends_that_do_not_differ_have_no_bad_side(ends_do_not_differ: StoredBisection) -> None:
    report = ends_do_not_differ.report()
    assert report.outcome == "ends_do_not_differ"
    assert report.reproduce.bad is None
    assert [(rate.end, rate.failures, rate.runs) for rate in report.rates] == [("good", 0, 1), ("bad", 0, 8)]


def test_interrupted_counts_no_started_probe(interrupted: StoredBisection) -> None:
    report = interrupted.report()
    assert (report.outcome, report.finished) == ("unfinished", None)
    assert report.message.startswith("7 runs so far; ")
    assert report.message.endswith(f"bisect-precision --resume {interrupted.name}")
    ordinals = sorted(run.ordinal for probe in report.probes for run in probe.runs)
    assert ordinals == list(range(1, 8))


def test_a_commit_that_was_skipped_once_and_judged_later_is_not_skipped(interrupted: StoredBisection) -> None:
    interrupted.probe(1, sha("c3"), Verdict.ENVIRONMENT_ERROR)
    assert sha("c3") in [each.commit for each in interrupted.report().skipped]
    interrupted.probe(1, sha("c3"), Verdict.PASS)
    assert sha("c3") not in [each.commit for each in interrupted.report().skipped]


def test_a_commit_without_a_pin_is_skipped_although_it_was_not_run(nothing_run: StoredBisection) -> None:
    nothing_run.stage(
        [(described("c1", ["c0"]), sha("c1"))], good=sha("c0"), bad=sha("c1"), revisions=lambda _: None
    )
    skipped = nothing_run.report().skipped
    assert [(each.commit, each.verdict, each.reason) for each in skipped] == [
        (sha("c1"), None, "it has no pin of another repository, or the pinned commit is missing")
    ]


def test_an_environment_that_moved(culprit: StoredBisection) -> None:
    assert not culprit.report().environment.moved
    culprit.probe(
        1, sha("c1"), Verdict.PASS, fingerprint="e" * 64, environment=ENVIRONMENT | {"cpu": "Example 9001"}
    )
    environment = culprit.report().environment
    assert environment.moved
    assert environment.changes == ("cpu: Example 9000 -> Example 9001",)
    assert [len(each.runs) for each in environment.surroundings] == [13, 1]


def test_numbers_that_json_has_not(culprit: StoredBisection) -> None:
    strange = {"out": {"max_diff": float("nan"), "worst": float("-inf"), "rtol": 1e-3}}
    culprit.probe(1, sha("c1"), Verdict.MISMATCH, metrics=strange)
    again = Report.model_validate_json(culprit.report().model_dump_json())
    assert again.probes[-1].runs[-1].metrics["out"] == {"max_diff": "NaN", "worst": "-Infinity", "rtol": 1e-3}


def test_commits_outside_of_the_range_need_no_description(nothing_run: StoredBisection) -> None:
    nothing_run.stage([(described("c1", ["c0"]), None)], good=sha("c0"), bad=sha("c1"))
    nothing_run.probe(1, sha("c0"), Verdict.PASS)
    report = nothing_run.report()
    assert report.probes[0].subject is None
    assert report.collapsed[0].same_as == sha("c0")
