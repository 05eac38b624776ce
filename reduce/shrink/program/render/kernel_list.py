"""Removes unused kernels from a build directory's kernel list, its lines otherwise untouched."""

from __future__ import annotations

import ast
from collections.abc import Set

from .....runner.build_output.files.errors import MalformedFileError
from .....runner.build_output.kernel_config import FILE_NAME
from ....replay.working_copy import WorkingCopy


def keep_kernels(copy: WorkingCopy, names: Set[str]) -> None:
    """Keeps the entries of the kernels `names`, and removes the files of the others.

    Raises:
        MalformedFileError: the list is not one of entries that stand one after the other.
    """
    build = copy.build()
    path = build.folder.locate(FILE_NAME)
    source = path.read_bytes()
    kernels = list(build.kernel_config().kernels.values())
    entries = _entries(ast.parse(source))
    if len(entries) != len(kernels):
        raise MalformedFileError(
            path=path, expected=f"{len(kernels)} kernel entries", found=str(len(entries))
        )
    starts = [0]
    for line in source.splitlines(keepends=True):
        starts.append(starts[-1] + len(line))
    last_first = reversed(list(zip(entries, kernels, strict=True)))
    for entry, kernel in last_first:
        if kernel.name in names:
            continue
        begin = starts[entry.lineno - 1] + entry.col_offset
        end = starts[(entry.end_lineno or entry.lineno) - 1] + (entry.end_col_offset or 0)
        while source[end : end + 1] in (b",", b" "):
            end += 1
        if source[end : end + 1] == b"\n" and not source[starts[entry.lineno - 1] : begin].strip():
            begin, end = starts[entry.lineno - 1], end + 1
        source = source[:begin] + source[end:]
        if not kernel.external:
            file = build.folder.locate(kernel.source)
            for one in file.parent.glob(f"{file.stem}.*"):
                one.unlink()
    path.write_bytes(source)


def _entries(tree: ast.Module) -> list[ast.expr]:
    for statement in tree.body:
        if (
            isinstance(statement, ast.Assign)
            and isinstance(statement.value, ast.List)
            and any(isinstance(target, ast.Name) and target.id == "KERNELS" for target in statement.targets)
        ):
            return statement.value.elts
    return []
