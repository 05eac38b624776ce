"""Both ends are run before anything else: do they differ, how often does each fail, what does a run need?"""

from collections.abc import Sequence
from pathlib import Path

from ...runner.case.golden import FrozenGolden, freeze, load_reader, thaw
from ...runner.errors import EndsError, UserError
from ...store.journal import Journal
from ...store.tables.bisections import ProbeRow
from ...store.vocabulary import Judgement, Phase, Seeks, Verdict
from ..plan.request import BisectRequest
from ..result import EndRate
from ..search.evidence.calibration import ends_differ, next_end
from .experiments import Experiment, Experiments
from .stage_search import Proposal, Run, StageSearch

MOST_RUNS_OF_GOOD = 3
"""Of a good end that has not passed yet."""
MOST_RUNS_OF_BAD = 8
"""Of a bad end that has not failed yet."""

_SHOULD = {Judgement.GOOD: "passes", Judgement.BAD: "fails"}


def prepare_golden(
    request: BisectRequest,
    *,
    journal: Journal,
    experiments: Experiments,
    good: Experiment | None,
    store: Path,
) -> FrozenGolden | None:
    """Freeze the data that all runs share: given, captured by the good end's first run, or frozen before a resume.

    None where there are none, or those of a good end that is not known yet are needed.
    """
    known = journal.row().golden
    if known is not None:
        return thaw(known, store)
    if request.golden_data is not None:
        golden = freeze(request.golden_data, store)
    elif request.captures_golden and good is not None:
        golden = freeze(_capture(experiments, good), store)
    else:
        return None
    journal.set_golden(golden.digest)
    return golden


def _capture(experiments: Experiments, good: Experiment) -> Path:
    """The data folder that a run of the good end saved."""
    probe = next(iter(experiments.finished(good.content)), None)
    if probe is None:
        load_reader()
        probe = experiments.run(good, Phase.ENDPOINT, save_golden=True)
    _require_good_verdict(probe, good)
    build = experiments.build_directory(probe)
    if build is None:
        raise UserError(
            f"good {good.commit[:12]}: expected the run to leave a build directory with data/in and data/out, "
            "found none; name frozen data with --golden-data DIR"
        )
    return build / "data"


def measure_ends(search: StageSearch) -> tuple[EndRate, EndRate]:
    """Run both ends until they differ with the asked confidence, and say how often each failed.

    Raises `EndsError` where they do not differ, `UserError` where an end cannot be judged.
    """
    experiments, good, bad = search.experiments, search.passing, search.failing
    try:
        run_until(Judgement.GOOD, experiments, good)
    except EndsError:
        if experiments.ensure(bad, Phase.ENDPOINT, runs=1)[0].judgement is Judgement.GOOD:
            raise _swapped(search) from None
        raise
    run_until(Judgement.BAD, experiments, bad)
    _run_in_turns(search)
    rates = _rate(experiments, "good", good), _rate(experiments, "bad", bad)
    if not ends_differ(search.posterior(), confidence=search.confidence):
        raise EndsError(
            f"expected good {good.commit[:12]} and bad {bad.commit[:12]} to differ, found that they fail "
            f"{rates[0].failures} of {rates[0].runs} and {rates[1].failures} of {rates[1].runs} times; "
            "name ends that differ, or say what is bad with --bad-when"
        )
    return rates


def _run_in_turns(search: StageSearch) -> None:
    known = {probe.ordinal for probe in search.experiments.in_order()}

    def propose(in_flight: Sequence[Run]) -> Proposal:
        for end in (search.old, search.new):
            for probe in search.experiments.finished(end.content):
                if probe.ordinal not in known:
                    _require_judged(probe, end)
        nodes = [run.node for run in in_flight]
        while len(nodes) < search.experiments.workers:
            end = next_end(search.posterior(), in_flight=nodes, confidence=search.confidence)
            if end is None:
                break
            nodes.append(end)
        return Proposal(start=tuple(Run(node, Phase.ENDPOINT) for node in nodes[len(in_flight) :]))

    search.conduct(propose)


def _swapped(search: StageSearch) -> EndsError:
    old, new = search.old.commit[:12], search.new.commit[:12]
    ends = f"good {search.passing.commit[:12]} fails and bad {search.failing.commit[:12]} passes"
    if search.stage.range.seeks is Seeks.REGRESSION:
        return EndsError(f"{ends}: did you mean --find-fix, with --bad {old} --good {new}?")
    return EndsError(f"{ends}: did you mean --good {old} --bad {new}, without --find-fix?")


def run_until(
    wanted: Judgement, experiments: Experiments, end: Experiment, *, save_golden: bool = False
) -> None:
    """Run an end until it has once shown what it stands for: a failure may come only now and then.

    Raises `EndsError` where it does not, `UserError` where it cannot be judged.
    """
    most = MOST_RUNS_OF_GOOD if wanted is Judgement.GOOD else MOST_RUNS_OF_BAD
    for runs in range(1, most + 1):
        probe = experiments.ensure(end, Phase.ENDPOINT, runs=runs, save_golden=save_golden)[-1]
        if probe.judgement is wanted:
            return
        (_require_good_verdict if wanted is Judgement.GOOD else _require_judged)(probe, end)
    found = "failures" if wanted is Judgement.GOOD else "passes"
    raise EndsError(
        f"{wanted.value} {end.commit[:12]}: expected a commit where the case {_SHOULD[wanted]}, "
        f"found {most} {found} in a row; "
        "the ends do not differ: check the ends, the case, the platform and the golden data"
    )


def _require_good_verdict(probe: ProbeRow, good: Experiment) -> None:
    if probe.verdict is Verdict.NOT_VALIDATED:
        raise UserError(
            f"good {good.commit[:12]}: expected a validated pass, found {_describe(probe)}: nothing was compared, "
            "so it proves nothing; give the case a golden_fn, or --golden-data DIR"
        )
    if probe.judgement is Judgement.SKIP:
        raise UserError(
            f"good {good.commit[:12]}: expected a validated pass, found {_describe(probe)}; "
            "mend that first, or name another good commit"
        )


def _require_judged(probe: ProbeRow, end: Experiment) -> None:
    if probe.judgement is Judgement.SKIP:
        raise UserError(
            f"{end.commit[:12]}: expected a run that passes or fails as asked, found {_describe(probe)}; "
            f"say what is bad with --bad-when (for instance --bad-when {probe.verdict})"
        )


def _describe(probe: ProbeRow) -> str:
    said = probe.evidence[:1]
    if said and said[0].stream == "ending" and len(probe.evidence) > 1:
        # How it ended tells little; what it printed last may.
        said = [said[0], probe.evidence[-1]]
    texts = "".join(f": {evidence.text[:300]}" for evidence in said)
    return f"{probe.verdict}{f' ({probe.signature})' if probe.signature else ''}{texts}"


def _rate(experiments: Experiments, end: str, experiment: Experiment) -> EndRate:
    tally = experiments.tally(experiment.content)
    return EndRate(
        end="good" if end == "good" else "bad",
        commit=experiment.commit,
        runs=tally[Judgement.GOOD] + tally[Judgement.BAD],
        failures=tally[Judgement.BAD],
    )
