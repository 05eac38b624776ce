"""The builds that a command works on, with what runs them: as the user names them, or as a bisection left them."""

from __future__ import annotations

import sys
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from ..runner.case.golden import thaw
from ..runner.compare.statistics.statistics import Tolerance
from ..runner.errors import UsageError
from ..runner.git.releases import with_releases
from ..runner.localization.compared import read_compared_builds
from ..runner.probe.probe import Prober
from ..runner.process.fork_servers import ForkServers
from ..runner.stack.file import load_stack
from ..runner.stack.overrides import read_overrides
from ..runner.workspace.content import StackContent
from ..runner.workspace.home import user_home
from ..runner.workspace.workspace import Workspace
from .options import ReduceOptions
from .replay.toolchain import Toolchain
from .scene.build import build_of

_TIMEOUT = 600.0

Say = Callable[[str], None]


@dataclass(frozen=True, kw_only=True)
class OpenedBuilds:
    """The failing build and what it is compared with: None where recorded values or the golden data are.

    golden_data: None: the failing build's own. harness: the case's own closeness, where a bisection was told of it.
    timeout: seconds of one run.
    """

    failing: Path
    reference: Path | None
    failing_toolchain: Toolchain
    reference_toolchain: Toolchain
    golden_data: Path | None
    harness: Tolerance | None = None
    timeout: float

    def check_data(self) -> None:
        """Raises `UsageError` where the failing build has no frozen data of its own, as one that a bisection left, and
        none were named."""
        if self.golden_data is not None or (self.failing / "data").is_dir():
            return
        if not self.failing.is_dir():
            raise UsageError(f"{self.failing}: expected a build directory, found none")
        bisections, failing = user_home().bisections.resolve(), self.failing.resolve()
        alike = ""
        if bisections in failing.parents:
            name = failing.relative_to(bisections).parts[0]
            alike = f", or take its builds, data and interpreters with --bisection {name}"
        raise UsageError(
            f"{self.failing}: expected frozen data in its data/, found none; name them with --golden-data DIR{alike}"
        )


@contextmanager
def open_builds(options: ReduceOptions, servers: ForkServers, say: Say) -> Generator[OpenedBuilds]:
    """Open them; slots that run those of a bisection are held meanwhile. Raises `UserError`."""
    if options.bisection is None:
        yield _named(options, servers, say)
        return
    with _of_bisection(options, options.bisection, servers, say) as builds:
        yield builds


def _named(options: ReduceOptions, servers: ForkServers, say: Say) -> OpenedBuilds:
    """Those of the command line; a scene test's script is written as a build directory beside the output."""
    stack = _checked_stack(options)
    overrides = read_overrides(options.repository)

    def toolchain(name: str, python: Path) -> Toolchain:
        loaded = with_releases(load_stack(name, overrides=overrides), user_home().releases)
        return Toolchain.of(
            loaded, python=python, platform=options.platform, device=options.device, servers=servers
        )

    def build(path: Path, side: Toolchain, name: str) -> Path:
        written = options.output.absolute().with_name(f"{options.output.name}-builds") / name
        return build_of(path, options.scene_case, side, written, reuse=options.resume, on_progress=say)

    interpreter = options.python or Path(sys.executable)
    failing_toolchain = toolchain(stack, interpreter)
    reference_toolchain = toolchain(options.reference_stack or stack, options.reference_python or interpreter)
    failing = build(failing_build(options), failing_toolchain, "failing")
    reference = failing if options.has_twin else None
    if options.reference is not None:
        reference = build(options.reference, reference_toolchain, "reference")
    if options.against is not None:
        reference_toolchain = reference_toolchain.on(options.against)
    if options.against_schedule is not None:
        reference_toolchain = reference_toolchain.under(options.against_schedule)
    return OpenedBuilds(
        failing=failing,
        reference=reference,
        failing_toolchain=failing_toolchain,
        reference_toolchain=reference_toolchain,
        golden_data=options.golden_data,
        timeout=options.timeout or _TIMEOUT,
    )


def failing_build(options: ReduceOptions) -> Path:
    """The build that was named. Raises `UsageError` where none was."""
    if options.failing_build is None:
        raise UsageError("expected FAILING_BUILD, or --bisection NAME, found neither")
    return options.failing_build


def _checked_stack(options: ReduceOptions) -> str:
    """The stack's name or file, of options that say what the failing build is compared with."""
    failing_build(options)
    if options.stack is None:
        raise UsageError("expected --stack with a stack file, or the name of one")
    if options.references > 1:
        raise UsageError(
            "expected one reference: --reference with a good build, or --against with another target, or "
            "--against-schedule with a schedule of the stack file, or --reference-data with recorded values"
        )
    if options.reference_data is not None and not options.localize_only:
        raise UsageError("--reference-data: expected --localize-only beside it")
    if options.localize_only and not options.has_twin and not options.has_tolerance:
        raise UsageError(
            "without --reference values are compared by their closeness: expected the case's own --rtol and --atol"
        )
    return options.stack


@contextmanager
def _of_bisection(
    options: ReduceOptions, name: str, servers: ForkServers, say: Say
) -> Generator[OpenedBuilds]:
    """The culprit's build and its parent's, each in a slot with the toolchain of its own commit."""
    if options.given_beside_bisection:
        raise UsageError(
            f"--bisection {name}: expected nothing beside it that the bisection says, found "
            f"{', '.join(options.given_beside_bisection)}"
        )
    home = user_home()
    compared = read_compared_builds(name, home)
    golden = thaw(compared.golden, home.golden)
    workspace = Workspace(compared.stack, home)
    content = StackContent(compared.stack, workspace)
    logs = home.bisections / name / "reduced"

    def prober() -> Prober:
        return Prober(workspace, content, home, on_activity=lambda _text: None)

    # Two slots at once: each build is run by the toolchain of its own commit.
    with prober() as failing, prober() as reference:
        toolchains: list[Toolchain] = []
        for build, slot in ((compared.failing, failing), (compared.reference, reference)):
            say(f"preparing the toolchain of the {build.role}, {build.repository} {build.commit[:12]}")
            side = compared.prepare(build, slot, golden=golden, logs=logs / build.role)
            toolchains.append(Toolchain.of_build(side, compared.platform, compared.device, servers))
        told = compared.rtol is not None and compared.atol is not None
        yield OpenedBuilds(
            failing=compared.failing.build,
            reference=compared.reference.build,
            failing_toolchain=toolchains[0],
            reference_toolchain=toolchains[1],
            golden_data=golden.directory,
            harness=Tolerance(rtol=compared.rtol or 0.0, atol=compared.atol or 0.0) if told else None,
            timeout=options.timeout or compared.timeout,
        )
