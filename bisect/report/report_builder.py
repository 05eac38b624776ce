"""Builds the report of a bisection from its rows.

`make_report` is the entry. `both_sides` chooses the runs that show the good and the bad side of the answer, with
scripts that reproduce them. `compared_pair` returns the two probes whose builds a localization compares: one of the
culprit, and one of a commit that passes.
"""

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib import metadata
from itertools import chain, count, pairwise, zip_longest
from pathlib import Path
from typing import Literal

from ...runner.case.case import PERTURBATION_KEY, perturbation_name
from ...runner.commit_diff import CommitDiff, nearest_hunks
from ...runner.localization import Localization, read_reduction, read_result
from ...runner.overlays import CherryPick, list_patches
from ...runner.verdict.classify import printed_cause
from ...runner.verdict.rules import error_size
from ...runner.workspace.environment import description_changes
from ...runner.workspace.home import command_line
from ...store.tables import ProbeRow
from ...store.vocabulary import UNFINISHED, Judgement, Phase, Seeks, VerdictSource, plural, verdict_phrase
from ..ask.earlier_runs import failure_names
from ..ask.question import BisectRequest, repeat_command
from ..engine.answer import EndRate, NamedCommit
from .advice import find_caveats, other_failures
from .basis import Rows, SearchedRange, confidence_basis
from .model import (
    EXPLANATION,
    AnswerCommit,
    CollapsedCommit,
    EnvironmentReport,
    EvidenceLine,
    ExplanationReport,
    Metric,
    PatchReport,
    PerturbationReport,
    ProbeReport,
    RangeReport,
    Report,
    Reproduction,
    RunError,
    RunReport,
    Side,
    SkippedCommit,
    Surroundings,
    Timing,
    to_metric,
)
from .phrases import condition_phrase
from .reproduce import reproduction_script

_DISTRIBUTION = "precision-bisect"


def make_report(rows: Rows) -> Report:
    """Return the report of a bisection, finished or not, whose rows are loaded."""
    bisection, request, conclusion = rows.bisection, rows.request, rows.conclusion
    sides = both_sides(rows)
    return Report(
        tool_version=metadata.version(_DISTRIBUTION),
        name=bisection.name,
        created=bisection.created,
        finished=bisection.finished,
        outcome=conclusion.outcome if conclusion else UNFINISHED,
        message=conclusion.message if conclusion else _unfinished_message(rows),
        culprits=tuple(_answer_commit(rows, named) for named in conclusion.culprits) if conclusion else (),
        through=_answer_commit(rows, conclusion.through) if conclusion and conclusion.through else None,
        lost=_answer_commit(rows, conclusion.lost) if conclusion and conclusion.lost else None,
        suspects=tuple(_answer_commit(rows, named) for named in conclusion.suspects) if conclusion else (),
        no_commit=conclusion.no_commit if conclusion else None,
        other_failures=other_failures(rows),
        earlier_failures=tuple(
            rows.reference(rows.repository_of(sha), sha) for sha in conclusion.earlier_failures
        )
        if conclusion
        else (),
        seeks=request.seeks,
        stack=request.stack.name,
        repository=bisection.repository,
        good=bisection.good,
        bad=bisection.bad,
        case=request.case_text,
        platform=request.platform,
        device=request.device,
        bad_when=request.bad_criterion,
        asked_confidence=request.confidence,
        confidence_basis=confidence_basis(rows),
        golden=bisection.golden,
        golden_directory=_golden_directory(rows),
        ranges=tuple(_range_report(searched) for searched in rows.ranges),
        rates=_end_rates(rows),
        counterfactuals=conclusion.counterfactuals if conclusion else (),
        layers=conclusion.layers if conclusion else (),
        yardstick=conclusion.yardstick if conclusion else None,
        probes=probe_reports(rows),
        perturbations=perturbation_reports(rows),
        cherry_picks=tuple(_patch_report(rows, pick) for pick in request.cherry_picks),
        renames=request.stack.renames,
        skipped=skipped_commits(rows),
        collapsed=tuple(commit for searched in rows.ranges for commit in _collapsed_commits(rows, searched)),
        pins=conclusion.pins if conclusion else (),
        environment=_environment_report(rows),
        caveats=find_caveats(rows, sides),
        notices=tuple(notice.text for notice in bisection.notices),
        localization=_localization(rows),
        explanation=_explanation(rows),
        reproduce=sides,
        repeat=repeat_command(str(request.folder), request.typed) if request.typed else None,
        reduce=_reduce_command(rows),
        timing=_timing(rows),
    )


def both_sides(rows: Rows) -> Reproduction:
    """Return both sides of the answer: the culprit and its parent.

    An end of the range replaces a side where there is no culprit, or where its parent was not judged.
    """
    conclusion = rows.conclusion
    if not rows.ranges:
        return Reproduction(good=None, bad=None)
    named = conclusion and (conclusion.culprits[0] if conclusion.culprits else conclusion.through)
    searched = rows.ranges[0]
    if named is not None:
        searched = rows.last_range_of(named.repository)
    old, new = Judgement.GOOD, Judgement.BAD
    if searched.stage.seeks is Seeks.FIX:
        old, new = new, old
    sides: dict[Judgement, Side | None] = {old: None, new: None}
    if named is not None:
        sides[new] = _side(rows, searched, named.commit, new)
        sides[old] = _side(rows, searched, named.parent, old) if named.parent else None
    for judgement, end in ((old, searched.stage.old), (new, searched.stage.new)):
        sides[judgement] = sides[judgement] or _side(rows, searched, end, judgement)
    return Reproduction(good=sides[Judgement.GOOD], bad=sides[Judgement.BAD])


def _side(rows: Rows, searched: SearchedRange, sha: str, wanted: Judgement) -> Side | None:
    """Return a commit as a side of the answer. None where no run of its content was judged as `wanted`."""
    runs = searched.runs_of(sha)
    fitting = [probe for probe in runs if rows.judgement(probe) is wanted]
    if not fitting:
        return None
    # Prefer the newest run of the commit itself to the newest run of equal content.
    shown = next((probe for probe in reversed(fitting) if probe.commit == sha), fitting[-1])
    repository = searched.stage.repository
    # A run of equal content stands for this commit, so its revisions are used with this commit's id.
    revisions = {**shown.revisions, repository: sha}
    under = _answer_perturbation(rows, searched, sha, wanted)
    assert shown.verdict is not None
    subject = rows.subject(repository, sha)
    return Side(
        repository=repository,
        commit=sha,
        subject=subject,
        revisions=revisions,
        verdict=shown.verdict,
        verdict_source=shown.verdict_source,
        signature=shown.signature,
        runs=tuple(probe.ordinal for probe in runs if rows.judgement(probe) is not Judgement.SKIP),
        failures=sum(rows.judgement(probe) is Judgement.BAD for probe in runs),
        shown=shown.ordinal,
        script=reproduction_script(
            rows.request,
            about=f"{repository} {sha} is {wanted}: {_result_phrase(rows, shown, wanted)}"
            + (f", under {under}" if under else ""),
            revisions={**revisions, PERTURBATION_KEY: under} if under else revisions,
            recorded=shown.command or (),
            environment=shown.environment.details if shown.environment else {},
        ),
    )


def _result_phrase(rows: Rows, shown: ProbeRow, wanted: Judgement) -> str:
    bad_when = rows.request.bad_when
    sought = None if bad_when is None else condition_phrase(bad_when, is_bad=wanted is Judgement.BAD)
    return sought or verdict_phrase(str(shown.verdict), shown.signature, shown.verdict_source)


def _answer_perturbation(rows: Rows, searched: SearchedRange, sha: str, wanted: Judgement) -> str | None:
    """Return the perturbation of the answer, if this commit always shows its side under it; otherwise None."""
    named = rows.conclusion.culprits if rows.conclusion else ()
    under = next((each.under for each in named if each.under), None)
    judgements = {
        probe.judgement
        for probe in rows.probes
        if under is not None
        and perturbation_name(probe.revisions) == under
        and searched.representative_of(probe.commit) == searched.representative_of(sha)
    }
    return under if judgements == {wanted} else None


def _answer_commit(rows: Rows, named: NamedCommit) -> AnswerCommit:
    known = rows.commits.get((named.repository, named.commit))
    page = rows.request.commit_pages.get(named.repository)
    # The commits of releases are made by this tool, so their author and date say nothing about the release.
    authored = known if named.version is None else None
    return AnswerCommit(
        url=None if page is None else f"{page}{named.commit}",
        repository=named.repository,
        commit=named.commit,
        subject=rows.subject(named.repository, named.commit),
        parent=named.parent,
        confidence=named.confidence,
        merge=named.merge,
        joins=named.merge and known is not None and _all_judged(rows, named.repository, known.parents),
        version=named.version,
        under=named.under,
        author=authored.author if authored else None,
        email=authored.email if authored else None,
        date=authored.date if authored else None,
        files=tuple(known.files) if known else (),
        diff=_culprit_diff(rows, named),
    )


def _all_judged(rows: Rows, repository: str, commits: Iterable[str]) -> bool:
    """Return whether each of some commits has a run that was good or bad."""
    searched = rows.last_range_of(repository)
    return all(
        any(rows.judgement(probe) is not Judgement.SKIP for probe in searched.runs_of(commit))
        for commit in commits
    )


_MAX_HUNKS = 4
"""A report quotes this many hunks of a culprit, the likeliest first. The whole diff is in git."""


def _culprit_diff(rows: Rows, named: NamedCommit) -> CommitDiff | None:
    """Return the diff of a culprit, with its likeliest hunks."""
    diffs = rows.conclusion.diffs if rows.conclusion else ()
    diff = next((each for each in diffs if each.commit == named.commit), None)
    if diff is None:
        return None
    names = (*failure_names(rows.request, rows.probes), *_localized_names(rows))
    return diff.model_copy(update={"hunks": nearest_hunks(diff.hunks, names, most=_MAX_HUNKS)})


def _localized_names(rows: Rows) -> Iterator[str]:
    """Yield the names in a localization: the first pass that differs, diverging kernels, and causes."""
    found = rows.conclusion.localization if rows.conclusion else None
    if found is None or found.divergence is None:
        return
    generated = found.divergence.generated
    if generated is not None and generated.first_pass is not None:
        yield generated.first_pass.name
    yield from (each.kernel for each in found.divergence.first_divergent)
    yield from (cause.what for cause in found.divergence.causes)


def probe_reports(rows: Rows) -> tuple[ProbeReport, ...]:
    """Return all finished runs in order, grouped by the content that they tested and the reason for it."""
    groups: dict[tuple[Phase, int, str], list[ProbeRow]] = {}
    for probe in rows.probes:
        groups.setdefault((probe.phase, probe.stage_id, probe.content), []).append(probe)
    return tuple(_probe_report(rows, runs) for runs in groups.values())


def _probe_report(rows: Rows, stored: Sequence[ProbeRow]) -> ProbeReport:
    first = stored[0]
    runs = tuple(_run_report(rows, probe) for probe in stored)
    by_weight = (Judgement.BAD, Judgement.GOOD, Judgement.SKIP)
    deciding = min(runs, key=lambda run: by_weight.index(run.judgement))
    return ProbeReport(
        repository=first.repository,
        commit=first.commit,
        subject=rows.subject(first.repository, first.commit),
        phase=first.phase,
        revisions=first.revisions,
        verdict=deciding.verdict,
        judgement=deciding.judgement,
        signature=deciding.signature,
        seconds=sum(run.build_seconds + run.run_seconds for run in runs),
        build=runs[0].build,
        runs=runs,
    )


def _run_report(rows: Rows, probe: ProbeRow) -> RunReport:
    """Return a finished and judged run as the report shows it."""
    judgement = rows.judgement(probe)
    assert probe.finished is not None
    assert probe.verdict is not None
    assert judgement is not None
    assert probe.build_source is not None
    artifacts = {artifact.kind: artifact.path for artifact in probe.artifacts}
    return RunReport(
        ordinal=probe.ordinal,
        verdict=probe.verdict,
        verdict_source=probe.verdict_source,
        judgement=judgement,
        signature=probe.signature,
        metrics=_metrics(probe.metrics or {}),
        error=_run_error(probe),
        build_seconds=probe.build_seconds or 0.0,
        run_seconds=probe.run_seconds or 0.0,
        build=probe.build_source,
        build_key=probe.build.key if probe.build else None,
        exit_code=probe.exit_code,
        slot=probe.slot or 0,
        host=probe.host or "",
        attempt=probe.attempt,
        started=probe.started,
        finished=probe.finished,
        evidence=_evidence_lines(probe),
        log=artifacts.get("log"),
        build_directory=artifacts.get("build_directory"),
        command=tuple(probe.command or ()),
        reused=None if probe.reused is None else probe.reused.bisection.name,
    )


def _evidence_lines(probe: ProbeRow) -> tuple[EvidenceLine, ...]:
    return tuple(
        EvidenceLine(stream=line.stream, line=line.line, text=line.text, why=line.why)
        for line in probe.evidence
    )


def _metrics(stored: Mapping[str, Mapping[str, float]]) -> dict[str, dict[str, Metric]]:
    return {
        output: {name: to_metric(value) for name, value in values.items()}
        for output, values in stored.items()
    }


def _run_error(probe: ProbeRow) -> RunError | None:
    size = error_size(probe.metrics or {})
    return RunError(measure=size.measure, value=to_metric(size.value)) if size else None


def perturbation_reports(rows: Rows) -> tuple[PerturbationReport, ...]:
    """Return what both ends of a range did under each perturbation, in the order in which they were tried."""
    runs: dict[tuple[int, str], list[ProbeRow]] = {}
    for probe in rows.probes:
        name = perturbation_name(probe.revisions)
        if name is not None:
            runs.setdefault((probe.stage_id, name), []).append(probe)
    ranges = {searched.stage.id: searched for searched in rows.ranges}
    return tuple(
        _perturbation_report(rows, ranges[stage], name, probes) for (stage, name), probes in runs.items()
    )


def _perturbation_report(
    rows: Rows, searched: SearchedRange, name: str, probes: Sequence[ProbeRow]
) -> PerturbationReport:
    stage = searched.stage
    ends = searched.representative_of(stage.old), searched.representative_of(stage.new)
    good, bad = ends if stage.seeks is Seeks.REGRESSION else ends[::-1]

    def end_judgements(end: str) -> list[Judgement | None]:
        judgements = [probe.judgement for probe in probes if searched.representative_of(probe.commit) == end]
        return [judgement for judgement in judgements if judgement is not Judgement.SKIP]

    at_bad, at_good = end_judgements(bad), end_judgements(good)
    return PerturbationReport(
        name=name,
        changes=rows.request.stack.perturbations[name].description,
        bad_runs=len(at_bad),
        bad_failures=at_bad.count(Judgement.BAD),
        good_runs=len(at_good),
        good_failures=at_good.count(Judgement.BAD),
        searched=any(searched.representative_of(probe.commit) not in ends for probe in probes),
    )


def skipped_commits(rows: Rows) -> tuple[SkippedCommit, ...]:
    """Return the commits that cannot be run, and the commits whose runs were all neither good nor bad."""
    known = {probe.content for probe in rows.probes if probe.judgement is not Judgement.SKIP}
    skipped: dict[tuple[str, str], SkippedCommit] = {}
    for searched in rows.ranges:
        repository = searched.stage.repository
        for sha in searched.untestable:
            skipped[repository, sha] = SkippedCommit(
                repository=repository,
                commit=sha,
                subject=rows.subject(repository, sha),
                verdict=None,
                reason=(
                    "it was named with --skip"
                    if sha in rows.request.skip
                    else "it has no pin of another repository, or the pinned commit is missing"
                ),
            )
    for probe in rows.probes:
        if probe.content in known or not probe.phase.is_unmodified or probe.verdict is None:
            continue
        skipped[probe.repository, probe.commit] = SkippedCommit(
            repository=probe.repository,
            commit=probe.commit,
            subject=rows.subject(probe.repository, probe.commit),
            verdict=probe.verdict,
            reason=_skip_reason(probe),
            verdict_source=probe.verdict_source,
            exit_code=probe.exit_code,
        )
    return tuple(skipped.values())


def _skip_reason(probe: ProbeRow) -> str:
    if probe.signature:
        return probe.signature
    evidence = _evidence_lines(probe)
    if not evidence:
        return "no line of its output says why"
    return printed_cause(evidence) or evidence[0].text


def _patch_report(rows: Rows, pick: CherryPick) -> PatchReport:
    repository = rows.bisection.repository
    used = (
        probe.revisions[repository]
        for probe in rows.probes
        if pick.commit in list_patches(probe.revisions, repository)
        and probe.verdict_source is not VerdictSource.PATCH_CONFLICT
    )
    return PatchReport(
        repository=repository,
        commit=pick.commit,
        subject=rows.subject(repository, pick.commit),
        old=pick.old,
        new=pick.new,
        used_at=tuple(dict.fromkeys(used)),
    )


def _range_report(searched: SearchedRange) -> RangeReport:
    stage = searched.stage
    return RangeReport(
        repository=stage.repository,
        seeks=stage.seeks,
        good=stage.old if stage.seeks is Seeks.REGRESSION else stage.new,
        bad=stage.new if stage.seeks is Seeks.REGRESSION else stage.old,
        held=stage.held,
        commits=searched.commit_count,
        candidates=searched.candidate_count,
    )


def _collapsed_commits(rows: Rows, searched: SearchedRange) -> list[CollapsedCommit]:
    repository = searched.stage.repository
    order = [candidate.sha for candidate in searched]
    same = {sha: searched.representative_of(sha) for sha in order if searched.representative_of(sha) != sha}
    for sha in searched.runs.keys() - searched.own_runs.keys():
        # Such a commit is its own representative, as a merge can be, but runs of equal content count for it.
        same.setdefault(sha, searched.runs[sha][0].commit)
    return [
        CollapsedCommit(
            repository=repository, commit=sha, subject=rows.subject(repository, sha), same_as=same[sha]
        )
        for sha in order
        if sha in same
    ]


def _end_rates(rows: Rows) -> tuple[EndRate, ...]:
    """Return how often each end failed when it was measured, where runs of equal content count too.

    The rates are counted from the rows, so that ends that did not differ have rates too. A run counts as it was judged
    when it ended. `Conclusion.rates` differs: it counts the runs of all phases, as the last step judged them.
    """
    bisection = rows.bisection
    measured = [probe for probe in rows.probes if probe.phase is Phase.ENDPOINT]

    def rate(end: Literal["good", "bad"], sha: str) -> EndRate:
        content = rows.ranges[0].content(sha) if rows.ranges else None
        judgements = [
            probe.judgement for probe in measured if probe.commit == sha or probe.content == content
        ]
        failures = judgements.count(Judgement.BAD)
        return EndRate(
            end=end, commit=sha, runs=failures + judgements.count(Judgement.GOOD), failures=failures
        )

    return rate("good", bisection.good), rate("bad", bisection.bad)


def _environment_report(rows: Rows) -> EnvironmentReport:
    runs: dict[str, list[int]] = {}
    details: dict[str, dict[str, str]] = {}
    for probe in rows.probes:
        if probe.environment is not None:
            runs.setdefault(probe.environment.fingerprint, []).append(probe.ordinal)
            details[probe.environment.fingerprint] = probe.environment.details
    changes = [
        change
        for before, after in pairwise(details.values())
        for change in description_changes(before, after)
    ]
    return EnvironmentReport(
        moved=len(runs) > 1,
        changes=tuple(changes),
        surroundings=tuple(
            Surroundings(fingerprint=fingerprint, details=details[fingerprint], runs=tuple(ordinals))
            for fingerprint, ordinals in runs.items()
        ),
    )


def _golden_directory(rows: Rows) -> str | None:
    places = (
        each.path for probe in reversed(rows.probes) for each in probe.artifacts if each.kind == "golden_data"
    )
    return next(places, None)


def _localization(rows: Rows) -> Localization | None:
    """Return the localization of the culprit, completed by a reduction in the report's folder."""
    found = rows.conclusion.localization if rows.conclusion else None
    folder = _reduction_folder(rows)
    if found is None or found.reduced is not None or (size := read_reduction(folder)) is None:
        return found
    return found.model_copy(update={"reduction": size, "reduced": folder})


def _explanation(rows: Rows) -> ExplanationReport | None:
    """Return what a localization left in the report's folder on the passes of the culprit's program."""
    if rows.conclusion is None or rows.conclusion.localization is None:
        return None
    return read_result(rows.request.output / EXPLANATION, ExplanationReport)


def _reduction_folder(rows: Rows) -> Path:
    """Return the folder of a reduction."""
    return rows.request.output / "reduced"


def _reduce_command(rows: Rows) -> str | None:
    """Return the command that reduces the culprit's build by comparing it with its parent's.

    None where it is reduced already, or where there are no two builds to compare.
    """
    if (
        rows.conclusion is None
        or not rows.conclusion.culprits
        or read_reduction(_reduction_folder(rows)) is not None
    ):
        return None
    try:
        compared_pair(rows)
    except NothingToCompareError:
        return None
    # The folder of an interrupted reduction may exist. Only the command that began it can continue there.
    names = chain(
        [_reduction_folder(rows)], (_reduction_folder(rows).with_name(f"reduced-{n}") for n in count(2))
    )
    output = next(folder for folder in names if not os.path.lexists(folder))
    return command_line(["reduce", "--bisection", rows.bisection.name, "-o", str(output)])


def _unfinished_message(rows: Rows) -> str:
    so_far = plural(len(rows.probes), "run")
    resume = command_line(["bisect-precision", "--resume", rows.bisection.name])
    assert rows.unfinished is not None
    when = "if it does not run, " if rows.unfinished.may_run else ""
    why = "" if rows.unfinished.why is None else f"{rows.unfinished.why}; "
    return f"{why}{so_far} so far; {when}go on with {resume}"


def _timing(rows: Rows) -> Timing:
    bisection = rows.bisection
    own = [probe for probe in rows.probes if probe.reused_id is None]
    ends = [probe.finished for probe in own if probe.finished is not None]
    last = bisection.finished or max(ends, default=bisection.created)
    total = sum((probe.finished - probe.started).total_seconds() for probe in own if probe.finished)
    build = sum(probe.build_seconds or 0.0 for probe in own)
    run = sum(probe.run_seconds or 0.0 for probe in own)
    return Timing(
        elapsed=(last - bisection.created).total_seconds(),
        waited=_waited_seconds(rows),
        total=total,
        build=build,
        run=run,
        overhead=max(0.0, total - build - run),
    )


def _waited_seconds(rows: Rows) -> float | None:
    """Return the seconds that all starts took together. A start that was killed lasts until the end of its last run."""
    drives = rows.bisection.drives
    if not drives:
        return None
    ends = [probe.finished for probe in rows.probes if probe.finished is not None]
    seconds = 0.0
    for drive, later in zip_longest(drives, drives[1:]):
        own = (end for end in ends if end >= drive.begun and (later is None or end < later.begun))
        seconds += (max([drive.last_alive, *own]) - drive.begun).total_seconds()
    return seconds


class NothingToCompareError(Exception):
    """There are no two builds whose runs could be compared. The message says why."""


@dataclass(frozen=True, kw_only=True)
class ComparedSide:
    """A probe of one side. `role` is its name on the screen and in folders."""

    role: str
    side: Side
    probe: ProbeRow


@dataclass(frozen=True, kw_only=True)
class ComparedProbe(ComparedSide):
    """A probe with the build directory that its run left."""

    build: Path


@dataclass(frozen=True, kw_only=True)
class ComparedPair:
    """The probes of both sides. `golden` names the frozen data of both."""

    culprit: ComparedProbe
    parent: ComparedProbe
    golden: str


def compared_pair(rows: Rows) -> ComparedPair:
    """Return the culprit's probe and its parent's, with their builds.

    Raises:
        NothingToCompareError: the case has no tensors, one of the two was not run, or its build directory is gone.
    """
    request = rows.request
    if request.is_command or request.interactive or not request.stack.case.harness:
        raise NothingToCompareError("the case is a command of its own, without tensors to compare")
    culprit, parent = compared_sides(rows)
    golden = rows.bisection.golden
    if golden is None:
        raise NothingToCompareError("the runs had no frozen data")
    return ComparedPair(culprit=_find_build(culprit), parent=_find_build(parent), golden=golden)


def compared_sides(rows: Rows) -> tuple[ComparedSide, ComparedSide]:
    """Return a run of the culprit and a run of its parent.

    Raises:
        NothingToCompareError: one of the two was not run, or the culprit's run leaves nothing to compare.
    """
    sides = both_sides(rows)
    if sides.bad is None or sides.good is None:
        raise NothingToCompareError("there is no run of the culprit beside one of a commit that passes")
    if not sides.bad.verdict.traits.leaves_tensors:
        raise NothingToCompareError(f"a {sides.bad.verdict} leaves no values to compare")
    return _compared_side(rows, sides.bad, "culprit"), _compared_side(rows, sides.good, "parent")


def _compared_side(rows: Rows, side: Side, role: str) -> ComparedSide:
    probe = next(probe for probe in rows.probes if probe.ordinal == side.shown)
    return ComparedSide(role=role, side=side, probe=probe)


def _find_build(compared: ComparedSide) -> ComparedProbe:
    probe = compared.probe
    paths: Sequence[Path] = [Path(one.path) for one in probe.artifacts if one.kind == "build_directory"]
    build = next((path for path in paths if path.is_dir()), None)
    if build is None:
        raise NothingToCompareError(
            "a build directory of the culprit's or its parent's runs is not there any more"
        )
    return ComparedProbe(role=compared.role, side=compared.side, probe=probe, build=build)


def is_scene_test(request: BisectRequest) -> bool:
    """Return whether the case is a scene test's script. It leaves no build directory and is compared separately."""
    case = request.stack.case
    return case.scene_tests and not case.harness and request.case is not None and not request.is_command
