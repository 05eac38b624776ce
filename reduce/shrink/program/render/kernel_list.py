"""Removes the kernels that a reduced program does not use from its build directory."""

from __future__ import annotations

from collections.abc import Set

from .....runner.build_output.files.errors import MalformedFileError
from .....runner.build_output.kernel_config import FILE_NAME
from ....replay.kernel_list import UnknownLayoutError, with_kernels
from ....replay.working_copy import WorkingCopy


def keep_kernels(copy: WorkingCopy, names: Set[str]) -> None:
    """Keeps the entries of the kernels `names` in the kernel list, and removes the files of the others.

    Raises:
        MalformedFileError: the list is not one of entries that stand one after the other.
    """
    build = copy.build()
    path = build.folder.locate(FILE_NAME)
    kernels = list(build.kernel_config().kernels.values())
    try:
        source = with_kernels(path.read_bytes(), len(kernels), lambda place: kernels[place].name in names)
    except UnknownLayoutError as error:
        raise MalformedFileError(path=path, expected=error.expected, found=error.found) from error
    for kernel in kernels:
        if kernel.name not in names and not kernel.external:
            file = build.folder.locate(kernel.source)
            for made in file.parent.glob(f"{file.stem}.*"):
                made.unlink()
    path.write_bytes(source)
