"""The two builds that a bisection's answer rests on, as `bisect` leaves them behind for `reduce --bisection`."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Literal

from ...store.documents.document import Document, read_document
from ...store.documents.versions import DocumentError
from ...store.files import write_whole
from ..case.case import RunOptions
from ..case.golden import FrozenGolden
from ..errors import UserError
from ..probe.probe import Prober
from ..probe.records import ProbeRequest
from ..stack.parts import Model
from ..stack.stack import Stack
from ..workspace.home import Home
from .job import BuildToRun


class ComparedBuild(Model):
    """A build directory that a probe left; `role` names it on the screen. `revisions` are of all repositories."""

    role: str
    repository: str
    commit: str
    revisions: Mapping[str, str]
    build: Path


class ComparedBuilds(Document):
    """The culprit's build and, beside it, one of a commit that passes, on the same frozen data.

    golden: the digest of the data. timeout: seconds for one run. rtol, atol: the case's own closeness; None where its
    run did not tell.
    """

    schema_version: Literal[1] = 1
    stack: Stack
    platform: str
    device: int
    golden: str
    timeout: float
    rtol: float | None
    atol: float | None
    failing: ComparedBuild
    reference: ComparedBuild

    def prepare(
        self, compared: ComparedBuild, prober: Prober, *, golden: FrozenGolden, logs: Path
    ) -> BuildToRun:
        """Check out and build the toolchain of the commit that made a build, in the prober's slot.

        Raises `UserError` where a step fails.
        """
        request = ProbeRequest(
            revisions=compared.revisions,
            case=None,
            platform=self.platform,
            device=self.device,
            golden=golden,
            bad_when=None,
            options=RunOptions(golden_data=golden.directory),
            timeout=self.timeout,
            directory=logs,
        )
        toolchain = prober.prepare(request, of=f"{compared.role} {compared.commit[:12]}")
        slot = prober.slot
        return BuildToRun(build=compared.build, stack=toolchain, python=slot.python, slot=slot.directory)


def leave_compared_builds(builds: ComparedBuilds, name: str, home: Home) -> None:
    """Keep them with the bisection of this name."""
    file = home.compared_builds(name)
    file.parent.mkdir(parents=True, exist_ok=True)
    write_whole(file, builds.model_dump_json(indent=2))


def read_compared_builds(name: str, home: Home) -> ComparedBuilds:
    """Those of a bisection. Raises `UserError` where it has none, or its builds are gone."""
    file = home.compared_builds(name)
    if not file.is_file():
        known = (
            ""
            if (home.bisections / name).is_dir()
            else f", and no bisection of that name in {home.bisections}"
        )
        raise UserError(
            f"--bisection {name}: expected the builds of a culprit and of a commit that passes, found none{known}: "
            "a bisection keeps them where it names a culprit, and a command behind -- makes none; see "
            f"bisect-precision report {name}"
        )
    try:
        builds = read_document(ComparedBuilds, json.loads(file.read_bytes()))
    except (DocumentError, ValueError) as error:
        raise UserError(f"{file}: {error}") from error
    for build in (builds.failing.build, builds.reference.build):
        if not build.is_dir():
            raise UserError(f"--bisection {name}: expected the build directory {build}, found it removed")
    return builds
