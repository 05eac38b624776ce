"""Phrases that the Markdown report and the terminal share."""

from datetime import datetime

from ...runner.probe.bad_when import SKIP_CODE
from ...store.vocabulary import BisectionOutcome, Seeks
from ...store.words import exit_code, percent, plural, verdict_words
from ..result import MovedLayers, PinRecord, YardstickTest
from .model.model import (
    AnswerCommit,
    OtherFailure,
    PerturbationReport,
    ProbeReport,
    RangeReport,
    Report,
    RunReport,
    Side,
    SkippedCommit,
)

_OUTCOMES = {
    "suspect": "a suspect, not confirmed",
    "no_culprit": "no commit of the range explains it",
    "only_skipped": "only skipped commits are left",
    "ends_do_not_differ": "the ends do not differ",
    "budget": "stopped by its budget",
    "error": "error",
    "unfinished": "not finished",
}


def outcome(report: Report) -> str:
    """How it ended."""
    return ended(report.outcome, seeks=report.seeks, in_doubt=report.no_commit is not None)


def ended(outcome: str, *, seeks: Seeks, in_doubt: bool) -> str:
    """How a bisection with such an outcome ended. in_doubt: whether its suspects have together less than half."""
    if outcome == BisectionOutcome.CULPRIT:
        return f"{_named(seeks)} found"
    if outcome == BisectionOutcome.SUSPECT and in_doubt:
        return "not known whether a commit is to blame"
    return _OUTCOMES[outcome]


def of_suspects(report: Report) -> str:
    """What the suspects are."""
    did = "made the change" if report.seeks is Seeks.REGRESSION else "fixed it"
    several = len(report.suspects) > 1
    if report.no_commit is not None:
        return f"If a commit {did}, it is probably {'one of these' if several else 'this one'}"
    return f"{'One of these' if several else 'This one probably'} {did}"


def named(report: Report) -> str:
    """What the commit is that is named."""
    return _named(report.seeks)


def _named(seeks: Seeks) -> str:
    return "culprit" if seeks is Seeks.REGRESSION else "first fixed commit"


def lost(report: Report) -> str:
    """What a pin's move took away."""
    return "fix" if report.seeks is Seeks.REGRESSION else "fault"


def least_layers(tested: MovedLayers) -> str:
    """Which of the layers that moved at once are enough, and what that rests on."""
    ways = ", or ".join(" and ".join(each) for each in tested.least)
    comma = "," if len(tested.least) > 1 else ""
    run = plural(len(tested.cells), "combination")
    left = "" if tested.proven else "; the others are not all excluded"
    return f"it takes {ways}{comma} to be new, by {run} of old and new{left}"


def layer_rows(tested: MovedLayers) -> list[list[str]]:
    """Old or new of each layer, and what the case does, of each combination that was run between both ends."""
    return [
        [*("new" if layer in cell.new else "old" for layer in tested.layers), str(cell.judgement)]
        for cell in tested.cells
    ]


def yardstick(tested: YardstickTest) -> str:
    """What it has to do with the result that a commit changes how its case measures."""
    return {
        "yardstick": "So the yardstick moved, and what is measured did not.",
        "other change": "So it is not to blame for that, but for its other changes.",
        "both together": "So it takes that and its other changes together.",
        "either": "So that and its other changes do it, each alone.",
        "unknown": "So that cannot be told from its other changes.",
    }[tested.blame]


def earlier(report: Report) -> str:
    """What the commits before a contradiction did."""
    return "failed too, then passed" if report.seeks is Seeks.REGRESSION else "passed too, then failed"


def other_failure(failure: OtherFailure) -> str:
    """Where another failure was seen, and since when."""
    how = verdict_words(failure.verdict, failure.signature)
    first, last = (commit.commit[:12] for commit in (failure.first, failure.last))
    where = f"at {first}" if first == last else f"at {failure.commits} commits from {first} to {last}"
    if failure.onset is not None:
        since = f"it came with {first}: {failure.onset.subject or 'no subject'}"
    else:
        since = f"it came with one of {plural(failure.may_have_begun_at, 'candidate')} up to {first}"
    counted = "counted as bad" if failure.counts_as_bad else "not counted as bad"
    return f"{failure.first.repository}: {how} {where}, {counted}; {since}"


def ends(searched: RangeReport) -> tuple[str, str]:
    """The ends of a range, the older one first."""
    pair = searched.good, searched.bad
    return pair if searched.seeks is Seeks.REGRESSION else (pair[1], pair[0])


def comes_and_goes(report: Report) -> str | None:
    """That one run of a script need not show what its side does; None where each side did the same in all runs, and so
    did what builds on the culprit, and where no commit is to blame."""
    if report.outcome is BisectionOutcome.NO_CULPRIT:
        return None
    sides = [("bad", report.reproduce.bad), ("good", report.reproduce.good)]
    told = [
        f"{word} failed in {side.failures} of {plural(len(side.runs), 'run')}"
        for word, side in sides
        if side is not None and 0 < side.failures < len(side.runs)
    ]
    if told:
        return f"The failure comes and goes ({', '.join(told)}): run a script more than once."
    against = report.confidence_basis.against if report.confidence_basis else ()
    if not against:
        return None
    did = "passed" if report.seeks is Seeks.REGRESSION else "failed"
    return f"The failure may come and go (what builds on the culprit {did} too): run a script more than once."


def confidence(commit: AnswerCommit, asked: float) -> str:
    """How sure it is, and how sure it had to be."""
    reached = "not stated" if commit.confidence is None else percent(commit.confidence)
    return f"{reached} ({percent(asked)} was asked)"


def day(moment: datetime) -> str:
    """The date, as ISO has it."""
    return f"{moment:%Y-%m-%d}"


def side_verdict(report: Report, side: Side) -> str:
    """What the runs of a side showed; told is where an end of the range stands in for the culprit's parent."""
    runs = len(side.runs)
    how = f"{verdict_words(side.verdict, side.signature)}, {side.failures} of {plural(runs, 'run')} failed"
    named = [*report.culprits[:1], *filter(None, [report.through])]
    beside = {commit.commit for commit in named} | {each.parent for each in report.culprits[:1]}
    if not report.culprits or side.repository != report.culprits[0].repository or side.commit in beside:
        return how
    return f"{how}; this is an end of the range, as no run of the culprit's parent shows it"


def skip_verdict(commit: SkippedCommit) -> str:
    """Why a commit was skipped, in a word or a few."""
    if commit.reason.partition(":")[0] == exit_code(SKIP_CODE):
        return "skipped by the command"
    return commit.verdict or "not run"


def pin_state(pin: PinRecord) -> str:
    """What the search did with a pin."""
    if pin.searched:
        return "searched"
    if pin.frozen_at is None:
        return "frozen, but says nothing at the bad end"
    return f"frozen at {pin.frozen_at} in every run"


def error(run: RunReport) -> str:
    """The size of a run's error; empty where none was measured."""
    if run.error is None:
        return ""
    value = run.error.value
    shown = value if isinstance(value, str) else f"{value:.2g}"
    return f"{run.error.measure.replace('_', ' ')} {shown}"


def runs_in_order(report: Report) -> list[tuple[ProbeReport, RunReport]]:
    """All runs, each with its probe, as they began."""
    every = ((probe, run) for probe in report.probes for run in probe.runs)
    return sorted(every, key=lambda each: each[1].ordinal)


def stopped_runs(report: Report) -> str | None:
    """Which runs are told of nowhere, for they were stopped; None where there are none."""
    told = {run.ordinal for _, run in runs_in_order(report)}
    stopped = sorted({*range(1, max(told, default=0))} - told)
    if not stopped:
        return None
    return f"stopped before their end, and count for nothing: {', '.join(map(str, stopped))}"


def shown_run(report: Report, side: Side | OtherFailure) -> RunReport:
    """The run of a side, or of another failure, whose evidence is shown."""
    return next(run for probe in report.probes for run in probe.runs if run.ordinal == side.shown)


def evidence_texts(run: RunReport) -> list[str]:
    """The lines that justify a verdict, each once: streams repeat one another."""
    return list(dict.fromkeys(line.text for line in run.evidence))


def perturbation(tried: PerturbationReport) -> str:
    """What both ends did under a perturbation."""
    text = (
        f"{tried.name} ({tried.changes}): the bad end failed in {tried.bad_failures} of "
        f"{plural(tried.bad_runs, 'run')}, the good one in {tried.good_failures} of {tried.good_runs}"
    )
    return f"{text}; the range was searched under it" if tried.searched else text
