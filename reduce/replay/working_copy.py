"""A copy of a build directory that may be edited and run; the original is only read."""

from __future__ import annotations

import ast
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from ...runner.build_output.build_directory import BuildDirectory
from ...runner.build_output.files.errors import MalformedFileError
from ...runner.build_output.kernel_config import FILE_NAME, Direction
from ...runner.build_output.orchestration.orchestration import Orchestration

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
        source = file.read_bytes()
        node = _signature(ast.parse(source))
        if node is None or not node.elts:
            raise MalformedFileError(
                path=file,
                expected="a list as the orchestration's signature",
                found="none",
                remedy="build it anew",
            )
        first = ast.unparse(node.elts[0]).rpartition(".")[0]
        members = ", ".join(f"{first}.{direction.value}" for direction in directions)
        lines = source.splitlines(keepends=True)
        start = sum(map(len, lines[: node.lineno - 1])) + node.col_offset
        end = sum(map(len, lines[: (node.end_lineno or node.lineno) - 1])) + (node.end_col_offset or 0)
        file.write_bytes(source[:start] + f"[{members}]".encode() + source[end:])

    def discard(self) -> None:
        """Removes the whole copy, if there is one."""
        shutil.rmtree(self.path, ignore_errors=True)

    def clear_records(self) -> None:
        """Removes what an earlier run has recorded."""
        shutil.rmtree(self.path / "dfx_outputs", ignore_errors=True)


def _signature(tree: ast.Module) -> ast.List | None:
    for statement in tree.body:
        if not isinstance(statement, ast.Assign) or not isinstance(statement.value, ast.Dict):
            continue
        if any(isinstance(target, ast.Name) and target.id == "ORCHESTRATION" for target in statement.targets):
            for key, value in zip(statement.value.keys, statement.value.values, strict=True):
                if isinstance(key, ast.Constant) and key.value == "signature" and isinstance(value, ast.List):
                    return value
    return None
