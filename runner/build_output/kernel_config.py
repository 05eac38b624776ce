"""`kernel_config.py` of a build: its sources, and the directions of their arguments. Never executed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from pathlib import Path, PurePosixPath
from typing import TypeAlias, TypeVar

from .files.errors import BuildOutputError, MalformedFileError, UnsafePathError
from .files.folder import Folder
from .files.python_literals import FolderPath, Literal, Member, NotUnderstoodError, assigned_literals

FILE_NAME = "kernel_config.py"
MOST_BYTES = 2**20

T = TypeVar("T")
Plain: TypeAlias = "str | int | float | bool | list[Plain] | dict[str | int, Plain] | None"


class Direction(Enum):
    """What a kernel does with a tensor argument (`ArgDirection` in the runtime)."""

    IN = "IN"
    OUT = "OUT"
    INOUT = "INOUT"


class CoreType(Enum):
    """Where a kernel runs: cube or vector core."""

    AIC = "aic"
    AIV = "aiv"


@dataclass(frozen=True, kw_only=True)
class OrchestrationEntry:
    """The orchestration source, below the build's folder, and its entry function.

    `signature` has the entry's tensors in order, without scalars; None before July 2026.
    """

    source: PurePosixPath
    function_name: str
    signature: tuple[Direction, ...] | None


@dataclass(frozen=True, kw_only=True)
class Kernel:
    """One kernel. `source` is relative to the build's folder, or absolute where the kernel is external."""

    func_id: int
    name: str
    source: PurePosixPath
    core_type: CoreType
    external: bool
    include_dirs: tuple[str, ...]
    signature: tuple[Direction, ...] | None


@dataclass(frozen=True, kw_only=True)
class KernelConfig:
    """All of `kernel_config.py`. `kernels` are by function id."""

    runtime: Mapping[str, Plain]
    orchestration: OrchestrationEntry
    kernels: Mapping[int, Kernel]

    @classmethod
    def open(cls, build: Path) -> KernelConfig:
        """Reads the file in the build directory `build`.

        Raises:
            BuildOutputError: it is missing, not understood, or names a source outside of `build` that is not
                declared external.
        """
        folder = Folder.open(build, expected="a build directory")
        source = folder.read(FILE_NAME, expected="the build's kernel list", limit=MOST_BYTES)
        path = folder.root / FILE_NAME
        try:
            names = ("RUNTIME_CONFIG", "ORCHESTRATION", "KERNELS")
            values = assigned_literals(source, path, names)
            runtime = _dictionary("RUNTIME_CONFIG", values.get("RUNTIME_CONFIG", {}))
            orchestration = _orchestration(folder, _dictionary("ORCHESTRATION", values.get("ORCHESTRATION")))
            kernels = _kernels(folder, values.get("KERNELS"))
        except NotUnderstoodError as error:
            raise MalformedFileError(
                path=path, expected="the generated kernel list", found=f"one that does not fit: {error}"
            ) from error
        plain = {key: _plain(value) for key, value in runtime.items() if _is_plain(value)}
        return cls(runtime=plain, orchestration=orchestration, kernels=kernels)

    def kernel_named(self, name: str) -> Kernel | None:
        """The kernel of that name, if there is one."""
        return next((kernel for kernel in self.kernels.values() if kernel.name == name), None)


def kernel_names(build: Path | None) -> dict[int, str]:
    """The names of a build directory's kernels by function id; none where there is no such folder or its list cannot be
    read, for messages that do without."""
    if build is None:
        return {}
    try:
        kernels = KernelConfig.open(build).kernels
    except BuildOutputError:
        return {}
    return {func_id: kernel.name for func_id, kernel in kernels.items()}


def _is_plain(value: Literal) -> bool:
    if isinstance(value, list | dict):
        return all(map(_is_plain, value if isinstance(value, list) else value.values()))
    return not isinstance(value, FolderPath | Member)


def _plain(value: Literal) -> Plain:
    match value:
        case FolderPath() | Member():
            raise NotUnderstoodError("expected a plain value")
        case list():
            return [_plain(one) for one in value]
        case dict():
            return {key: _plain(one) for key, one in value.items()}
        case _:
            return value


def _orchestration(folder: Folder, entry: dict[str, Literal]) -> OrchestrationEntry:
    return OrchestrationEntry(
        source=_inner_source(folder, entry.get("source"), "ORCHESTRATION"),
        function_name=_typed(entry.get("function_name"), str, "ORCHESTRATION['function_name']"),
        signature=_signature(entry.get("signature"), "ORCHESTRATION"),
    )


def _kernels(folder: Folder, entries: Literal) -> dict[int, Kernel]:
    if not isinstance(entries, list):
        raise NotUnderstoodError("KERNELS is no list")
    kernels: dict[int, Kernel] = {}
    for index, entry in enumerate(entries):
        where = f"KERNELS[{index}]"
        kernel = _kernel(folder, _dictionary(where, entry), where)
        if kernel.func_id in kernels:
            raise NotUnderstoodError(f"{where} has the func_id {kernel.func_id} of an earlier kernel")
        kernels[kernel.func_id] = kernel
    return kernels


def _kernel(folder: Folder, entry: dict[str, Literal], where: str) -> Kernel:
    external = _typed(entry.get("external", False), bool, f"{where}['external']")
    if external:
        source = PurePosixPath(_typed(entry.get("source"), str, f"{where}['source']"))
    else:
        source = _inner_source(folder, entry.get("source"), where)
    core_type = _typed(entry.get("core_type"), str, f"{where}['core_type']").lower()
    if core_type not in (CoreType.AIC.value, CoreType.AIV.value):
        raise NotUnderstoodError(f"{where}['core_type'] is {core_type!r}, neither aic nor aiv")
    include_dirs = entry.get("extra_include_dirs", [])
    if not isinstance(include_dirs, list):
        raise NotUnderstoodError(f"{where}['extra_include_dirs'] is no list")
    return Kernel(
        func_id=_typed(entry.get("func_id"), int, f"{where}['func_id']"),
        # Before April 23, 2026 a kernel had no name but its file's.
        name=_typed(entry.get("name", source.stem), str, f"{where}['name']"),
        source=source,
        core_type=CoreType(core_type),
        external=external,
        include_dirs=tuple(_typed(path, str, f"{where}['extra_include_dirs']") for path in include_dirs),
        signature=_signature(entry.get("signature"), where),
    )


def _inner_source(folder: Folder, value: Literal, where: str) -> PurePosixPath:
    """A source's path relative to the folder, links and `..` resolved."""
    spelled = value.relative if isinstance(value, FolderPath) else _typed(value, str, f"{where}['source']")
    path = Path(spelled)
    if path.is_absolute():
        if not path.is_relative_to(folder.root):
            raise UnsafePathError(
                path=folder.root / FILE_NAME,
                expected=f"{where}['source'] inside {folder.root}, or marked external",
                found=str(path)[:200],
            )
        path = path.relative_to(folder.root)
    return PurePosixPath(folder.locate(path).relative_to(folder.root))


def _signature(value: Literal, where: str) -> tuple[Direction, ...] | None:
    if value is None:
        return None
    if not isinstance(value, list):
        raise NotUnderstoodError(f"{where}['signature'] is no list")
    members = [member.name if isinstance(member, Member) else None for member in value]
    unknown = [member for member in members if member not in Direction.__members__]
    if unknown:
        raise NotUnderstoodError(f"{where}['signature'] has a member that is none of IN, OUT, INOUT")
    return tuple(Direction[member] for member in members if member is not None)


def _dictionary(where: str, value: Literal) -> dict[str, Literal]:
    if not isinstance(value, dict):
        raise NotUnderstoodError(f"{where} is no dictionary")
    return {key: entry for key, entry in value.items() if isinstance(key, str)}


def _typed(value: Literal, kind: type[T], where: str) -> T:
    # True is an int to isinstance, but no function id.
    if isinstance(value, kind) and type(value) is kind:
        return value
    raise NotUnderstoodError(f"{where} is {value!r:.60}, expected {kind.__name__}")
