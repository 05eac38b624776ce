"""Both ends are run before anything else: do they differ, how often does each fail, what does a run need?"""

from pathlib import Path

from ..runner.errors import EndsError, UserError
from ..runner.golden import FrozenGolden, freeze, thaw
from ..store.journal import Journal
from ..store.schema import Judgement, Phase, Probe
from ..store.vocabulary import Verdict
from .conclusion import EndRate
from .experiments import Experiment, Experiments
from .request import BisectRequest

RUNS = 3
"""Of each end. The first two differing ends make a bisection; the third tells a rate from a fluke."""
MOST_RUNS_UNTIL_FAILURE = 8
"""Of a bad end that passes: it may fail only now and then."""


def prepare_golden(
    request: BisectRequest, *, journal: Journal, experiments: Experiments, good: Experiment, store: Path
) -> FrozenGolden | None:
    """Freeze the data that all runs share: given, captured by the good end's first run, or frozen before a resume."""
    known = journal.row().golden
    if known is not None:
        return thaw(known, store)
    if request.golden_data is not None:
        golden = freeze(request.golden_data, store)
    elif request.captures_golden:
        golden = freeze(_capture(experiments, good), store)
    else:
        return None
    journal.set_golden(golden.digest)
    return golden


def _capture(experiments: Experiments, good: Experiment) -> Path:
    """The data folder that a run of the good end saved."""
    probe = next(iter(experiments.finished(good.content)), None)
    if probe is None:
        probe = experiments.run(good, Phase.ENDPOINT, save_golden=True)
    _require_good(probe, good)
    build = experiments.build_directory(probe)
    if build is None:
        raise UserError(
            f"good {good.commit[:12]}: expected the run to leave a build directory with data/in and data/out, "
            "found none; name frozen data with --golden-data DIR"
        )
    return build / "data"


def measure_ends(experiments: Experiments, *, good: Experiment, bad: Experiment) -> tuple[EndRate, EndRate]:
    """Run both ends and say how often each failed. Raises `EndsError` where they do not differ, `UserError` where
    an end cannot be judged."""
    _require_good(experiments.ensure(good, Phase.ENDPOINT, runs=1)[0], good)
    _run_until_bad(experiments, bad)
    for runs in range(2, RUNS + 1):
        experiments.ensure(good, Phase.ENDPOINT, runs=runs)
        experiments.ensure(bad, Phase.ENDPOINT, runs=runs)
    good_rate, bad_rate = _rate(experiments, "good", good), _rate(experiments, "bad", bad)
    if good_rate.failures:
        raise EndsError(
            f"good {good.commit[:12]}: expected a commit that always passes, found {good_rate.failures} failures in "
            f"{good_rate.runs} runs; name an older good commit, or freeze other data"
        )
    return good_rate, bad_rate


def _run_until_bad(experiments: Experiments, bad: Experiment) -> None:
    for runs in range(1, MOST_RUNS_UNTIL_FAILURE + 1):
        probe = experiments.ensure(bad, Phase.ENDPOINT, runs=runs)[-1]
        if probe.judgement is Judgement.BAD:
            return
        if probe.judgement is Judgement.SKIP:
            raise UserError(
                f"bad {bad.commit[:12]}: expected a run that fails as asked, found {_describe(probe)}; "
                f"say what is bad with --bad-when (for instance --bad-when {probe.verdict})"
            )
    raise EndsError(
        f"bad {bad.commit[:12]}: expected the case to fail, found {MOST_RUNS_UNTIL_FAILURE} passes "
        "on the same data as the good end; the ends do not differ: check the case, the platform and the golden data"
    )


def _require_good(probe: Probe, good: Experiment) -> None:
    if probe.judgement is Judgement.GOOD:
        return
    where = f"good {good.commit[:12]}: expected a validated pass, found {_describe(probe)}"
    if probe.verdict is Verdict.NOT_VALIDATED:
        raise UserError(
            f"{where}: nothing was compared, so it proves nothing; give the case a golden_fn, or --golden-data DIR"
        )
    if probe.judgement is Judgement.BAD:
        raise EndsError(f"{where}; the ends do not differ: name an older good commit")
    raise UserError(f"{where}; mend that first, or name another good commit")


def _describe(probe: Probe) -> str:
    first = f": {probe.evidence[0].text}" if probe.evidence else ""
    return f"{probe.verdict}{f' ({probe.signature})' if probe.signature else ''}{first[:300]}"


def _rate(experiments: Experiments, end: str, experiment: Experiment) -> EndRate:
    tally = experiments.tally(experiment.content)
    return EndRate(
        end="good" if end == "good" else "bad",
        commit=experiment.commit,
        runs=tally[Judgement.GOOD] + tally[Judgement.BAD],
        failures=tally[Judgement.BAD],
    )
