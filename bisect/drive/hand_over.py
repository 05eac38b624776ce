"""What follows the answer of a bisection: localization, reduction, hooks, and advice on refused arguments.

`localize_culprit` hands the culprit's build, and its parent's as the reference, to `reduce` in a process of its own.
Whatever that meets, the bisection's answer stands. `record_builds` keeps both builds for `reduce --bisection`. `notify`
reports the end of a bisection to a command of the user.
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
from functools import partial
from math import inf
from pathlib import Path
from typing import Literal

from pydantic import ValidationError

from ...runner.case.case import CaseName, FrozenGolden, RunOptions, load_frozen
from ...runner.errors import UsageError, UserError
from ...runner.git import GitRepository
from ...runner.localization import (
    DIVERGENCE,
    TASK_GRAPH,
    Localization,
    link_back,
    read_divergence,
    read_reduction,
)
from ...runner.localization_job import (
    BuildToRun,
    ComparedBuild,
    ComparedBuilds,
    LocalizationJob,
    SceneCase,
    write_compared_builds,
)
from ...runner.probe.judge import JudgingRule
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
from ...runner.stack import Rename
from ...runner.workspace.content import StackContent
from ...runner.workspace.environment import PYTHON_VARIABLES
from ...runner.workspace.home import Home
from ...runner.workspace.slot import Workspace
from ...store.durable_files import Document, try_remove_tree
from ...store.tables import ProbeRow
from ...store.vocabulary import Judgement, one_line
from ..ask.question import BisectRequest
from ..report.basis import Rows
from ..report.model import EXPLANATION, AnswerCommit, ExplanationReport, Report
from ..report.report_builder import (
    ComparedPair,
    ComparedProbe,
    ComparedSide,
    NothingToCompareError,
    compared_pair,
    compared_sides,
    is_scene_test,
)

_DEFAULT_SECONDS = 4 * 3600.0
"""Localization may take this many seconds where the bisection has no budget, so that it always ends."""


def localize_culprit(
    rows: Rows,
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
        (rows.request.output / EXPLANATION).unlink(missing_ok=True)
        localizer = _Localizer(
            rows=rows,
            home=home,
            folder=home.bisections / rows.bisection.name / "localized",
            deadline=deadline,
            reduce=reduce,
            say=say,
        )
        return localizer.compare_scenes() if is_scene_test(rows.request) else localizer.compare_builds()
    except InterruptedWorkError:
        return skipped_localization("the budget was spent before the toolchains were ready")
    except (NothingToCompareError, UserError) as error:
        return skipped_localization(one_line(str(error)))
    except Exception as error:  # whatever happens in this step must not cost the answer
        return skipped_localization(repr(error))


def copy_localization(found: Path, report: Path) -> None:
    """Copy the files of a localization into the folder of a report. Link their page to report.md, if it is there.

    A page of an earlier localization is removed where this one has none.
    """
    shutil.copyfile(found / DIVERGENCE, report / DIVERGENCE)
    (report / TASK_GRAPH).unlink(missing_ok=True)
    if (found / TASK_GRAPH).is_file():
        page = (found / TASK_GRAPH).read_bytes()
        is_linked = (report / "report.md").is_file()
        page = link_back(page, "report.md", "Back to the report") if is_linked else page
        (report / TASK_GRAPH).write_bytes(page)


def skipped_localization(why: str) -> Localization:
    """Return a localization that says why nothing was compared."""
    return Localization(status="left out", message=why)


_EXPLANATION_SECONDS = 300.0
"""The execution of all passes may take this many seconds. It mostly takes less than a minute."""
_LOG = "localize.log.gz"
_NO_DIVERGENCE_CODE = 3
"""A localization says with this exit code that nothing diverges."""


@dataclass(frozen=True, kw_only=True)
class _Localizer:
    """Compares the culprit with its parent. Each side has a slot, with the toolchain of its own commit.

    `folder` is for the files of the localization. `deadline` is a time of `time.monotonic`. Each method raises:
        NothingToCompareError: there are no two runs to compare.
        UserError: a commit cannot be built again.
        InterruptedWorkError: the time was over before the process of `reduce` began.
    """

    rows: Rows
    home: Home
    folder: Path
    deadline: float
    reduce: bool
    say: Callable[[str], None]

    def compare_builds(self) -> Localization:
        """Compare the build directories that two probes left, on the frozen data.

        Probes do not dump the program after each pass, because they run as the user's runs do. Where the generated
        sources differ, both sides are compiled once more to dump it.
        """
        pair = compared_pair(self.rows)
        culprit, parent = pair.culprit, pair.parent
        builds = _compared_builds(self.rows, pair)
        golden = load_frozen(pair.golden, self.home.golden)
        self._empty_folder()
        with self._open_two_slots() as (failing_prober, reference_prober):
            failing = self._prepare_build(builds, builds.failing, failing_prober, golden)
            reference = self._prepare_build(builds, builds.reference, reference_prober, golden)
            if self.rows.request.frozen_runtime_dir is None and _generated_sources_differ(pair):
                rebuild = partial(self._rebuild_with_passes, golden=golden, timeout=builds.timeout)
                failing = rebuild(culprit, failing, failing_prober)
                reference = rebuild(parent, reference, reference_prober)
                self._explain(failing.build, golden)
            return self._run_reduce(
                self._job(failing, reference, culprit=culprit.probe, golden_data=golden.directory),
                (failing_prober, reference_prober),
                compared=describe_comparison(
                    culprit.side.commit, parent.side.commit, self.rows.request.stack.case.after
                ),
            )

    def compare_scenes(self) -> Localization:
        """Compare the scene test at two commits, on data drawn from one seed.

        A scene test leaves no build directory and has no frozen data. So both of its commits are built anew.
        """
        culprit, parent = compared_sides(self.rows)
        script = self.rows.request.script
        assert script is not None, "a scene test has one"
        self._empty_folder()
        with self._open_two_slots() as (failing_prober, reference_prober):
            job = self._job(
                self._prepare_script(script, culprit, failing_prober),
                self._prepare_script(script, parent, reference_prober),
                culprit=culprit.probe,
                scene=SceneCase(arguments=script.arguments, failed=find_failed_case(culprit.probe)),
            )
            return self._run_reduce(
                job,
                (failing_prober, reference_prober),
                compared=f"the scene test at {culprit.side.commit[:12]} against that at {parent.side.commit[:12]}, on "
                "data drawn from one seed",
            )

    def _empty_folder(self) -> None:
        try_remove_tree(self.folder)
        self.folder.mkdir(parents=True)

    @contextmanager
    def _open_two_slots(self) -> Generator[tuple[Prober, Prober]]:
        """Open a prober for each side. Their work ends with `InterruptedWorkError` at the deadline."""
        workspace = Workspace(self.rows.request.stack, self.home)
        content = StackContent(workspace.stack, workspace)

        def prober(interrupt: Interrupt) -> Prober:
            return Prober(workspace, content, self.home, on_activity=lambda _text: None, interrupt=interrupt)

        with (
            interrupt_after(self.deadline - time.monotonic()) as spent,
            prober(spent) as failing,
            prober(spent) as reference,
        ):
            yield failing, reference

    def _prepare_build(
        self, builds: ComparedBuilds, compared: ComparedBuild, prober: Prober, golden: FrozenGolden
    ) -> BuildToRun:
        self._say_prepared(compared.role, compared.repository, compared.commit)
        return builds.prepare(compared, prober, golden=golden, logs=self.folder / compared.role)

    def _say_prepared(self, role: str, repository: str, commit: str) -> None:
        self.say(f"localizing: preparing the toolchain of the {role}, {repository} {commit[:12]}")

    def _rebuild_with_passes(
        self,
        compared: ComparedProbe,
        ready: BuildToRun,
        prober: Prober,
        *,
        golden: FrozenGolden,
        timeout: float,
    ) -> BuildToRun:
        """Compile a build once more, with the program dumped after each pass.

        Return the old build where the new one has another verdict.
        """
        self.say(
            f"localizing: compiling with the {compared.role} once more, to see the program after each pass"
        )
        request = self.rows.request
        dumping = ProbeRequest(
            revisions=compared.side.revisions,
            case=request.script,
            platform=request.platform,
            device=request.device,
            golden=golden,
            judging_rule=request.judging_rule,
            options=RunOptions(golden_data=golden.directory, dump_passes=True),
            timeout=min(timeout, max(1.0, self.deadline - time.monotonic())),
            directory=self.folder / f"{compared.role}-passes",
        )
        found = prober.probe(dumping)
        if found.build_directory is None or found.classification.verdict is not compared.probe.verdict:
            return ready
        return ready.model_copy(update={"build": found.build_directory})

    def _explain(self, build: Path, golden: FrozenGolden) -> None:
        """Execute the culprit's program as it is after each pass. Leave what that shows beside the report.

        Leave nothing where the compiler dumps no passes, or where they cannot be executed. Then its log says why.
        """
        if not (build / "passes_dump").is_dir():
            return
        self.say("localizing: executing the culprit's program as it is after each pass")
        metrics = compared_pair(self.rows).culprit.probe.metrics or {}
        tolerances = {name: smallest_tolerance(metrics, name) for name in ("rtol", "atol")}
        options = [f"--{name}={value!r}" for name, value in tolerances.items() if value is not None]
        folders = ["--inputs", str(golden.directory / "in"), "--expected", str(golden.directory / "out")]
        printed: list[str] = []
        log = self.folder / "explain.log.gz"
        execute(
            self._own_command(
                "precision_bisect.bisect.cli",
                ["explain", str(build), "--json", *folders, *options],
                max_seconds=_EXPLANATION_SECONDS,
            ),
            log=log,
            on_line=lambda stream, line: printed.append(line) if stream == "stdout" else None,
        )
        try:
            found = ExplanationReport.model_validate_json("\n".join(printed))
        except ValidationError:
            self.say(f"localizing: the passes were not executed to the end; see {log}")
            return
        output = self.rows.request.output
        output.mkdir(parents=True, exist_ok=True)
        (output / EXPLANATION).write_text(found.model_dump_json(indent=2), encoding="utf-8")

    def _prepare_script(self, script: CaseName, compared: ComparedSide, prober: Prober) -> BuildToRun:
        """Return the script in the prober's slot, after everything that it needs was built."""
        request, side = self.rows.request, compared.side
        self._say_prepared(compared.role, side.repository, side.commit)
        toolchain = prober.prepare(
            ProbeRequest(
                revisions=side.revisions,
                case=script,
                platform=request.platform,
                device=request.device,
                golden=None,
                judging_rule=JudgingRule(command=True),
                options=RunOptions(),
                timeout=_rerun_timeout(request, compared.probe),
                directory=self.folder / compared.role,
            ),
            name=f"{compared.role} {side.commit[:12]}",
        )
        slot = prober.slot
        return BuildToRun(
            build=toolchain.repositories[toolchain.case.repository].path / script.path,
            stack=toolchain,
            python=slot.python,
            slot=slot.directory,
        )

    def _job(
        self,
        failing: BuildToRun,
        reference: BuildToRun,
        *,
        culprit: ProbeRow,
        golden_data: Path | None = None,
        scene: SceneCase | None = None,
    ) -> LocalizationJob:
        request = self.rows.request
        return LocalizationJob(
            failing=failing,
            reference=reference,
            platform=request.platform,
            device=request.device,
            golden_data=golden_data,
            scene=scene,
            timeout=_rerun_timeout(request, culprit),
            rtol=smallest_tolerance(culprit.metrics or {}, "rtol"),
            atol=smallest_tolerance(culprit.metrics or {}, "atol"),
            output=self.folder / "found",
            reduce_to=request.output / "reduced" if self.reduce else None,
        )

    def _run_reduce(self, job: LocalizationJob, probers: Sequence[Prober], *, compared: str) -> Localization:
        """Run the job in a process that holds the slots of `probers`. Copy its results beside the report.

        `compared` describes what the job compares.
        """
        finished, last_line = self._execute(job, probers)
        code = finished.ending.exit_code
        divergence = read_divergence(job.output)
        if divergence is None or code is None:
            why = last_line if last_line and code == 1 else str(finished.ending)
            return skipped_localization(f"{why}; see {self.folder / _LOG}")
        output = self.rows.request.output
        output.mkdir(parents=True, exist_ok=True)
        copy_localization(job.output, output)
        reduction = read_reduction(job.reduce_to) if job.reduce_to else None
        not_reduced = job.reduce_to is not None and reduction is None and code == 1 and last_line
        return Localization(
            status="nothing" if code == _NO_DIVERGENCE_CODE else "found",
            message=f"{compared}; not reduced: {last_line}" if not_reduced else compared,
            divergence=divergence,
            reduction=reduction,
            reduced=job.reduce_to if reduction else None,
        )

    def _execute(self, job: LocalizationJob, probers: Sequence[Prober]) -> tuple[FinishedCommand, str]:
        """Run the job. Return how it ended, and the last line it printed."""
        file = self.folder / "job.json"
        file.write_text(job.model_dump_json(indent=2), encoding="utf-8")
        last = ""

        def hear(_stream: str, line: str) -> None:
            nonlocal last
            last = one_line(line)
            self.say(last)

        command = self._own_command("precision_bisect.reduce.reduce_command", [str(file)])
        finished = execute(
            replace(command, locks=tuple(prober.slot.lock for prober in probers)),
            log=self.folder / _LOG,
            on_line=hear,
        )
        return finished, last.removeprefix("error: ")

    def _own_command(self, module: str, words: Sequence[str], *, max_seconds: float = inf) -> Command:
        """Return the command that runs a module of this package, for at most `max_seconds` and until the deadline."""
        return Command(
            argv=[sys.executable, "-P", "-m", module, *words],
            cwd=self.folder,
            environment={k: v for k, v in os.environ.items() if k not in PYTHON_VARIABLES},
            timeout=min(max_seconds, max(1.0, self.deadline - time.monotonic())),
        )


def _generated_sources_differ(pair: ComparedPair) -> bool:
    """Return whether the generated sources of both builds differ. Raises `BuildOutputError`."""
    # The import is late because it is slow, and only a failure with two builds is handed over.
    from ...runner.build_output.directory import BuildDirectory, compare_generated

    culprit, parent = BuildDirectory.open(pair.culprit.build), BuildDirectory.open(pair.parent.build)
    return not compare_generated(culprit, parent).is_empty


def describe_comparison(culprit: str, parent: str, run_before: Sequence[str]) -> str:
    """Describe which builds are compared, and how they ran.

    `run_before` are the scripts that a probe runs before the case, in the same process. A build that runs
    alone skips them.

    >>> describe_comparison("a" * 40, "b" * 40, ["y.py"]).partition("; ")[2]
    'both ran alone, without y.py before them'
    """
    alone = f"; both ran alone, without {', '.join(run_before)} before them" if run_before else ""
    return f"the build of {culprit[:12]} against that of {parent[:12]}, on the frozen data{alone}"


_FAILED_CASE = re.compile(r"^\s*(\w+::\S+) (?:\.\.\. )?FAILED\b")
"""Matches the line in which the runtime's own runner of scene tests names a failed case, in all of its versions."""


def find_failed_case(probe: ProbeRow) -> str | None:
    """Return `CLASS::NAME` of the first case that the run's log reports as failed. None where the log has none, or is
    gone."""
    for log in (Path(one.path) for one in probe.artifacts if one.kind == "log"):
        if log.is_file():
            with gzip.open(log, "rt", encoding="utf-8", errors="replace") as lines:
                found = next((match for line in lines if (match := _FAILED_CASE.match(line))), None)
            return None if found is None else found[1]
    return None


def record_builds(rows: Rows, home: Home) -> None:
    """Record where the builds of a bisection are, so that `reduce --bisection NAME` needs nothing else.

    Does nothing where there are none to compare.
    """
    with contextlib.suppress(NothingToCompareError):
        write_compared_builds(_compared_builds(rows, compared_pair(rows)), rows.bisection.name, home)


def _compared_builds(rows: Rows, pair: ComparedPair) -> ComparedBuilds:
    """Return both builds, with all that is needed to run them again."""
    request, culprit = rows.request, pair.culprit.probe
    metrics = culprit.metrics or {}
    failing, reference = (
        ComparedBuild(
            role=compared.role,
            repository=compared.side.repository,
            commit=compared.side.commit,
            revisions=compared.side.revisions,
            build=compared.build,
        )
        for compared in (pair.culprit, pair.parent)
    )
    return ComparedBuilds(
        stack=request.stack,
        platform=request.platform,
        device=request.device,
        golden=pair.golden,
        timeout=_rerun_timeout(request, culprit),
        rtol=smallest_tolerance(metrics, "rtol"),
        atol=smallest_tolerance(metrics, "atol"),
        failing=failing,
        reference=reference,
    )


_MIN_TIMEOUT = 60.0
"""A further run has at least this many seconds, because a dump makes a short run slower."""
_RUN_MULTIPLE = 10
"""A further run may take this many times as long as the probe's own. It also dumps tensors."""


def _rerun_timeout(request: BisectRequest, probe: ProbeRow) -> float:
    """Return the seconds after which a further run of what a probe ran is stopped."""
    return request.timeout or max(_MIN_TIMEOUT, _RUN_MULTIPLE * (probe.run_seconds or 0.0))


def smallest_tolerance(metrics: Mapping[str, Mapping[str, float]], name: str) -> float | None:
    """Return the smallest tolerance of that name that the harness reported of an output.

    Return None where it reported none.
    """
    tolerances = (measures[name] for measures in metrics.values() if name in measures)
    return min((value for value in tolerances if value >= 0), default=None)


_PREFIX = "PRECISION_BISECT_"
_HOOK_TIMEOUT = 60.0
"""A hook is stopped after this many seconds, so that a hanging one does not hold the bisection."""
_NOT_STARTED = 127
"""A hook that cannot start has this exit code, as in shells."""
_TIMED_OUT = 124
"""A hook that took too long has this exit code, as with `timeout`."""


def check_hook(command: Sequence[str], *, asked: str) -> None:
    """Check that the program of a hook exists. Raises `UsageError`.

    `asked` is how the user asked for the hook.
    """
    if shutil.which(command[0]) is None:
        raise UsageError(f"{asked}: expected a program that can be run, found no {shlex.quote(command[0])}")


def call_hook(command: Sequence[str], text: str, variables: Mapping[str, str]) -> int:
    """Run a hook. Return its exit code: negative for a signal, 127 where it cannot start, 124 after 60 s.

    `variables` are set as `PRECISION_BISECT_...`. They hold ids, names and words of this tool, never text of other
    people. A commit's subject is only in the JSON, where no shell interprets it.
    """
    hook_variables = {f"{_PREFIX}{name}": value for name, value in variables.items()}
    try:
        done = subprocess.run(
            list(command),
            input=text.encode(),
            env={**os.environ, **hook_variables},
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


def notify(command: str, report: Report, output: Path) -> str | None:
    """Tell a command how a bisection ended, whose report is in `output`. Return a sentence where that failed."""
    notice = EndNotice(
        name=report.name,
        outcome=report.outcome,
        message=report.message,
        case=report.case,
        platform=report.platform,
        culprits=report.culprits,
        report=str(output),
    )
    first = notice.culprits[0] if notice.culprits else None
    confidence = "" if first is None or first.confidence is None else f"{first.confidence:.6f}"
    code = call_hook(
        tuple(shlex.split(command)),
        notice.model_dump_json(),
        {
            "NAME": notice.name,
            "OUTCOME": notice.outcome,
            "REPOSITORY": first.repository if first else report.repository,
            "CULPRIT": first.commit if first else "",
            "CONFIDENCE": confidence,
            "REPORT": notice.report,
        },
    )
    return None if code == 0 else f"--notify: the command ended with {code}"


def refused_argument_advice(rows: Rows) -> Iterator[str]:
    """Yield a sentence for each argument of the case that a function refused, so that no run could be judged."""
    advised: set[RefusedArgument] = set()
    for probe in rows.probes:
        if probe.judgement is not Judgement.SKIP:
            continue
        refused = next(filter(None, (refused_argument(line.text) for line in probe.evidence)), None)
        if refused is not None and refused not in advised:
            advised.add(refused)
            yield _adapt_advice(rows.request, probe, refused)


def _adapt_advice(request: BisectRequest, probe: ProbeRow, refused: RefusedArgument) -> str:
    said = (
        f"at {probe.commit[:12]} {refused.function} takes no argument {refused.keyword}: "
        "the case was written for other commits"
    )
    renames = [each.rename for each in _explaining_renames(request, probe, refused)]
    if not renames:
        return (
            f"{said}; if you know the commit REV that renamed it, run: bisect-precision adapt REV > renames.toml, look "
            "at it, and ask again with --adapt renames.toml"
        )
    became = " and ".join(
        f"{rename.old} became {rename.new} with {rename.commit[:12]} of {rename.repository}"
        for rename in renames
    )
    commands = [
        f"{shlex.join(_adapt_command(request, rename))} {'>>' if place else '>'} renames.toml"
        for place, rename in enumerate(renames)
    ]
    return (
        f"{said}, {became}; run: {' && '.join(commands)}, look at it, and ask again with --adapt renames.toml"
    )


def _adapt_command(request: BisectRequest, rename: Rename) -> list[str]:
    repo = ["--repo", rename.repository] if rename.repository != request.stack.searched else []
    return ["bisect-precision", "adapt", rename.commit[:12], *repo, *_typed_stack_options(request)]


_STACK_OPTIONS = ("--stack", "--repository")
"""The subcommand `adapt` has these options of a bisection too."""


def _typed_stack_options(request: BisectRequest) -> Iterator[str]:
    """Yield the words of the question that name its stack."""
    words = iter(request.typed)
    for word in words:
        option, equals, _ = word.partition("=")
        if option in _STACK_OPTIONS:
            yield word
            if not equals:
                yield next(words)


def _explaining_renames(
    request: BisectRequest, probe: ProbeRow, refused: RefusedArgument
) -> list[ProposedRename]:
    """Return the renames that explain a refused argument.

    The searched repository is examined first. The case's repository is never examined, because the case uses that
    repository's present names.
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
