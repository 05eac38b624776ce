"""What follows the answer of a bisection: localization, reduction, hooks, and advice on refused arguments.

For localization the culprit's build, and its parent's as the reference, go to `reduce` in a process of its own. A scene
test leaves no build directory and has no frozen data. So both of its commits are built anew in two slots, and run on
data drawn from one seed. Each side of a comparison uses the toolchain of its own commit. Probes do not dump the program
after each pass of the compiler, because they run as the user's runs do. Localization builds again to dump it. Whatever
these steps meet, the bisection's answer stands, and `Localization` says what was found or why nothing was.

A hook is a command that gets JSON on its standard input and the main facts in variables, and nothing else. A bisection
reports its end through one, and a night its incidents.
"""

import contextlib
import gzip
import os
import re
import shlex
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

from sqlalchemy.orm import Session, sessionmaker

from ...runner.build_output.directory import BuildDirectory, compare_generated
from ...runner.case.case import FrozenGolden, RunOptions, load_frozen
from ...runner.errors import UsageError, UserError
from ...runner.git import GitRepository
from ...runner.localization import DIVERGENCE, TASK_GRAPH, Localization, read_divergence, read_reduction
from ...runner.localization_job import (
    BuildToRun,
    ComparedBuild,
    ComparedBuilds,
    LocalizationJob,
    SceneCase,
    write_compared_builds,
)
from ...runner.probe.judge import BadWhen
from ...runner.probe.probe import Prober, ProbeRequest
from ...runner.process.run import (
    Command,
    FinishedCommand,
    Interrupt,
    InterruptedWorkError,
    execute,
    interrupt_after,
)
from ...runner.renames import ProposedRename, RefusedArgument, find_explaining_renames, refused_argument
from ...runner.stack import Rename, Stack
from ...runner.workspace.content import StackContent
from ...runner.workspace.environment import PYTHON_VARIABLES
from ...runner.workspace.home import Home
from ...runner.workspace.slot import Workspace
from ...store.durable_files import Document
from ...store.tables import ProbeRow
from ...store.vocabulary import Judgement, Verdict
from ..ask.question import BisectRequest
from ..report.basis import Rows, load_rows
from ..report.model import AnswerCommit
from ..report.phrases import one_line
from ..report.report_builder import (
    ComparedPair,
    ComparedProbe,
    ComparedSide,
    NothingToCompareError,
    compared_pair,
    compared_sides,
    is_scene_test,
    report_of_rows,
)

_LOG = "localize.log.gz"
_NO_DIVERGENCE_CODE = 3
"""A localization says with this exit code that nothing diverges."""


@dataclass(frozen=True, kw_only=True)
class JobProcess:
    """Runs a job in `folder` until `deadline`, a time of `time.monotonic`.

    Its results are copied to `output`, beside the report.
    """

    job: LocalizationJob
    folder: Path
    output: Path
    deadline: float
    say: Callable[[str], None]

    def run_job(self, probers: Sequence[Prober], *, compared: str) -> Localization:
        """Run the job, which holds the slots of `probers`. `compared` describes what it compares."""
        finished, last = self._run(probers)
        job, code = self.job, finished.ending.exit_code
        divergence = read_divergence(job.output)
        if divergence is None or code is None:
            why = last if last and code == 1 else str(finished.ending)
            return skipped_localization(f"{why}; see {self.folder / _LOG}")
        self.output.mkdir(parents=True, exist_ok=True)
        for file in (DIVERGENCE, TASK_GRAPH):
            if (job.output / file).is_file():
                shutil.copyfile(job.output / file, self.output / file)
        reduction = read_reduction(job.reduce_to) if job.reduce_to else None
        not_reduced = job.reduce_to is not None and reduction is None and code == 1 and last
        return Localization(
            status="nothing" if code == _NO_DIVERGENCE_CODE else "found",
            message=f"{compared}{f'; not reduced: {last}' if not_reduced else ''}",
            divergence=divergence,
            reduction=reduction,
            reduced=job.reduce_to if reduction else None,
        )

    def _run(self, probers: Sequence[Prober]) -> tuple[FinishedCommand, str]:
        """Run the job. Return how it ended, and the last line it printed."""
        file = self.folder / "job.json"
        file.write_text(self.job.model_dump_json(indent=2), encoding="utf-8")
        last = [""]

        def hear(_stream: str, line: str) -> None:
            last[0] = one_line(line)
            self.say(last[0])

        finished = execute(
            Command(
                argv=[sys.executable, "-P", "-m", "precision_bisect.reduce.reduce_command", str(file)],
                cwd=self.folder,
                environment={k: v for k, v in os.environ.items() if k not in PYTHON_VARIABLES},
                timeout=max(1.0, self.deadline - time.monotonic()),
                holds=tuple(prober.slot.lock for prober in probers),
            ),
            log=self.folder / _LOG,
            on_line=hear,
        )
        return finished, last[0].removeprefix("error: ")


def skipped_localization(why: str) -> Localization:
    """Return a localization that says why nothing was compared."""
    return Localization(status="left out", message=why)


def generated_sources_differ(builds: Sequence[Path]) -> bool:
    """Return whether the generated sources of two builds differ. Raises `BuildOutputError`."""
    failing, reference = map(BuildDirectory.open, builds)
    return not compare_generated(failing, reference).is_empty


def build_with_passes(prober: Prober, request: ProbeRequest, verdict: Verdict | None) -> Path | None:
    """Return the build of one more run, with the program dumped after each pass.

    Return None where that run has another verdict than `verdict`, the one of the run before. Raises `UserError`, and
    `InterruptedWorkError`.
    """
    dumping = replace(request, options=replace(request.options, dump_passes=True))
    found = prober.probe(dumping)
    return found.build_directory if found.classification.verdict is verdict else None


_LEAST_TIMEOUT = 60.0
"""A further run has at least this many seconds, because a dump makes a short run slower."""
_RUN_MULTIPLE = 10
"""A further run may take this many times as long as the probe's own. It also dumps tensors."""


def record_builds(sessions: sessionmaker[Session], name: str, home: Home) -> None:
    """Record where the builds of a bisection are, so that `reduce --bisection NAME` needs nothing else.

    Does nothing where there are none to compare.
    """
    with sessions() as session:
        rows = load_rows(session, name)
    with contextlib.suppress(NothingToCompareError):
        write_compared_builds(compared_builds(rows, compared_pair(rows)), name, home)


def compared_builds(rows: Rows, pair: ComparedPair) -> ComparedBuilds:
    """Return both builds, with all that is needed to run them again."""
    request, culprit = rows.request, pair.culprit.probe
    metrics = culprit.metrics or {}
    return ComparedBuilds(
        stack=request.stack,
        platform=request.platform,
        device=request.device,
        golden=pair.golden,
        timeout=rerun_timeout(request, culprit),
        rtol=smallest_tolerance(metrics, "rtol"),
        atol=smallest_tolerance(metrics, "atol"),
        failing=_build(pair.culprit),
        reference=_build(pair.parent),
    )


def rerun_timeout(request: BisectRequest, probe: ProbeRow) -> float:
    """Return the seconds after which a further run of what a probe ran is stopped."""
    return request.timeout or max(_LEAST_TIMEOUT, _RUN_MULTIPLE * (probe.run_seconds or 0.0))


def smallest_tolerance(metrics: Mapping[str, Mapping[str, float]], name: str) -> float | None:
    """Return the smallest tolerance of that name that the harness reported of an output. None where it
    reported none."""
    told = (measures[name] for measures in metrics.values() if name in measures)
    return min((value for value in told if value >= 0), default=None)


def _build(compared: ComparedProbe) -> ComparedBuild:
    side = compared.side
    return ComparedBuild(
        role=compared.role,
        repository=side.repository,
        commit=side.commit,
        revisions=side.revisions,
        build=compared.build,
    )


@contextmanager
def open_two_slots(stack: Stack, home: Home, *, deadline: float) -> Generator[tuple[Prober, Prober]]:
    """Open a prober for each side until `deadline`, a time of `time.monotonic`.

    Work that continues beyond it ends with `InterruptedWorkError`.
    """
    workspace = Workspace(stack, home)
    content = StackContent(stack, workspace)

    def prober(interrupt: Interrupt) -> Prober:
        return Prober(workspace, content, home, on_activity=lambda _text: None, interrupt=interrupt)

    with (
        interrupt_after(deadline - time.monotonic()) as spent,
        prober(spent) as ours,
        prober(spent) as theirs,
    ):
        yield ours, theirs


_FAILED_CASE = re.compile(r"^\s*(\w+::\S+) (?:\.\.\. )?FAILED\b")
"""Matches the line in which the runtime's own runner of scene tests names a failed case, in all of its versions."""


def localize_scenes(
    rows: Rows, *, home: Home, reduce: bool, deadline: float, say: Callable[[str], None]
) -> Localization:
    """Localize a scene test until `deadline`, a time of `time.monotonic`.

    Raises:
        NothingToCompareError: there are no two runs to compare.
        UserError: a commit cannot be built again.
        InterruptedWorkError: the time was over before both were.
    """
    request = rows.request
    culprit, parent = compared_sides(rows)
    folder = home.bisections / rows.bisection.name / "localized"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    with open_two_slots(request.stack, home, deadline=deadline) as (ours, theirs):
        process = JobProcess(
            job=_job(
                rows,
                _prepare_script(rows, culprit, ours, folder, say),
                _prepare_script(rows, parent, theirs, folder, say),
                culprit_probe=culprit.probe,
                output=folder / "found",
                reduce=reduce,
            ),
            folder=folder,
            output=request.output,
            deadline=deadline,
            say=say,
        )
        return process.run_job(
            (ours, theirs),
            compared=f"the scene test at {culprit.side.commit[:12]} against that at {parent.side.commit[:12]}, on data "
            "drawn from one seed",
        )


def _prepare_script(
    rows: Rows, compared: ComparedSide, prober: Prober, folder: Path, say: Callable[[str], None]
) -> BuildToRun:
    """Return the script in the prober's slot, after everything that it needs was built."""
    request, side = rows.request, compared.side
    script = request.script
    assert script is not None, "a scene test has one"
    say(f"localizing: preparing the toolchain of the {compared.role}, {side.repository} {side.commit[:12]}")
    toolchain = prober.prepare(
        ProbeRequest(
            revisions=side.revisions,
            case=script,
            platform=request.platform,
            device=request.device,
            golden=None,
            bad_when=BadWhen(command=True),
            options=RunOptions(),
            timeout=rerun_timeout(request, compared.probe),
            directory=folder / compared.role,
        ),
        of=f"{compared.role} {side.commit[:12]}",
    )
    slot = prober.slot
    return BuildToRun(
        build=toolchain.repositories[toolchain.case.repository].path / script.path,
        stack=toolchain,
        python=slot.python,
        slot=slot.directory,
    )


def _job(
    rows: Rows,
    failing: BuildToRun,
    reference: BuildToRun,
    *,
    culprit_probe: ProbeRow,
    output: Path,
    reduce: bool,
) -> LocalizationJob:
    request, metrics = rows.request, culprit_probe.metrics or {}
    assert request.script is not None, "a scene test has one"
    return LocalizationJob(
        failing=failing,
        reference=reference,
        platform=request.platform,
        device=request.device,
        golden_data=None,
        scene=SceneCase(arguments=request.script.arguments, failed=find_failed_case(culprit_probe)),
        timeout=rerun_timeout(request, culprit_probe),
        rtol=smallest_tolerance(metrics, "rtol"),
        atol=smallest_tolerance(metrics, "atol"),
        output=output,
        reduce_to=request.output / "reduced" if reduce else None,
    )


def find_failed_case(probe: ProbeRow) -> str | None:
    """Return `CLASS::NAME` of the first case that the run's log reports as failed. None where the log has none, or is
    gone."""
    for log in (Path(one.path) for one in probe.artifacts if one.kind == "log"):
        if log.is_file():
            with gzip.open(log, "rt", encoding="utf-8", errors="replace") as lines:
                found = next((match for line in lines if (match := _FAILED_CASE.match(line))), None)
            return None if found is None else found[1]
    return None


_DEFAULT_SECONDS = 4 * 3600.0
"""Localization may take this many seconds where the bisection has no budget, so that it always ends."""


def localize_culprit(
    sessions: sessionmaker[Session],
    name: str,
    *,
    home: Home,
    reduce: bool,
    seconds: float | None,
    say: Callable[[str], None],
) -> Localization:
    """Localize, and reduce if asked, within `seconds`.

    Raises nothing but what stops the process itself.
    """
    deadline = time.monotonic() + (_DEFAULT_SECONDS if seconds is None else seconds)
    try:
        with sessions() as session:
            rows = load_rows(session, name)
        localize = localize_scenes if is_scene_test(rows.request) else _localize
        return localize(rows, home=home, reduce=reduce, deadline=deadline, say=say)
    except InterruptedWorkError:
        return skipped_localization("the budget was spent before the toolchains were ready")
    except (NothingToCompareError, UserError) as error:
        return skipped_localization(one_line(str(error)))
    except Exception as error:  # whatever happens in this step must not cost the answer
        return skipped_localization(repr(error))


@dataclass(frozen=True, kw_only=True)
class _LocalizationContext:
    """What all steps of a localization need. `deadline` is a time of `time.monotonic`."""

    rows: Rows
    culprit: ComparedProbe
    parent: ComparedProbe
    builds: ComparedBuilds
    golden: FrozenGolden
    folder: Path
    deadline: float
    reduce: bool
    say: Callable[[str], None]

    def prepare(self, compared: ComparedBuild, prober: Prober) -> BuildToRun:
        """Return the build with the toolchain of its own commit, in the prober's slot."""
        self.say(
            f"localizing: preparing the toolchain of the {compared.role}, {compared.repository} {compared.commit[:12]}"
        )
        return self.builds.prepare(compared, prober, golden=self.golden, logs=self.folder / compared.role)

    def rebuild_with_passes(self, compared: ComparedProbe, prober: Prober, ready: BuildToRun) -> BuildToRun:
        """Compile the build once more, with the program dumped after each pass. Return the old build
        where that fails."""
        self.say(
            f"localizing: compiling with the {compared.role} once more, to see the program after each pass"
        )
        left = min(self.builds.timeout, max(1.0, self.deadline - time.monotonic()))
        request = self._request(compared, f"{compared.role}-passes", left)
        dumped = build_with_passes(prober, request, compared.probe.verdict)
        return ready.model_copy(update={"build": dumped or compared.build})

    def job(self, failing: BuildToRun, reference: BuildToRun) -> LocalizationJob:
        """Return the job that is handed over to `reduce`."""
        builds = self.builds
        return LocalizationJob(
            failing=failing,
            reference=reference,
            platform=builds.platform,
            device=builds.device,
            golden_data=self.golden.directory,
            timeout=builds.timeout,
            rtol=builds.rtol,
            atol=builds.atol,
            output=self.folder / "found",
            reduce_to=self.rows.request.output / "reduced" if self.reduce else None,
        )

    def _request(self, compared: ComparedProbe, name: str, timeout: float) -> ProbeRequest:
        request = self.rows.request
        return ProbeRequest(
            revisions=compared.side.revisions,
            case=request.script,
            platform=request.platform,
            device=request.device,
            golden=self.golden,
            bad_when=BadWhen(command=True),
            options=RunOptions(golden_data=self.golden.directory),
            timeout=timeout,
            directory=self.folder / name,
        )


def _localize(
    rows: Rows, *, home: Home, reduce: bool, deadline: float, say: Callable[[str], None]
) -> Localization:
    """Build both sides again in two slots, and compare them in a process of its own."""
    request = rows.request
    pair = compared_pair(rows)
    culprit, parent = pair.culprit, pair.parent
    golden = load_frozen(pair.golden, home.golden)
    folder = home.bisections / rows.bisection.name / "localized"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    context = _LocalizationContext(
        rows=rows,
        culprit=culprit,
        parent=parent,
        builds=compared_builds(rows, pair),
        golden=golden,
        folder=folder,
        deadline=deadline,
        reduce=reduce,
        say=say,
    )
    with open_two_slots(request.stack, home, deadline=deadline) as (ours, theirs):
        failing, reference = (
            context.prepare(context.builds.failing, ours),
            context.prepare(context.builds.reference, theirs),
        )
        if request.frozen_runtime_dir is None and generated_sources_differ([culprit.build, parent.build]):
            failing = context.rebuild_with_passes(culprit, ours, failing)
            reference = context.rebuild_with_passes(parent, theirs, reference)
        process = JobProcess(
            job=context.job(failing, reference),
            folder=folder,
            output=request.output,
            deadline=deadline,
            say=say,
        )
        return process.run_job(
            (ours, theirs),
            compared=describe_comparison(culprit.side.commit, parent.side.commit, request.stack.case.after),
        )


def describe_comparison(culprit: str, parent: str, run_before: Sequence[str]) -> str:
    """Describe which builds are compared, and how they ran.

    `run_before` are the scripts that a probe runs before the case, in the same process. A build that runs
    alone skips them.

    >>> describe_comparison("a" * 40, "b" * 40, ["y.py"]).partition("; ")[2]
    'both ran alone, without y.py before them'
    """
    alone = f"; both ran alone, without {', '.join(run_before)} before them" if run_before else ""
    return f"the build of {culprit[:12]} against that of {parent[:12]}, on the frozen data{alone}"


_PREFIX = "PRECISION_BISECT_"
_HOOK_TIMEOUT = 60.0
"""A hook is stopped after this many seconds, so that a hanging one does not hold the bisection."""
_NOT_STARTED = 127
"""A hook that cannot start has this exit code, as in shells."""
_TIMED_OUT = 124
"""A hook that took too long has this exit code, as with `timeout`."""


def check_hook(command: Sequence[str], *, asked: str) -> None:
    """Check that a hook can be run, before the work begins whose end it is to report.

    `asked` is how the user asked for it.

    Raises `UsageError` where there is no such program.
    """
    if shutil.which(command[0]) is None:
        raise UsageError(f"{asked}: expected a program that can be run, found no {shlex.quote(command[0])}")


def call_hook(command: Sequence[str], text: str, variables: Mapping[str, str]) -> int:
    """Run a hook. Return its exit code: negative for a signal, 127 where it cannot start, 124 after 60 s.

    `variables` are set as `PRECISION_BISECT_...`. They hold ids, names and words of this tool, never text of other
    people. A commit's subject is only in the JSON, where no shell interprets it.
    """
    ours = {f"{_PREFIX}{name}": value for name, value in variables.items()}
    try:
        done = subprocess.run(
            list(command),
            input=text.encode(),
            env={**os.environ, **ours},
            timeout=_HOOK_TIMEOUT,
            stdout=subprocess.DEVNULL,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return _TIMED_OUT
    except OSError:
        return _NOT_STARTED
    return done.returncode


class EndNotice(Document):
    """What the command of --notify gets on its standard input."""

    schema_version: Literal[1] = 1
    name: str
    outcome: str
    message: str
    """The answer in one line."""
    case: str
    platform: str
    culprits: tuple[AnswerCommit, ...]
    report: str
    """The folder with report.json and the other files."""


def check_notify_command(text: str) -> None:
    """Check --notify before anything runs. Raises `UsageError` where there are no words, or no such program."""
    try:
        words = tuple(shlex.split(text))
    except ValueError as error:
        raise UsageError(f"--notify {text}: expected a command: {error}") from error
    if not words:
        raise UsageError("--notify: expected a command, found nothing")
    check_hook(words, asked=f"--notify {text}")


def notify(command: str, sessions: sessionmaker[Session], name: str) -> str | None:
    """Report the end of a bisection of the store. Return a sentence where that failed."""
    with sessions() as session:
        notice, repository = _notice(session, name)
    first = notice.culprits[0] if notice.culprits else None
    confidence = "" if first is None or first.confidence is None else f"{first.confidence:.6f}"
    code = call_hook(
        tuple(shlex.split(command)),
        notice.model_dump_json(),
        {
            "NAME": notice.name,
            "OUTCOME": notice.outcome,
            "REPOSITORY": first.repository if first else repository,
            "CULPRIT": first.commit if first else "",
            "CONFIDENCE": confidence,
            "REPORT": notice.report,
        },
    )
    return None if code == 0 else f"--notify: the command ended with {code}"


def _notice(session: Session, name: str) -> tuple[EndNotice, str]:
    rows = load_rows(session, name)
    report = report_of_rows(rows)
    notice = EndNotice(
        name=report.name,
        outcome=report.outcome,
        message=report.message,
        case=report.case,
        platform=report.platform,
        culprits=report.culprits,
        report=str(rows.request.output),
    )
    return notice, report.repository


_STACK_OPTIONS = ("--stack", "--repository")
"""The subcommand `adapt` has these options of a bisection too."""


def refused_argument_advice(rows: Rows) -> Iterator[str]:
    """Yield a sentence for each argument of the case that a function refused, so that the run could not be judged."""
    told: set[RefusedArgument] = set()
    for probe in rows.probes:
        refused = _find_refused_argument(probe)
        if refused is not None and refused not in told:
            told.add(refused)
            yield _advice(rows.request, probe, refused)


def _find_refused_argument(probe: ProbeRow) -> RefusedArgument | None:
    if probe.judgement is not Judgement.SKIP:
        return None
    return next(filter(None, (refused_argument(line.text) for line in probe.evidence)), None)


def _advice(request: BisectRequest, probe: ProbeRow, refused: RefusedArgument) -> str:
    said = (
        f"at {probe.commit[:12]} {refused.function} takes no argument {refused.keyword}: "
        "the case was written for other commits"
    )
    renames = [each.rename for each in _renames(request, probe, refused)]
    if not renames:
        return (
            f"{said}; if you know the commit REV that renamed it, run: bisect-precision adapt REV > renames.toml, look "
            "at it, and ask again with --adapt renames.toml"
        )
    became = " and ".join(
        f"{rename.old} became {rename.new} with {rename.commit[:12]} of {rename.repository}"
        for rename in renames
    )
    options = [*_stack_options(request)]
    commands = [
        f"{shlex.join(_adapt(request, rename, options))} {'>>' if place else '>'} renames.toml"
        for place, rename in enumerate(renames)
    ]
    return (
        f"{said}, {became}; run: {' && '.join(commands)}, look at it, and ask again with --adapt renames.toml"
    )


def _adapt(request: BisectRequest, rename: Rename, options: list[str]) -> list[str]:
    repo = ["--repo", rename.repository] if rename.repository != request.stack.searched else []
    return ["bisect-precision", "adapt", rename.commit[:12], *repo, *options]


def _renames(request: BisectRequest, probe: ProbeRow, refused: RefusedArgument) -> list[ProposedRename]:
    """Return the renames that explain a refused argument.

    The searched repository is examined first. The case's repository is never examined, because the case uses
    that repository's present names.
    """
    stack = request.stack
    for name in sorted(stack.repositories, key=lambda name: name != request.repository):
        if name == stack.case.repository or name not in probe.revisions:
            continue
        checkout = GitRepository(stack.repositories[name].path)
        searched = name == request.repository
        try:
            found = find_explaining_renames(
                checkout,
                name,
                refused,
                at=probe.revisions[name],
                earlier=[request.range.old] if searched else [],
                later=["HEAD", request.range.new] if searched else ["HEAD"],
            )
        except UserError:
            # The checkout may have lost these commits, or may never have had them.
            continue
        if found:
            return found
    return []


def _stack_options(request: BisectRequest) -> Iterator[str]:
    """Yield the words that named the stack."""
    words = iter(request.typed)
    for word in words:
        option, equals, _ = word.partition("=")
        if option in _STACK_OPTIONS:
            yield word
            if not equals:
                yield next(words)
