"""Phrases that the Markdown report, the terminal and the pages share.

They say in words how a bisection ended, what its sides, suspects and runs showed, and where in the culprit's build the
failure begins. `one_line` and its neighbours make text of other people safe to show. It becomes one line without
invisible characters and without characters that a terminal interprets.
"""

import unicodedata
from collections.abc import Iterator
from datetime import datetime

from ...runner.commit_diff import CommitDiff, Hunk
from ...runner.localization import Divergence, FailureCause, FirstDivergent, Localization, Stall
from ...runner.probe.judge import SKIP_CODE
from ...runner.verdict.rules import MEASURES
from ...store.vocabulary import (
    BisectionOutcome,
    Judgement,
    Seeks,
    Verdict,
    VerdictSource,
    percent,
    plural,
    verdict_words,
)
from ..engine.answer import MovedLayers, YardstickTest
from ..history.questions import PinRecord
from .model import (
    AnswerCommit,
    ConfidenceBasis,
    OtherFailure,
    PerturbationReport,
    ProbeReport,
    RangeReport,
    Report,
    RunReport,
    Side,
    SkippedCommit,
)

_MAX_ENTRIES = 4
"""At most this many causes, tensors, missing edges or tasks are shown. divergence.json has all of them."""

_STATES = {"WAIT": "waits", "READY": "is ready", "RUNNING": "runs"}
"""Each state of a task that the runtime names has a verb."""
_MAX_CHANGE_LINES = 4
"""At most this many lines of a change are shown. divergence.json has all of them."""


def localization_lines(found: Localization) -> Iterator[tuple[str, str]]:
    """Yield where the failure begins as pairs of a label and the text beside it."""
    if found.status == "left out":
        yield "not known", found.message
    elif found.divergence is not None:
        yield from _divergence(found.divergence)
    if found.reduction is not None:
        tasks, kernels = found.reduction.tasks, found.reduction.kernels
        yield (
            "reduced",
            f"{plural(tasks.before, 'task')} to {tasks.after}, {plural(kernels.before, 'kernel')} to {kernels.after}: "
            f"{found.reduced}",
        )
    if found.status != "left out":
        yield "compared", found.message


def _divergence(found: Divergence) -> Iterator[tuple[str, str]]:
    for cause in found.causes[:_MAX_ENTRIES]:
        yield from _cause(found, cause)
    if found.stall is not None:
        yield from _stall(found.stall)
    elif found.crash is not None:
        yield "crash", found.ended or found.crash.kernel
    elif not found.has_findings:
        yield (
            "none",
            "the outputs of the culprit's build are within the tolerance: what differs is rounding"
            if found.passes
            else "no task of the culprit's build was seen to leave other values than its parent's",
        )
    yield from _tensors(found)
    for edge in [edge for edge in found.missing_edges if edge.ordered_in_reference is not False][
        :_MAX_ENTRIES
    ]:
        yield (
            "no edge",
            f"{edge.after_kernel} does not wait for {edge.before_kernel}: {edge.hazard}; {edge.cause}",
        )
    yield from _orders(found)
    if found.generated is not None:
        yield "due to", found.generated.verdict
        if (first := found.generated.first_pass) is not None:
            yield "pass", f"{first.name} ({first.number}), the first after which the program differs"


def _tensors(found: Divergence) -> Iterator[tuple[str, str]]:
    """Yield the first divergent tensors, one for each kernel and argument."""
    alike: dict[tuple[str, int], list[FirstDivergent]] = {}
    for each in found.first_divergent:
        alike.setdefault((each.kernel, each.argument), []).append(each)
    for group in list(alike.values())[:_MAX_ENTRIES]:
        yield from _tensor(group[0], others=len(group) - 1)
    if len(alike) > _MAX_ENTRIES:
        yield "", f"and {len(alike) - _MAX_ENTRIES} more first divergent tensors in divergence.json"


def _cause(found: Divergence, cause: FailureCause) -> Iterator[tuple[str, str]]:
    """Yield what changed, and those lines of the first changed place that the cause does not quote."""
    shown = f" ({found.run_evidence(cause)})" if cause.confirmed else ""
    yield "cause" if cause.confirmed else "candidate", f"{cause.what}{shown}"
    for change in cause.changes[:1]:
        place = f"{change.file or change.part}{'' if change.line is None else f':{change.line}'}"
        lines = [line for line in change.diff[:_MAX_CHANGE_LINES] if line.strip() not in cause.what]
        yield "changed", f"{place}  {'  '.join(lines)}".rstrip()


def _orders(found: Divergence) -> Iterator[tuple[str, str]]:
    """Yield what the order of the tasks has to do with the failure."""
    if found.schedule is not None:
        yield (
            "order",
            f"compared under schedule {found.schedule}, in which it fails while it passes under another",
        )
    if found.in_turns is not None and found.in_turns.reference_may_fail:
        tells = "fails too" if found.in_turns.reference_fails else "was not shown to pass"
        yield (
            "blamed",
            f"nothing in which the builds differ: in the order in which it fails, the parent's {tells}",
        )
    if found.race is not None:
        yield (
            "race",
            "confirmed: one order fails and another passes on the same data"
            if found.race.confirmed
            else "not shown",
        )


def _stall(found: Stall) -> Iterator[tuple[str, str]]:
    yield (
        "stall",
        f"{'' if found.believed else 'not believed: '}{found.reason}; "
        f"{found.completed} of {plural(found.total, 'task')} done",
    )
    for each in found.tasks[-_MAX_ENTRIES:]:
        does = _STATES.get(each.state, each.state)
        cores = f" on core {', '.join(map(str, each.cores))}" if each.cores else ""
        met = (
            f", {each.dependencies_met} of {each.dependencies} dependencies met" if each.dependencies else ""
        )
        lines = ", ".join(map(str, each.orchestration_lines)) or "?"
        yield (
            "task",
            f"{each.kernel or 'no kernel'} ({each.task_id}) {does}{cores}{met}, {', '.join(each.kernel_sources)}, "
            f"submitted at {each.orchestration_source}:{lines}",
        )


def _tensor(each: FirstDivergent, *, others: int) -> Iterator[tuple[str, str]]:
    tensor = each.tensor or f"argument {each.argument}"
    more = f", and of {plural(others, 'more task')} of it, in divergence.json" if others else ""
    yield "tensor", f"{tensor} of task {each.task_id}, kernel {each.kernel}{more}"
    if each.kernel_sources:
        lines = ", ".join(map(str, each.orchestration_lines)) or "?"
        yield (
            "source",
            f"{', '.join(each.kernel_sources)}, submitted at {each.orchestration_source}:{lines}",
        )
    yield "class", f"{each.task_class}: {each.reason}"
    if each.pattern is not None:
        yield "pattern", f"{each.pattern.name} ({percent(each.pattern.confidence)}): {each.pattern.evidence}"
    if (found := each.statistics) is not None:
        ulps = f", by at most {found.max_ulps} ulp" if found.max_ulps else ""
        differ = "differs" if found.elements == 1 else "differ"
        yield (
            "worst",
            f"{found.worst}; {found.different} of {plural(found.elements, 'element')} {differ}{ulps}",
        )


MAX_OWN_SENTENCE = 10_000
"""This many characters of the tool's own sentences are shown. They are never cut, because a caveat may come last."""


def one_line(text: str) -> str:
    """Return the text on one line, with escapes for invisible characters and blanks for all kinds of space.

    Control characters would move a terminal's cursor. Direction marks would make a line read as a different one.

    >>> one_line("fix\\ttiling\\x1b[31m \\u202eSSAP")
    'fix tiling\\\\x1b[31m \\\\u202eSSAP'
    """
    return indented_line(text).strip()


def indented_line(text: str) -> str:
    """Return the text as `one_line` does, but keep the blanks at its beginning."""
    return text.rstrip() if text.isprintable() else "".join(map(_escape_invisible, text)).rstrip()


def shorten(text: str, limit: int) -> str:
    """Return the text as one line of at most `limit` characters.

    >>> shorten("0123456789", 6)
    '01234…'
    """
    return cut(one_line(text), limit)


def cut(line: str, limit: int) -> str:
    """Return at most `limit` characters of a line, with an ellipsis where some are left out."""
    return line if len(line) <= limit else f"{line[: limit - 1]}…"


def _escape_invisible(character: str) -> str:
    if character.isprintable():
        return character
    if character in "\t\n\r" or unicodedata.category(character) == "Zs":
        return " "
    return character.encode("unicode_escape").decode("ascii")


_MIN_BAR_WIDTH = 12
"""A diffstat leaves at least this many characters for the bar, and for the name of a file: less says nothing."""

_OUTCOMES = {
    "suspect": "a suspect, not confirmed",
    "no_culprit": "no commit of the range explains it",
    "only_skipped": "the runs do not tell the commits left apart",
    "ends_do_not_differ": "the ends do not differ",
    "budget": "stopped by its budget",
    "error": "error",
    "unfinished": "not finished",
}


def outcome(report: Report) -> str:
    """Return how the bisection of a report ended."""
    return outcome_words(report.outcome, seeks=report.seeks, in_doubt=report.no_commit is not None)


def outcome_words(outcome: str, *, seeks: Seeks, in_doubt: bool) -> str:
    """Return how a bisection with this outcome ended.

    in_doubt: whether its suspects together have a probability of less than one half.
    """
    if outcome == BisectionOutcome.CULPRIT:
        return f"{_answer_noun(seeks)} found"
    if outcome == BisectionOutcome.SUSPECT and in_doubt:
        return "not known whether a commit is to blame"
    return _OUTCOMES[outcome]


def suspect_phrase(report: Report) -> str:
    """Return the beginning of a sentence that says what the suspects are."""
    did = "made the change" if report.seeks is Seeks.REGRESSION else "fixed it"
    several = len(report.suspects) > 1
    if report.no_commit is not None:
        return f"If a commit {did}, it is probably {'one of these' if several else 'this one'}"
    return f"{'One of these' if several else 'This one probably'} {did}"


def answer_noun(report: Report) -> str:
    """Return what the commit that the answer names is called."""
    return _answer_noun(report.seeks)


def _answer_noun(seeks: Seeks) -> str:
    return "culprit" if seeks is Seeks.REGRESSION else "first fixed commit"


def removed_commit_noun(report: Report) -> str:
    """Return what the move of a pin removed: a fix or a fault."""
    return "fix" if report.seeks is Seeks.REGRESSION else "fault"


def sufficient_layers(tested: MovedLayers) -> str:
    """Return which of the layers that moved at once suffice for the change, and on how many runs this rests."""
    ways = ", or ".join(" and ".join(each) for each in tested.least)
    comma = "," if len(tested.least) > 1 else ""
    run = plural(len(tested.cells), "combination")
    left = "" if tested.proven else "; the others are not all excluded"
    return f"it takes {ways}{comma} to be new, by {run} of old and new{left}"


def layer_rows(tested: MovedLayers) -> list[list[str]]:
    """Return a row for each combination of layers that was run: old or new for each layer, and the judgement."""
    return [
        [*("new" if layer in cell.new else "old" for layer in tested.layers), str(cell.judgement)]
        for cell in tested.cells
    ]


def check_change_phrase(tested: YardstickTest) -> str:
    """Return whether a commit changes the result by changing how its case measures, or by its other changes."""
    return {
        "yardstick": "So the yardstick moved, and what is measured did not.",
        "other change": "So it is not to blame for that, but for its other changes.",
        "both together": "So it takes that and its other changes together.",
        "either": "So that and its other changes do it, each alone.",
        "unknown": "So that cannot be told from its other changes.",
    }[tested.blame]


def earlier_failure_phrase(report: Report) -> str:
    """Return what the commits did that contradict a single change."""
    return "failed too, then passed" if report.seeks is Seeks.REGRESSION else "passed too, then failed"


def other_failure(failure: OtherFailure) -> str:
    """Return where another failure was seen, and which commit introduced it."""
    how = verdict_words(failure.verdict, failure.signature, failure.verdict_source)
    first, last = (commit.commit[:12] for commit in (failure.first, failure.last))
    where = f"at {first}" if first == last else f"at {failure.commits} commits from {first} to {last}"
    if failure.onset is not None:
        since = f"it came with {first}: {failure.onset.subject or 'no subject'}"
    else:
        since = f"it came with one of {plural(failure.may_have_begun_at, 'candidate')} up to {first}"
    counted = "counted as bad" if failure.counts_as_bad else "not counted as bad"
    return f"{failure.first.repository}: {how} {where}, {counted}; {since}"


def ends(searched: RangeReport) -> tuple[str, str]:
    """Return the ends of a range, the older one first."""
    pair = searched.good, searched.bad
    return pair if searched.seeks is Seeks.REGRESSION else (pair[1], pair[0])


def flakiness_warning(report: Report) -> str | None:
    """Return a warning that a flaky failure may not show in one run of a script.

    None where each side gave the same result in all its runs, and no commit that builds on the culprit contradicts it.
    None too where no commit is to blame.
    """
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
    """Return the confidence in a commit, and the confidence that was asked for."""
    reached = "not stated" if commit.confidence is None else percent(commit.confidence)
    return f"{reached} ({percent(asked)} was asked)"


def run_counts(basis: ConfidenceBasis) -> str:
    """Return how often commits with the change failed, and commits without it."""
    with_change, without = basis.with_change or basis.culprit, basis.without_change or basis.parents
    return (
        f"with the change {with_change.failures} of {plural(with_change.runs, 'run')} failed, without it "
        f"{without.failures} of {without.runs}"
    )


def day(moment: datetime) -> str:
    """Return the date in ISO format."""
    return f"{moment:%Y-%m-%d}"


def side_verdict(report: Report, side: Side) -> str:
    """Return how often the runs of a side showed its result.

    The text also says where an end of the range takes the place of the culprit's parent.
    """
    is_bad = shown_run(report, side).judgement is Judgement.BAD
    verdict = verdict_words(side.verdict, side.signature, side.verdict_source)
    if report.bad_when is None:
        shown, beside = f"fails ({verdict})" if is_bad else "passes", ""
    elif sought := condition_words(report.bad_when, is_bad=is_bad):
        shown, beside = sought, f"; verdict: {verdict}"
    else:
        shown, beside = verdict, ""
    count = side.failures if is_bad else len(side.runs) - side.failures
    how = f"{shown} in {count} of {plural(len(side.runs), 'run')}{beside}"
    named = [*report.culprits[:1], *filter(None, [report.through])]
    known = {commit.commit for commit in named} | {each.parent for each in report.culprits[:1]}
    if not report.culprits or side.repository != report.culprits[0].repository or side.commit in known:
        return how
    return f"{how}; this is an end of the range, as no run of the culprit's parent shows it"


def condition_words(bad_when: str, *, is_bad: bool) -> str | None:
    """Return whether a run met the condition `bad_when`, in words. None where the condition is a verdict alone.

    >>> condition_words("regex:NaN", is_bad=True), condition_words("relative_l2:1e-4", is_bad=False)
    ("a line matches 'NaN'", 'relative l2 not above 1e-4')
    >>> condition_words("stall", is_bad=True)
    """
    kind, colon, text = bad_when.partition(":")
    if not colon:
        return None
    if kind == "regex":
        return f"{'a line matches' if is_bad else 'no line matches'} {text!r}"
    if kind in MEASURES:
        return f"{kind.replace('_', ' ')} {'above' if is_bad else 'not above'} {text}"
    return f"{'shows' if is_bad else 'does not show'} {bad_when}"


def diffstat(diff: CommitDiff, *, width: int, most: int) -> list[str]:
    """Return how many lines of each file a commit changes, as `git diff --stat` draws it.

    The lines have at most `width` characters. They show `most` files, then the sums.
    """
    files = diff.files if diff.changed_files <= most + 1 else diff.files[:most]
    names = [one_line(file.path) for file in files]
    counts = ["-" if file.added is None else str(file.added + (file.removed or 0)) for file in files]
    count_width = max(map(len, counts), default=0)
    name_width = min(
        max(map(len, names), default=0), max(width - count_width - _MIN_BAR_WIDTH - 4, _MIN_BAR_WIDTH)
    )
    largest = max((int(count) for count in counts if count != "-"), default=0)
    scale = min(1.0, max(width - name_width - count_width - 4, 1) / max(largest, 1))
    lines: list[str] = []
    for file, name, count in zip(files, names, counts, strict=True):
        # The end of a long path says most.
        shown = name if len(name) <= name_width else f"…{name[len(name) - name_width + 1 :]}"
        bar = _bar(file.added or 0, file.removed or 0, scale)
        told = "binary or large" if count == "-" else f"{count:>{count_width}} {bar}"
        lines.append(f"{shown:<{name_width}} | {told}".rstrip())
    if left_out := diff.changed_files - len(files):
        lines.append(f"... and {plural(left_out, 'more file')}")
    if diff.changed_files > 1:
        lines.append(
            f"{plural(diff.changed_files, 'file')} changed, {plural(diff.added, 'insertion')}(+), "
            f"{plural(diff.removed, 'deletion')}(-)"
        )
    return lines


def _bar(added: int, removed: int, scale: float) -> str:
    """Return plus and minus signs in proportion to the lines, and at least one for each kind that occurs."""
    return "".join(
        sign * max(1, int(count * scale)) for sign, count in (("+", added), ("-", removed)) if count
    )


def diff_base(commit: AnswerCommit) -> str:
    """Return which parent a culprit's diff is made against."""
    if commit.parent is None:
        return "it has no parent"
    return "against its first parent" if commit.merge else "against its parent"


def hunk_lines(hunk: Hunk) -> list[str]:
    """Return a hunk as it is shown: its place, its lines, and how many more there are."""
    more = [f"... {plural(hunk.left_out, 'more line')}"] if hunk.left_out else []
    return [hunk.header, *hunk.lines, *more]


def skip_verdict(commit: SkippedCommit) -> str:
    """Return why a commit was skipped, in a few words."""
    if commit.verdict_source is VerdictSource.EXIT_CODE:
        if commit.exit_code == SKIP_CODE:
            return "skipped by the command"
        if commit.verdict is Verdict.MISMATCH:
            return "fails otherwise"
    return commit.verdict or "not run"


def pin_state(pin: PinRecord) -> str:
    """Return what the search did with a pin."""
    if pin.searched:
        return "searched"
    if pin.frozen_at is None:
        return "frozen, but says nothing at the bad end"
    return f"frozen at {pin.frozen_at} in every run"


def error(run: RunReport) -> str:
    """Return the size of a run's error; empty where none was measured."""
    if run.error is None:
        return ""
    value = run.error.value
    shown = value if isinstance(value, str) else f"{value:.2g}"
    return f"{run.error.measure.replace('_', ' ')} {shown}"


def runs_in_order(report: Report) -> list[tuple[ProbeReport, RunReport]]:
    """Return all runs, each with its probe, in the order of their starts."""
    every = ((probe, run) for probe in report.probes for run in probe.runs)
    return sorted(every, key=lambda each: each[1].ordinal)


def stopped_runs_note(report: Report) -> str | None:
    """Return which runs the report does not list, because they were stopped; None where it lists all."""
    told = {run.ordinal for _, run in runs_in_order(report)}
    stopped = sorted({*range(1, max(told, default=0))} - told)
    if not stopped:
        return None
    return f"stopped before their end, and count for nothing: {', '.join(map(str, stopped))}"


def shown_run(report: Report, side: Side | OtherFailure) -> RunReport:
    """Return the run of a side, or of another failure, whose evidence is shown."""
    return next(run for probe in report.probes for run in probe.runs if run.ordinal == side.shown)


def evidence_texts(run: RunReport) -> list[str]:
    """Return the lines that justify a verdict, each once, because streams repeat one another."""
    return list(dict.fromkeys(line.text for line in run.evidence))


def perturbation(tried: PerturbationReport) -> str:
    """Return what both ends did under a perturbation."""
    text = (
        f"{tried.name} ({tried.changes}): the bad end failed in {tried.bad_failures} of "
        f"{plural(tried.bad_runs, 'run')}, the good one in {tried.good_failures} of {tried.good_runs}"
    )
    return f"{text}; the range was searched under it" if tried.searched else text
