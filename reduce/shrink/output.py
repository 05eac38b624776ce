"""The folder that a reduction writes to, and what tells whether an earlier one there can be gone on with."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from pathlib import Path

from ...runner.build_output.build_directory import BuildDirectory
from ...runner.errors import UsageError
from ...store.files import IGNORE, is_partial, make_ignored_folder, write_whole
from ..output_folder import MARK

_WORK = "work"
JOURNAL = "tests.jsonl"
"""The tests that were made; a reduction that is gone on with repeats none."""


def open_output(output: Path, builds: Sequence[Path], options: Sequence[str], *, resume: bool) -> Path:
    """The folder below `output` for what is not the result; an earlier reduction's only with `resume`, and only where
    it was of the same builds with the same options.

    Raises:
        UsageError: the output lies in a build or around it, or holds something else.
        BuildOutputError: a build's sources cannot be read.
    """
    resolved = [build.resolve() for build in builds]
    for build in resolved:
        if output.resolve().is_relative_to(build) or build.is_relative_to(output.resolve()):
            raise UsageError(f"-o {output}: expected a folder outside of {build}")
    check_unused(output, resume=resume)
    marker = output / MARK
    text = "\n".join([*map(_digest, resolved), *options])
    if _is_used(output) and marker.read_text() != text:
        raise UsageError(f"--resume: expected a reduction of the same builds in {output}, found another")
    make_ignored_folder(output)
    write_whole(marker, text)
    work = output / _WORK
    work.mkdir(exist_ok=True)
    return work


def check_unused(output: Path, *, resume: bool) -> None:
    """Raises `UsageError` where the folder of a reduction holds something else, or one that is not gone on with."""
    if not _is_used(output):
        return
    if not (output / MARK).exists():
        raise UsageError(f"-o {output}: expected a new or empty folder, found other files in it")
    if not resume:
        raise UsageError(f"-o {output}: a reduction is there already; go on with --resume, or name another")


def _is_used(output: Path) -> bool:
    # A kill may leave the half of a marker, and nothing else of a reduction.
    return output.exists() and not all(is_partial(path) or path.name == IGNORE for path in output.iterdir())


def _digest(build: Path) -> str:
    """Names a build by the content of its sources."""
    opened = BuildDirectory.open(build)
    digest = hashlib.sha256(opened.orchestration().source)
    for kernel in opened.kernel_config().kernels.values():
        if not kernel.external:
            digest.update(opened.folder.locate(kernel.source).read_bytes())
    return f"{build} {digest.hexdigest()}"
