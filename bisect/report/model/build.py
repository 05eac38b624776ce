"""From the rows of one bisection to its report."""

import os
from importlib import metadata
from itertools import chain, count, pairwise
from pathlib import Path
from typing import Literal

from sqlalchemy.orm import Session

from ....runner.git.cherry_picks import CherryPick, patches_in
from ....runner.localization.answer import Localization, read_reduction
from ....runner.probe.judgement import was_patch_conflict
from ....runner.workspace.environment import moved
from ....runner.workspace.home import command_line
from ....store.vocabulary import Judgement, Phase, Seeks
from ....store.words import plural
from ...plan.typed import repeating
from ...result import EndRate, NamedCommit
from .basis import confidence_basis
from .caveats.near_tolerance import near_tolerance
from .caveats.other_failure import other_failure
from .compared import NothingToCompareError, compared_pair
from .met_failures import met_failures
from .model import (
    UNFINISHED,
    AnswerCommit,
    CollapsedCommit,
    CommitReference,
    EnvironmentReport,
    PatchReport,
    RangeReport,
    Report,
    Surroundings,
    Timing,
)
from .probes import perturbation_reports, probe_reports, skipped_commits
from .rows import Rows, load_rows
from .sides import both_sides
from .standing import Standing

_DISTRIBUTION = "precision-bisect"


def build_report(session: Session, name: str) -> Report:
    """The report of a bisection, finished or not. Raises `UserError` where the store has none by this name."""
    return report_of_rows(load_rows(session, name))


def report_of_rows(rows: Rows) -> Report:
    """The report of a bisection that is read already."""
    bisection, request, conclusion = rows.bisection, rows.request, rows.conclusion
    sides = both_sides(rows)
    return Report(
        tool_version=metadata.version(_DISTRIBUTION),
        name=bisection.name,
        created=bisection.created,
        finished=bisection.finished,
        outcome=conclusion.outcome if conclusion else UNFINISHED,
        message=conclusion.message if conclusion else _unfinished(rows),
        culprits=tuple(_answer(rows, named) for named in conclusion.culprits) if conclusion else (),
        through=_answer(rows, conclusion.through) if conclusion and conclusion.through else None,
        lost=_answer(rows, conclusion.lost) if conclusion and conclusion.lost else None,
        suspects=tuple(_answer(rows, named) for named in conclusion.suspects) if conclusion else (),
        no_commit=conclusion.no_commit if conclusion else None,
        other_failures=met_failures(rows),
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
        bad_when=request.says_bad,
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
        collapsed=tuple(commit for standing in rows.ranges for commit in _collapsed(rows, standing)),
        pins=conclusion.pins if conclusion else (),
        environment=_environment(rows),
        caveats=tuple(filter(None, (other_failure(rows, sides.bad), near_tolerance(rows, sides)))),
        notices=tuple(notice.text for notice in bisection.notices),
        localization=_localization(rows),
        reproduce=sides,
        repeat=repeating(str(request.folder), request.typed) if request.typed else None,
        reduce=_reduce_command(rows),
        timing=_timing(rows),
    )


def _localization(rows: Rows) -> Localization | None:
    """What came of localizing the culprit, with the reduction that is beside its report, whoever asked for it."""
    found = rows.conclusion.localization if rows.conclusion else None
    folder = _reduced(rows)
    if found is None or found.reduced is not None or (size := read_reduction(folder)) is None:
        return found
    return found.model_copy(update={"reduction": size, "reduced": folder})


def _reduced(rows: Rows) -> Path:
    """Where a reduction goes."""
    return rows.request.output / "reduced"


def _reduce_command(rows: Rows) -> str | None:
    """What reduces the culprit's build beside its parent's, and needs nothing else; None where that is done."""
    if rows.conclusion is None or not rows.conclusion.culprits or read_reduction(_reduced(rows)) is not None:
        return None
    try:
        compared_pair(rows)
    except NothingToCompareError:
        return None
    # One that was cut short may be there; only who began it knows how to go on with it.
    names = chain([_reduced(rows)], (_reduced(rows).with_name(f"reduced-{n}") for n in count(2)))
    output = next(folder for folder in names if not os.path.lexists(folder))
    return command_line(["reduce", "--bisection", rows.bisection.name, "-o", str(output)])


def _golden_directory(rows: Rows) -> str | None:
    places = (
        each.path for probe in reversed(rows.probes) for each in probe.artifacts if each.kind == "golden_data"
    )
    return next(places, None)


def _unfinished(rows: Rows) -> str:
    so_far = plural(len(rows.probes), "run")
    resume = command_line(["bisect-precision", "--resume", rows.bisection.name])
    return f"{so_far} so far; if it does not run, go on with {resume}"


def _reference(rows: Rows, repository: str, sha: str) -> CommitReference:
    return CommitReference(repository=repository, commit=sha, subject=rows.subject(repository, sha))


def _answer(rows: Rows, named: NamedCommit) -> AnswerCommit:
    known = rows.commits.get((named.repository, named.commit))
    page = rows.request.commit_pages.get(named.repository)
    # Nobody knows who made a release, or when: what git says there was put in by its history here.
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
    )


def _patch(rows: Rows, pick: CherryPick) -> PatchReport:
    repository = rows.bisection.repository
    used = (
        probe.revisions[repository]
        for probe in rows.probes
        if pick.commit in patches_in(probe.revisions, repository) and not was_patch_conflict(probe.signature)
    )
    return PatchReport(
        repository=repository,
        commit=pick.commit,
        subject=rows.subject(repository, pick.commit),
        old=pick.old,
        new=pick.new,
        used_at=tuple(dict.fromkeys(used)),
    )


def _range(standing: Standing) -> RangeReport:
    stage = standing.stage
    return RangeReport(
        repository=stage.repository,
        seeks=stage.seeks,
        good=stage.old if stage.seeks is Seeks.REGRESSION else stage.new,
        bad=stage.new if stage.seeks is Seeks.REGRESSION else stage.old,
        held=stage.held,
        commits=len(stage.candidates),
        candidates=sum(sha in standing for sha in standing.members),
    )


def _collapsed(rows: Rows, standing: Standing) -> list[CollapsedCommit]:
    repository = standing.stage.repository
    same = {
        sha: standing.of(sha)
        for sha in (candidate.commit.sha for candidate in standing.stage.candidates)
        if standing.of(sha) != sha
    }
    for sha in standing.runs.keys() - standing.runs_where_made.keys():
        # It stands for itself, as where it is a merge, but what runs of it would show was known.
        same.setdefault(sha, standing.runs[sha][0].commit)
    order = [candidate.commit.sha for candidate in standing.stage.candidates]
    return [
        CollapsedCommit(
            repository=repository, commit=sha, subject=rows.subject(repository, sha), same_as=same[sha]
        )
        for sha in order
        if sha in same
    ]


def _rates(rows: Rows) -> tuple[EndRate, ...]:
    """Counted anew, so that an end which did not differ is told of too. A run of a commit that reads the same as an end
    is one of it."""
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
    changes = [change for before, after in pairwise(details.values()) for change in moved(before, after)]
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
    ends = [probe.finished for probe in rows.probes if probe.finished is not None]
    last = bisection.finished or max(ends, default=bisection.created)
    total = sum((probe.finished - probe.started).total_seconds() for probe in rows.probes if probe.finished)
    build = sum(probe.build_seconds or 0.0 for probe in rows.probes)
    run = sum(probe.run_seconds or 0.0 for probe in rows.probes)
    return Timing(
        elapsed=(last - bisection.created).total_seconds(),
        total=total,
        build=build,
        run=run,
        overhead=max(0.0, total - build - run),
    )
