"""python -m precision_bisect.reduce.handover JOB.json: what `bisect-precision` hands over, with its exit codes.

The job is a `runner.localization.job.LocalizationJob`. Progress goes to standard error, results to the job's folders.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from ..runner.build_output.files.errors import BuildOutputError
from ..runner.compare.statistics.statistics import Tolerance
from ..runner.errors import UserError
from ..runner.localization.job import LocalizationJob
from ..runner.process.fork_servers import ForkServers
from ..store.documents.document import read_document
from ..store.documents.versions import DocumentError
from .localize.pipeline import localize
from .localize.references.builds import GoodBuild
from .localize.references.request import LocalizationRequest
from .replay.toolchain import Toolchain
from .shrink.pipeline import shrink
from .shrink.request import ShrinkRequest

FOUND, ERROR, NOTHING_DIVERGES = 0, 1, 3
_BUDGET = 256 << 20
_ATTEMPTS = 8
_EXACT = Tolerance()


def main(file: Path) -> int:
    """Do the job; 0 found, 1 error, 3 nothing diverges."""
    try:
        job = read_document(LocalizationJob, json.loads(file.read_bytes()))
        with ForkServers(on_refusal=_say) as servers:
            return _run(job, servers)
    except (UserError, DocumentError, BuildOutputError, OSError) as error:
        print(f"error: {error}", file=sys.stderr)
        return ERROR


def _run(job: LocalizationJob, servers: ForkServers) -> int:
    failing, reference = (
        Toolchain.of_build(side, job.platform, job.device, servers) for side in (job.failing, job.reference)
    )
    divergence = localize(
        LocalizationRequest(
            failing=job.failing.build,
            toolchain=failing,
            reference=GoodBuild(path=job.reference.build, toolchain=reference),
            golden_data=job.golden_data,
            tolerance=_EXACT,
            harness=None if job.rtol is None or job.atol is None else Tolerance(rtol=job.rtol, atol=job.atol),
            budget=_BUDGET,
            attempts=_ATTEMPTS,
            timeout=job.timeout,
            output=job.output,
        ),
        on_progress=lambda text: _say(f"localizing: {text}"),
    )
    if not divergence.explained:
        return NOTHING_DIVERGES
    if job.reduce_to is not None and divergence.stall is None:
        shrink(
            ShrinkRequest(
                failing=job.failing.build,
                reference=job.reference.build,
                failing_toolchain=failing,
                reference_toolchain=reference,
                golden_data=job.golden_data,
                tolerance=_EXACT,
                output=job.reduce_to,
                jobs=2,
                budget=None,
                most_tests=None,
                resume=False,
                timeout=job.timeout,
            ),
            on_progress=lambda text: _say(f"reducing: {text}"),
        )
    return FOUND


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


if __name__ == "__main__":
    raise SystemExit(main(Path(sys.argv[1])))
