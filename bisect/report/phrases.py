"""Phrases that the Markdown report, the terminal and the pages share.

A `..._phrase` says one fact of a report in words: how the bisection ended, what a side, a suspect or a run showed.
`localization_lines` says where in the culprit's build the failure begins, and `explanation_lines` after which pass.
"""

import re
from collections.abc import Iterator
from datetime import datetime

from ...runner.commit_diff import CommitDiff, Hunk
from ...runner.localization import Divergence, FailureCause, FirstDivergent, Localization, Stall
from ...runner.probe.judge import SKIP_CODE
from ...runner.verdict.rules import MEASURES
from ...store.vocabulary import (
    UNFINISHED,
    BisectionOutcome,
    Judgement,
    Seeks,
    Verdict,
    VerdictSource,
    cut,
    one_line,
    percent,
    phrase_for_outcome,
    plural,
    sought_commit_noun,
    verdict_phrase,
)
from ..engine.answer import MovedLayers, YardstickTest
from ..history.questions import PinRecord
from .model import (
    AnswerCommit,
    ConfidenceBasis,
    ExplanationReport,
    OtherFailure,
    PassResult,
    PerturbationReport,
    ProbeReport,
    Proof,
    QuotedChange,
    RangeReport,
    Report,
    RunReport,
    Side,
    SkippedCommit,
)

_MAX_ENTRIES = 4
"""At most this many causes, tensors, missing edges or tasks are shown. divergence.json has all of them."""

_STATES = {"WAIT": "waits", "READY": "is ready", "RUNNING": "runs"}
"""The verb for each state of a task that the runtime names."""
_MAX_CHANGE_LINES = 4
"""At most this many lines of a change are shown. divergence.json has all of them."""


def localization_lines(found: Localization) -> Iterator[tuple[str, str]]:
    """Yield where the failure begins, as pairs of a label and a text. Further lines of a text are lines of a source."""
    if found.status == "left out":
        yield "not known", found.message
    elif found.divergence is not None:
        yield from _divergence_lines(found.divergence)
    if found.reduction is not None:
        tasks, kernels = found.reduction.tasks, found.reduction.kernels
        yield (
            "reduced",
            f"{plural(tasks.before, 'task')} to {tasks.after}, {plural(kernels.before, 'kernel')} to {kernels.after}: "
            f"{found.reduced}",
        )
    if found.status != "left out":
        yield "compared", found.message


def _divergence_lines(found: Divergence) -> Iterator[tuple[str, str]]:
    for cause in found.causes[:_MAX_ENTRIES]:
        yield from _cause_lines(found, cause)
    if found.stall is not None:
        yield from _stall_lines(found.stall)
    elif found.crash is not None:
        yield "crash", found.ended or found.crash.kernel
    elif not found.has_findings:
        yield (
            "none",
            "the outputs of the culprit's build are within the tolerance: what differs is rounding"
            if found.passes
            else "no task of the culprit's build was seen to leave other values than its parent's",
        )
    yield from _first_tensor_lines(found)
    unordered = [edge for edge in found.missing_edges if edge.ordered_in_reference is not False]
    for edge in unordered[:_MAX_ENTRIES]:
        yield (
            "no edge",
            f"{edge.after_kernel} does not wait for {edge.before_kernel}: {edge.hazard}; {edge.cause}",
        )
    yield from _order_lines(found)
    if found.generated is not None:
        yield "due to", found.generated.verdict
        if (first := found.generated.first_pass) is not None:
            yield "pass", f"{first.name}, pass {first.number}, the first after which the program differs"


def _first_tensor_lines(found: Divergence) -> Iterator[tuple[str, str]]:
    """Yield the first divergent tensors, one for each kernel and argument."""
    groups: dict[tuple[str, int], list[FirstDivergent]] = {}
    for each in found.first_divergent:
        groups.setdefault((each.kernel, each.argument), []).append(each)
    for group in list(groups.values())[:_MAX_ENTRIES]:
        yield from _tensor_lines(group[0], others=len(group) - 1)
    if len(groups) > _MAX_ENTRIES:
        yield "", f"and {len(groups) - _MAX_ENTRIES} more first divergent tensors in divergence.json"


def _cause_lines(found: Divergence, cause: FailureCause) -> Iterator[tuple[str, str]]:
    """Yield what changed, and those lines of the first change that the cause does not quote."""
    shown = f" ({found.run_evidence(cause)})" if cause.confirmed else ""
    yield "cause" if cause.confirmed else "candidate", f"{cause.what}{shown}"
    for change in cause.changes[:1]:
        place = f"{change.file or change.part}{'' if change.line is None else f':{change.line}'}"
        lines = [line for line in change.diff[:_MAX_CHANGE_LINES] if line.strip() not in cause.what]
        more = ["... more in divergence.json"] if len(change.diff) > _MAX_CHANGE_LINES else []
        yield "changed", "\n".join([place, *lines, *more])


def _order_lines(found: Divergence) -> Iterator[tuple[str, str]]:
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


def _stall_lines(found: Stall) -> Iterator[tuple[str, str]]:
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


def _tensor_lines(each: FirstDivergent, *, others: int) -> Iterator[tuple[str, str]]:
    tensor = each.tensor or f"argument {each.argument}"
    position = "" if each.position is None else f"{each.position} "
    more = (
        f"; the same in {plural(others, 'more task')} of this kernel, see divergence.json" if others else ""
    )
    yield "tensor", f"{tensor} of task {position}{each.kernel} ({each.task_id}){more}"
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
"""A limit above the length of any of the tool's own sentences. They must not be cut, because a caveat may come last."""


_MIN_BAR_WIDTH = 12
"""A diffstat leaves at least this many characters for the bar, and for the name of a file. Less would show nothing."""


def outcome_phrase(report: Report) -> str:
    """Return how the bisection of a report ended."""
    return phrase_for_outcome(
        report.outcome,
        seeks=report.seeks,
        in_doubt=report.no_commit is not None,
        has_caveat=bool(report.caveats),
    )


def suspect_phrase(report: Report) -> str:
    """Return the beginning of a sentence that says what the suspects are."""
    did = "made the change" if report.seeks is Seeks.REGRESSION else "fixed it"
    several = len(report.suspects) > 1
    if report.no_commit is not None:
        return f"If a commit {did}, it is probably {'one of these' if several else 'this one'}"
    return f"{'One of these' if several else 'This one probably'} {did}"


def answer_noun(report: Report) -> str:
    """Return the noun for the commit that the answer names."""
    return sought_commit_noun(report.seeks)


def removed_commit_noun(report: Report) -> str:
    """Return the noun for what the move of a pin removed."""
    return "fix" if report.seeks is Seeks.REGRESSION else "fault"


def layers_phrase(tested: MovedLayers) -> str:
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
    """Return the behaviour of commits that contradict a single change."""
    return "failed too, then passed" if report.seeks is Seeks.REGRESSION else "passed too, then failed"


def other_failure_phrase(failure: OtherFailure) -> str:
    """Return where another failure was seen, and which commit introduced it."""
    how = verdict_phrase(failure.verdict, failure.signature, failure.verdict_source)
    first, last = (commit.commit[:12] for commit in (failure.first, failure.last))
    where = f"at {first}" if first == last else f"at {failure.commits} commits from {first} to {last}"
    if failure.onset is not None:
        since = f"it came with {first}: {failure.onset.subject or 'no subject'}"
    else:
        since = f"it came with one of {plural(failure.may_have_begun_at, 'candidate')} up to {first}"
    counted = "counted as bad" if failure.counts_as_bad else "not counted as bad"
    return f"{failure.first.repository}: {how} {where}, {counted}; {since}"


def range_ends(searched: RangeReport) -> tuple[str, str]:
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
    flaky = [
        f"{word} failed in {side.failures} of {plural(len(side.runs), 'run')}"
        for word, side in sides
        if side is not None and 0 < side.failures < len(side.runs)
    ]
    if flaky:
        return f"The failure is flaky ({', '.join(flaky)}): run a script more than once."
    against = report.confidence_basis.against if report.confidence_basis else ()
    if not against:
        return None
    did = "passed" if report.seeks is Seeks.REGRESSION else "failed"
    return f"The failure may be flaky (a later commit {did} too): run a script more than once."


def confidence_phrase(commit: AnswerCommit, asked: float) -> str:
    """Return the confidence in a commit, and the confidence that was asked for."""
    reached = "not stated" if commit.confidence is None else percent(commit.confidence)
    return f"{reached} ({percent(asked)} was asked)"


def run_counts_phrase(basis: ConfidenceBasis) -> str:
    """Return how often commits with the change failed, and commits without it."""
    with_change, without = basis.with_change or basis.culprit, basis.without_change or basis.parents
    return (
        f"with the change {with_change.failures} of {plural(with_change.runs, 'run')} failed, without it "
        f"{without.failures} of {without.runs}"
    )


def format_day(moment: datetime) -> str:
    """Return the date in ISO format."""
    return f"{moment:%Y-%m-%d}"


def side_phrase(report: Report, side: Side) -> str:
    """Return how often the runs of a side showed its result.

    The text also says where an end of the range replaces the culprit's parent.
    """
    is_bad = shown_run(report, side).judgement is Judgement.BAD
    verdict = verdict_phrase(side.verdict, side.signature, side.verdict_source)
    if report.bad_when is None:
        shown, note = f"fails ({verdict})" if is_bad else "passes", ""
    elif condition := condition_phrase(report.bad_when, is_bad=is_bad):
        shown, note = condition, f"; verdict: {verdict}"
    else:
        shown, note = verdict, ""
    count = side.failures if is_bad else len(side.runs) - side.failures
    how = f"{shown} in {count} of {plural(len(side.runs), 'run')}{note}"
    if (run_commit := _probe_of(report, side.shown)[0].commit) != side.commit:
        how = f"{how} (of {run_commit[:12]}, which reads the same)"
    named = [*report.culprits[:1], *filter(None, [report.through])]
    known = {commit.commit for commit in named} | {each.parent for each in report.culprits[:1]}
    if not report.culprits or side.repository != report.culprits[0].repository or side.commit in known:
        return how
    return f"{how}; this is an end of the range, as no run of the culprit's parent shows it"


def condition_phrase(bad_when: str, *, is_bad: bool) -> str | None:
    """Return whether a run met the condition `bad_when`. None where the condition is a verdict.

    >>> condition_phrase("regex:NaN", is_bad=True), condition_phrase("relative_l2:1e-4", is_bad=False)
    ("a line matches 'NaN'", 'relative l2 not above 1e-4')
    >>> condition_phrase("stall", is_bad=True)
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
        change = "binary or large" if count == "-" else f"{count:>{count_width}} {bar}"
        lines.append(f"{shown:<{name_width}} | {change}".rstrip())
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


def merge_phrase(commit: AnswerCommit) -> str:
    """Return what the parents of a merge say about its change."""
    if commit.joins:
        return "no parent that was run shows this alone: the change is in joining them"
    return "not each of its parents was run: the change may be in a commit that it merges"


def diff_base_phrase(commit: AnswerCommit) -> str:
    """Return the parent against which a culprit's diff is made."""
    if commit.parent is None:
        return "it has no parent"
    return "against its first parent" if commit.merge else "against its parent"


def hunk_lines(hunk: Hunk) -> list[str]:
    """Return a hunk as it is shown: its header, its lines, and how many more there are."""
    more = [f"... {plural(hunk.left_out, 'more line')}"] if hunk.left_out else []
    return [hunk.header, *hunk.lines, *more]


def skip_phrase(commit: SkippedCommit) -> str:
    """Return why a commit was skipped, in a few words."""
    if commit.verdict_source is VerdictSource.EXIT_CODE:
        if commit.exit_code == SKIP_CODE:
            return "skipped by the command"
        if commit.verdict is Verdict.MISMATCH:
            return "fails otherwise"
    return commit.verdict or "not run"


def skip_log(report: Report, commit: SkippedCommit) -> str:
    """Return the log of a skipped commit's last run; empty where it has none."""
    logs = [
        run.log
        for probe in report.probes
        if (probe.repository, probe.commit) == (commit.repository, commit.commit)
        for run in probe.runs
    ]
    return (logs[-1] if logs else None) or ""


def pin_phrase(pin: PinRecord) -> str:
    """Return what the search did with a pin."""
    if pin.searched:
        return "searched"
    if pin.frozen_at is None:
        return "frozen, but says nothing at the bad end"
    return f"frozen at {pin.frozen_at} in every run"


def error_phrase(run: RunReport) -> str:
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


def missing_runs_note(report: Report) -> str | None:
    """Return which runs the report does not list because they have no result; None where it lists all.

    While a bisection can go on, such a run may be running.
    """
    listed = {run.ordinal for _, run in runs_in_order(report)}
    missing = sorted({*range(1, max(listed, default=0))} - listed)
    if not missing:
        return None
    may_run = report.outcome in (UNFINISHED, BisectionOutcome.BUDGET)
    why = "without a result so far" if may_run else "stopped before their end, and count for nothing"
    return f"{why}: {', '.join(map(str, missing))}"


def shown_run(report: Report, side: Side | OtherFailure) -> RunReport:
    """Return the run whose evidence a side, or another failure, shows."""
    return _probe_of(report, side.shown)[1]


def _probe_of(report: Report, ordinal: int | None) -> tuple[ProbeReport, RunReport]:
    return next((probe, run) for probe in report.probes for run in probe.runs if run.ordinal == ordinal)


def evidence_texts(run: RunReport) -> list[str]:
    """Return the lines that justify a verdict, without repetitions. Several streams may hold the same line."""
    return list(dict.fromkeys(line.text for line in run.evidence))


def perturbation_phrase(tried: PerturbationReport) -> str:
    """Return what both ends did under a perturbation."""
    text = (
        f"{tried.name} ({tried.changes}): the bad end failed in {tried.bad_failures} of "
        f"{plural(tried.bad_runs, 'run')}, the good one in {tried.good_failures} of {tried.good_runs}"
    )
    return f"{text}; the range was searched under it" if tried.searched else text


# What `explain` shows

PASS_MARKS = {"+": "right", "x": "wrong", "m": "right values, wrong memory", "?": "not executed"}
"""The marks of a ladder, with their meanings."""
_STATEMENT_COLUMNS = 60
"""A statement within a sentence is cut to this many columns."""
_TYPE = re.compile(r"(\s*\w+): pl\.\S.*? = ")


def pass_mark(found: PassResult) -> str:
    """Return the mark of a pass, one of `PASS_MARKS`."""
    if found.state == "right":
        return "m" if found.faults else "+"
    return "x" if found.state == "wrong" else "?"


def ladder_lines(found: ExplanationReport) -> Iterator[str]:
    """Yield one mark for each pass, what the marks mean, and between which passes the program becomes wrong."""
    marks = "".join(map(pass_mark, found.passes))
    yield marks
    yield ", ".join(f"{mark} {meaning}" for mark, meaning in PASS_MARKS.items() if mark in marks)
    if found.first_bad is not None:
        yield f"right after {found.last_good}, wrong after {found.first_bad}"


def explanation_lines(found: ExplanationReport) -> Iterator[tuple[str, str]]:
    """Yield what is wrong after which pass, as pairs of a label and a text. Further lines of a text are a diff."""
    yield "answer", found.message
    if found.passes:
        marks, legend, *between = ladder_lines(found)
        yield "passes", f"{marks} ({legend})"
        yield from (("", line) for line in between)
    if found.changed is not None:
        before, after = found.changed.before, found.changed.after
        lines = [f"{after.file}:{after.line}", f"+ {strip_type(after.statement)}"]
        if before is not None:
            lines.insert(1, f"- {strip_type(before.statement)}")
        yield "statement", "\n".join(lines)
    for fault in found.misplaced[:1]:
        yield "memory", fault.sentence
    if found.proof is not None:
        yield "proof", proof_phrase(found.proof)


def proof_phrase(proof: Proof, seconds: str = "") -> str:
    """Return what undoing the pass's changes showed. `seconds` stands at the end."""
    counted = (
        f"({len(proof.cause)} of {plural(proof.changes, 'change')}, {plural(proof.runs, 'run')}){seconds}"
    )
    if not proof.cause:
        return f"none: {proof.problem} {counted}"
    named = change_phrase(proof.cause[0])
    if len(proof.cause) > 1:
        named += f" and {plural(len(proof.cause) - 1, 'change')} more"
    alone = f"with {plural(proof.context, 'change')} that it needs to run" if proof.context else "alone"
    return f"undoing {named} makes the result right, and that {alone} makes it wrong {counted}"


def change_phrase(change: QuotedChange) -> str:
    """Return the tile that a change moves, or its first statement."""
    if change.tiles:
        return f"the place of {change.tiles[0]}"
    statements = change.after or change.before
    if not statements:
        return f"the head of {change.function}"
    dropped = "" if change.after else "the loss of "
    return f"{dropped}{statements[0].line}: {cut(strip_type(statements[0].statement), _STATEMENT_COLUMNS)}"


def strip_type(line: str) -> str:
    """Return a statement without the type of its target, which would fill the screen.

    >>> strip_type("m: pl.Tile[[8, 8], pl.FP32] = pl.tile.muls(e, 2.0)")
    'm = pl.tile.muls(e, 2.0)'
    """
    return _TYPE.sub(r"\1 = ", line, count=1)
