"""A copy of a build directory that may be edited and run; the original is only read."""

from __future__ import annotations

import shutil
from collections.abc import Sequence, Set
from dataclasses import dataclass
from pathlib import Path

from ...runner.build_output.build_directory import BuildDirectory
from ...runner.build_output.files.errors import MalformedFileError
from ...runner.build_output.kernel_config import FILE_NAME, Direction
from ...runner.build_output.orchestration.orchestration import Orchestration
from .kernel_list import UnknownLayoutError, with_kernels, with_signature

# What a run reads is elsewhere (data), written anew (dfx_outputs) or of no use to it.
_LEFT_OUT = ("data", "dfx_outputs", "passes_dump", "report")


@dataclass(frozen=True)
class WorkingCopy:
    """A build directory of our own. Binaries keep their times: what is not edited is not compiled again."""

    path: Path

    @classmethod
    def of(cls, build: Path, path: Path) -> WorkingCopy:
        """Copies `build` to the new folder `path`. Links are copied as links, never followed."""

        def left_out(folder: str, names: list[str]) -> Sequence[str]:
            return [name for name in names if Path(folder) == build and name in _LEFT_OUT]

        shutil.copytree(build, path, symlinks=True, ignore=left_out)
        return cls(path)

    def build(self) -> BuildDirectory:
        """The copy's parts."""
        return BuildDirectory.open(self.path)

    def orchestration(self) -> Orchestration:
        """The orchestration as it stands in the copy."""
        return self.build().orchestration()

    def write_orchestration(self, source: bytes) -> None:
        """Replaces the orchestration's source; nothing happens where it is the same already."""
        build = self.build()
        file = build.folder.locate(build.kernel_config().orchestration.source)
        if file.read_bytes() != source:
            file.write_bytes(source)

    def write_signature(self, directions: Sequence[Direction]) -> None:
        """Replaces the directions of the orchestration's tensors in the kernel list. Lists of before July 2026 give
        none, and their runtime asks for none.

        Raises:
            MalformedFileError: the list gives them in a way that is not understood.
        """
        build = self.build()
        if build.kernel_config().orchestration.signature is None:
            return
        file = build.folder.locate(FILE_NAME)
        try:
            file.write_bytes(with_signature(file.read_bytes(), directions))
        except UnknownLayoutError as error:
            raise MalformedFileError(
                path=file, expected=error.expected, found=error.found, remedy="build it anew"
            ) from error

    def keep_kernels(self, names: Set[str]) -> None:
        """Keeps the entries of the kernels `names` in the kernel list, and removes the files of the others, so that
        these are not compiled.

        Raises:
            MalformedFileError: the list is not one of entries that stand one after the other.
        """
        build = self.build()
        path = build.folder.locate(FILE_NAME)
        kernels = list(build.kernel_config().kernels.values())
        try:
            source = with_kernels(path.read_bytes(), len(kernels), lambda place: kernels[place].name in names)
        except UnknownLayoutError as error:
            raise MalformedFileError(
                path=path, expected=error.expected, found=error.found, remedy="build it anew"
            ) from error
        kept = {kernel.source for kernel in kernels if kernel.name in names}
        for kernel in kernels:
            if kernel.source not in kept and not kernel.external:
                file = build.folder.locate(kernel.source)
                for made in file.parent.glob(f"{file.stem}.*"):
                    made.unlink()
        path.write_bytes(source)

    def discard(self) -> None:
        """Removes the whole copy, if there is one."""
        shutil.rmtree(self.path, ignore_errors=True)

    def clear_records(self) -> None:
        """Removes what an earlier run has recorded."""
        shutil.rmtree(self.path / "dfx_outputs", ignore_errors=True)
