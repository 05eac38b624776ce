"""Builds the report of a bisection from its rows.

`report_of_rows` is the entry point. `both_sides` chooses the runs that show the good and the bad side of the answer,
with scripts that reproduce them. `probe_reports` lists the finished runs, and `skipped_commits` the commits that could
not be judged. `compared_pair` returns the two probes whose builds a localization compares: one of the culprit, and one
of a commit that passes.
"""

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib import metadata
from itertools import chain, count, pairwise, zip_longest
from pathlib import Path
from typing import Literal

from sqlalchemy.orm import Session

from ...runner.case.case import PERTURBATION_KEY, perturbation_name
from ...runner.commit_diff import CommitDiff, nearest_hunks
from ...runner.localization import Localization, read_reduction
from ...runner.overlays import CherryPick, list_patches
from ...runner.verdict.rules import error_size
from ...runner.workspace.environment import description_changes
from ...runner.workspace.home import command_line
from ...store.tables import ProbeRow
from ...store.vocabulary import Judgement, Phase, Seeks, VerdictSource, plural, verdict_words
from ..ask.question import BisectRequest, repeat_command
from ..drive.session import failure_names
from ..engine.answer import EndRate, NamedCommit
from .basis import (
    Rows,
    SearchedRange,
    confidence_basis,
    load_rows,
    near_tolerance_caveat,
    other_failure_caveat,
    other_failures,
    silent_failure_caveat,
)
from .model import (
    UNFINISHED,
    AnswerCommit,
    CollapsedCommit,
    CommitReference,
    EnvironmentReport,
    EvidenceLine,
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
from .phrases import condition_words
from .reproduce import reproduction_script


def both_sides(rows: Rows) -> Reproduction:
    """Return both sides of the answer: the culprit and its parent.

    An end of the range takes the place of a side where there is no culprit, or where its parent was not judged.
    """
    conclusion = rows.conclusion
    if not rows.ranges:
        return Reproduction(good=None, bad=None)
    named = conclusion and (conclusion.culprits[0] if conclusion.culprits else conclusion.through)
    standing = rows.ranges[0]
    if named is not None:
        standing = next(each for each in reversed(rows.ranges) if each.stage.repository == named.repository)
    old, new = Judgement.GOOD, Judgement.BAD
    if standing.stage.seeks is Seeks.FIX:
        old, new = new, old
    shown: dict[Judgement, Side | None] = {old: None, new: None}
    if named is not None:
        shown[new] = _side(rows, standing, named.commit, new)
        shown[old] = _side(rows, standing, named.parent, old) if named.parent else None
    for judgement, end in ((old, standing.stage.old), (new, standing.stage.new)):
        shown[judgement] = shown[judgement] or _side(rows, standing, end, judgement)
    return Reproduction(good=shown[Judgement.GOOD], bad=shown[Judgement.BAD])


def _side(rows: Rows, standing: SearchedRange, sha: str, wanted: Judgement) -> Side | None:
    """Return a commit as a side of the answer.

    None where no run of the commit, or of equal content, was judged as `wanted`.
    """
    runs = standing.runs_of(sha)
    fitting = [probe for probe in runs if rows.judgement(probe) is wanted]
    if not fitting:
        return None
    # Prefer the newest run of the commit itself to the newest run of equal content.
    shown = next((probe for probe in reversed(fitting) if probe.commit == sha), fitting[-1])
    repository = standing.stage.repository
    # A run of equal content stands for this commit, so its revisions are used with this commit's id.
    revisions = {**shown.revisions, repository: sha}
    under = _answer_perturbation(rows, standing, sha, wanted)
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
            about=f"{repository} {sha} is {wanted}: {_result_words(rows, shown, wanted)}"
            + (f", under {under}" if under else ""),
            revisions={**revisions, PERTURBATION_KEY: under} if under else revisions,
            recorded=shown.command or (),
            environment=shown.environment.details if shown.environment else {},
        ),
    )


def _result_words(rows: Rows, shown: ProbeRow, wanted: Judgement) -> str:
    bad_when = rows.request.bad_when
    sought = None if bad_when is None else condition_words(bad_when, is_bad=wanted is Judgement.BAD)
    return sought or verdict_words(str(shown.verdict), shown.signature, shown.verdict_source)


def _answer_perturbation(rows: Rows, standing: SearchedRange, sha: str, wanted: Judgement) -> str | None:
    """Return the perturbation of the answer, if this commit always shows its side under it; otherwise None."""
    named = rows.conclusion.culprits if rows.conclusion else ()
    under = next((each.under for each in named if each.under), None)
    judgements = {
        probe.judgement
        for probe in rows.probes
        if under is not None
        and perturbation_name(probe.revisions) == under
        and standing.representative_of(probe.commit) == standing.representative_of(sha)
    }
    return under if judgements == {wanted} else None


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
    """The probes of both sides. `golden` names the frozen data that both ran on."""

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


def is_scene_test(request: BisectRequest) -> bool:
    """Return whether the case is a scene test's script. It leaves no build directory and is compared separately."""
    case = request.stack.case
    return case.scene_tests and not case.harness and request.case is not None and not request.is_command


def compared_sides(rows: Rows) -> tuple[ComparedSide, ComparedSide]:
    """Return a run of the culprit and a run of its parent.

    Raises:
        NothingToCompareError: one of the two was not run, or the culprit's leaves nothing to compare.
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


_SKIP_OPTION_REASON = "it was named with --skip"


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
        error=_error(probe),
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
        evidence=tuple(
            EvidenceLine(stream=line.stream, line=line.line, text=line.text, why=line.why)
            for line in probe.evidence
        ),
        log=artifacts.get("log"),
        build_directory=artifacts.get("build_directory"),
        command=tuple(probe.command or ()),
        reused=None if probe.reused is None else probe.reused.bisection.name,
    )


def skipped_commits(rows: Rows) -> tuple[SkippedCommit, ...]:
    """Return the commits that cannot be run, and the commits whose runs were all neither good nor bad."""
    known = {probe.content for probe in rows.probes if probe.judgement is not Judgement.SKIP}
    skipped: dict[tuple[str, str], SkippedCommit] = {}
    for standing in rows.ranges:
        repository = standing.stage.repository
        for sha in standing.untestable:
            skipped[repository, sha] = SkippedCommit(
                repository=repository,
                commit=sha,
                subject=rows.subject(repository, sha),
                verdict=None,
                reason=_SKIP_OPTION_REASON
                if sha in rows.request.skip
                else "it pins no commit of a submodule",
            )
    for probe in rows.probes:
        if probe.content in known or not probe.phase.is_unmodified or probe.verdict is None:
            continue
        skipped[probe.repository, probe.commit] = SkippedCommit(
            repository=probe.repository,
            commit=probe.commit,
            subject=rows.subject(probe.repository, probe.commit),
            verdict=probe.verdict,
            reason=_reason(probe),
            verdict_source=probe.verdict_source,
            exit_code=probe.exit_code,
        )
    return tuple(skipped.values())


def _reason(probe: ProbeRow) -> str:
    if probe.signature:
        return probe.signature
    return probe.evidence[0].text if probe.evidence else "no line of its output says why"


def _metrics(stored: Mapping[str, Mapping[str, float]]) -> dict[str, dict[str, Metric]]:
    return {
        output: {name: to_metric(value) for name, value in values.items()}
        for output, values in stored.items()
    }


def _error(probe: ProbeRow) -> RunError | None:
    size = error_size(probe.metrics or {})
    return RunError(measure=size.measure, value=to_metric(size.value)) if size else None


def perturbation_reports(rows: Rows) -> tuple[PerturbationReport, ...]:
    """Return what both ends of a range did under each perturbation, in the order in which they were tried."""
    runs: dict[tuple[int, str], list[ProbeRow]] = {}
    for probe in rows.probes:
        name = perturbation_name(probe.revisions)
        if name is not None:
            runs.setdefault((probe.stage_id, name), []).append(probe)
    ranges = {standing.stage.id: standing for standing in rows.ranges}
    return tuple(_perturbation(rows, ranges[stage], name, probes) for (stage, name), probes in runs.items())


def _perturbation(
    rows: Rows, standing: SearchedRange, name: str, probes: Sequence[ProbeRow]
) -> PerturbationReport:
    stage = standing.stage
    ends = standing.representative_of(stage.old), standing.representative_of(stage.new)
    good, bad = ends if stage.seeks is Seeks.REGRESSION else ends[::-1]

    def end_judgements(end: str) -> list[Judgement | None]:
        of_end = [probe.judgement for probe in probes if standing.representative_of(probe.commit) == end]
        return [judgement for judgement in of_end if judgement is not Judgement.SKIP]

    return PerturbationReport(
        name=name,
        changes=rows.request.stack.perturbations[name].description,
        bad_runs=len(end_judgements(bad)),
        bad_failures=end_judgements(bad).count(Judgement.BAD),
        good_runs=len(end_judgements(good)),
        good_failures=end_judgements(good).count(Judgement.BAD),
        searched=any(standing.representative_of(probe.commit) not in ends for probe in probes),
    )


_DISTRIBUTION = "precision-bisect"
_MOST_HUNKS = 4
"""A report quotes this many hunks of a culprit, the nearest to the failure first. The whole diff is in git."""


def build_report(session: Session, name: str) -> Report:
    """Return the report of a bisection, finished or not.

    Raises `UserError` where the store has no bisection of this name.
    """
    return report_of_rows(load_rows(session, name))


def report_of_rows(rows: Rows) -> Report:
    """Return the report of a bisection whose rows are loaded."""
    bisection, request, conclusion = rows.bisection, rows.request, rows.conclusion
    sides = both_sides(rows)
    return Report(
        tool_version=metadata.version(_DISTRIBUTION),
        name=bisection.name,
        created=bisection.created,
        finished=bisection.finished,
        outcome=conclusion.outcome if conclusion else UNFINISHED,
        message=conclusion.message if conclusion else _unfinished_message(rows),
        culprits=tuple(_answer(rows, named) for named in conclusion.culprits) if conclusion else (),
        through=_answer(rows, conclusion.through) if conclusion and conclusion.through else None,
        lost=_answer(rows, conclusion.lost) if conclusion and conclusion.lost else None,
        suspects=tuple(_answer(rows, named) for named in conclusion.suspects) if conclusion else (),
        no_commit=conclusion.no_commit if conclusion else None,
        other_failures=other_failures(rows),
        earlier_failures=tuple(
            _reference(rows, bisection.repository, sha) for sha in conclusion.earlier_failures
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
        ranges=tuple(_range(standing) for standing in rows.ranges),
        rates=_rates(rows),
        counterfactuals=conclusion.counterfactuals if conclusion else (),
        layers=conclusion.layers if conclusion else (),
        yardstick=conclusion.yardstick if conclusion else None,
        probes=probe_reports(rows),
        perturbations=perturbation_reports(rows),
        cherry_picks=tuple(_patch(rows, pick) for pick in request.cherry_picks),
        renames=request.stack.renames,
        skipped=skipped_commits(rows),
        collapsed=tuple(commit for standing in rows.ranges for commit in _collapsed_commits(rows, standing)),
        pins=conclusion.pins if conclusion else (),
        environment=_environment(rows),
        caveats=_caveats(rows, sides),
        notices=tuple(notice.text for notice in bisection.notices),
        localization=_localization(rows),
        reproduce=sides,
        repeat=repeat_command(str(request.folder), request.typed) if request.typed else None,
        reduce=_reduce_command(rows),
        timing=_timing(rows),
    )


def _caveats(rows: Rows, sides: Reproduction) -> tuple[str, ...]:
    """Return what speaks against the answer, one text for each caveat."""
    found = (
        other_failure_caveat(rows, sides.bad),
        silent_failure_caveat(rows, sides.bad),
        near_tolerance_caveat(rows, sides),
    )
    return tuple(filter(None, found))


def _localization(rows: Rows) -> Localization | None:
    """Return the localization of the culprit, completed by a reduction that lies beside the report."""
    found = rows.conclusion.localization if rows.conclusion else None
    folder = _reduction_folder(rows)
    if found is None or found.reduced is not None or (size := read_reduction(folder)) is None:
        return found
    return found.model_copy(update={"reduction": size, "reduced": folder})


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
    # A folder of an interrupted reduction may exist. Only its own command can go on with it, so take another name.
    names = chain(
        [_reduction_folder(rows)], (_reduction_folder(rows).with_name(f"reduced-{n}") for n in count(2))
    )
    output = next(folder for folder in names if not os.path.lexists(folder))
    return command_line(["reduce", "--bisection", rows.bisection.name, "-o", str(output)])


def _golden_directory(rows: Rows) -> str | None:
    places = (
        each.path for probe in reversed(rows.probes) for each in probe.artifacts if each.kind == "golden_data"
    )
    return next(places, None)


def _unfinished_message(rows: Rows) -> str:
    so_far = plural(len(rows.probes), "run")
    resume = command_line(["bisect-precision", "--resume", rows.bisection.name])
    assert rows.unfinished is not None
    when = "if it does not run, " if rows.unfinished.may_run else ""
    why = "" if rows.unfinished.why is None else f"{rows.unfinished.why}; "
    return f"{why}{so_far} so far; {when}go on with {resume}"


def _reference(rows: Rows, repository: str, sha: str) -> CommitReference:
    return CommitReference(repository=repository, commit=sha, subject=rows.subject(repository, sha))


def _answer(rows: Rows, named: NamedCommit) -> AnswerCommit:
    known = rows.commits.get((named.repository, named.commit))
    page = rows.request.commit_pages.get(named.repository)
    # The commits of releases are made by this tool, so their author and date say nothing about the release.
    told = known if named.version is None else None
    return AnswerCommit(
        url=None if page is None else f"{page}{named.commit}",
        repository=named.repository,
        commit=named.commit,
        subject=known.subject if known else None,
        parent=named.parent,
        confidence=named.confidence,
        merge=named.merge,
        version=named.version,
        under=named.under,
        author=told.author if told else None,
        email=told.email if told else None,
        date=told.date if told else None,
        files=tuple(known.files) if known else (),
        diff=_diff(rows, named),
    )


def _diff(rows: Rows, named: NamedCommit) -> CommitDiff | None:
    """Return the diff of a culprit, with the hunks nearest to the failure."""
    diffs = rows.conclusion.diffs if rows.conclusion else ()
    diff = next((each for each in diffs if each.commit == named.commit), None)
    if diff is None:
        return None
    names = (*failure_names(rows.request, rows.probes), *_localized_names(rows))
    return diff.model_copy(update={"hunks": nearest_hunks(diff.hunks, names, most=_MOST_HUNKS)})


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


def _patch(rows: Rows, pick: CherryPick) -> PatchReport:
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


def _range(standing: SearchedRange) -> RangeReport:
    stage = standing.stage
    return RangeReport(
        repository=stage.repository,
        seeks=stage.seeks,
        good=stage.old if stage.seeks is Seeks.REGRESSION else stage.new,
        bad=stage.new if stage.seeks is Seeks.REGRESSION else stage.old,
        held=stage.held,
        commits=len(standing),
        candidates=sum(sha in standing for sha in standing.members),
    )


def _collapsed_commits(rows: Rows, standing: SearchedRange) -> list[CollapsedCommit]:
    repository = standing.stage.repository
    order = [candidate.sha for candidate in standing]
    same = {sha: standing.representative_of(sha) for sha in order if standing.representative_of(sha) != sha}
    for sha in standing.runs.keys() - standing.own_runs.keys():
        # It is its own representative, as a merge can be, but runs of equal content already showed its result.
        same.setdefault(sha, standing.runs[sha][0].commit)
    return [
        CollapsedCommit(
            repository=repository, commit=sha, subject=rows.subject(repository, sha), same_as=same[sha]
        )
        for sha in order
        if sha in same
    ]


def _rates(rows: Rows) -> tuple[EndRate, ...]:
    """Return how often each end failed.

    The runs are counted again here, so that ends that did not differ have rates too. A run of equal content counts as
    a run of the end.
    """
    bisection = rows.bisection
    measured = [probe for probe in rows.probes if probe.phase is Phase.ENDPOINT]

    def rate(end: Literal["good", "bad"], sha: str) -> EndRate:
        content = rows.ranges[0].content_of(sha) if rows.ranges else None
        of_end = [probe for probe in measured if probe.commit == sha or probe.content == content]
        judgements = [probe.judgement for probe in of_end]
        failures = judgements.count(Judgement.BAD)
        return EndRate(
            end=end, commit=sha, runs=failures + judgements.count(Judgement.GOOD), failures=failures
        )

    return rate("good", bisection.good), rate("bad", bisection.bad)


def _environment(rows: Rows) -> EnvironmentReport:
    met: dict[str, list[int]] = {}
    details: dict[str, dict[str, str]] = {}
    for probe in rows.probes:
        if probe.environment is not None:
            met.setdefault(probe.environment.fingerprint, []).append(probe.ordinal)
            details[probe.environment.fingerprint] = probe.environment.details
    changes = [
        change
        for before, after in pairwise(details.values())
        for change in description_changes(before, after)
    ]
    return EnvironmentReport(
        moved=len(met) > 1,
        changes=tuple(changes),
        surroundings=tuple(
            Surroundings(fingerprint=fingerprint, details=details[fingerprint], runs=tuple(ordinals))
            for fingerprint, ordinals in met.items()
        ),
    )


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
        waited=_wait_seconds(rows),
        total=total,
        build=build,
        run=run,
        overhead=max(0.0, total - build - run),
    )


def _wait_seconds(rows: Rows) -> float | None:
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
