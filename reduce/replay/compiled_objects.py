"""What runs have compiled, kept by the content that it was compiled of, for later runs of equal sources.

A runtime compiles every source of a build directory anew where one of them is newer than what was compiled of it. Runs
of one localization edit the orchestration again and again, mostly alike in two builds, and mostly with equal kernels.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from ...runner.build_output.kernel_config import FILE_NAME, KernelConfig
from ...runner.case.runtime_dir import COMPILED
from ...store.files import making_folder
from .toolchain import Toolchain
from .working_copy import WorkingCopy

Stamps = Mapping[Path, int]
"""When each object was last written, in nanoseconds."""

_INCLUDES_A_SOURCE = re.compile(rb'#\s*include\s*["<][^">]*\.(c|cc|cpp|cxx)[">]')
_OF_RUNS = ("data", "dfx_outputs")


@dataclass(frozen=True)
class CompiledObjects:
    """Keeps objects below `folder`.

    Only what a run has compiled is kept, never what a build brought with it: that may have been compiled otherwise.
    """

    folder: Path

    def put_into(self, copy: WorkingCopy, toolchain: Toolchain) -> Stamps:
        """Puts objects beside the sources of a build that is about to run, where each of its sources was compiled
        before and not all objects stand there. Returns when the objects were written, for `keep`.

        Raises:
            BuildOutputError: the build's parts cannot be read.
        """
        kept = {source: self.folder / key for source, key in _keys(copy, toolchain)}
        if all(objects.is_dir() for objects in kept.values()) and any(map(_is_stale, kept)):
            for source, objects in kept.items():
                for compiled in objects.iterdir():
                    shutil.copyfile(compiled, source.with_suffix(compiled.suffix))
        return _stamps(kept)

    def keep(self, copy: WorkingCopy, toolchain: Toolchain, before: Stamps) -> None:
        """Keeps what a run has compiled since `before`. Raises as `put_into`."""
        for source, key in _keys(copy, toolchain):
            objects = self.folder / key
            written = [path for path, stamp in _stamps([source]).items() if before.get(path) != stamp]
            # An object that is older than its source belongs to another text: this one could not be compiled.
            if written and not _is_stale(source) and not objects.exists():
                with making_folder(objects) as partial:
                    partial.mkdir()
                    for path in written:
                        shutil.copyfile(path, partial / f"object{path.suffix}")


def _keys(copy: WorkingCopy, toolchain: Toolchain) -> Iterator[tuple[Path, str]]:
    """Each source of a build, with a key of all that it is compiled of; none where a source lies outside of the build
    or includes another one, so that this cannot be told."""
    build = copy.build()
    config = build.kernel_config()
    kinds = {kernel.source: (kernel.core_type, kernel.include_dirs) for kernel in config.kernels.values()}
    sources = {
        relative: build.folder.locate(relative)
        for relative in (config.orchestration.source, *kinds)
        if not relative.is_absolute()
    }
    texts = {relative: source.read_bytes() for relative, source in sources.items()}
    if any(kernel.external for kernel in config.kernels.values()) or any(
        map(_INCLUDES_A_SOURCE.search, texts.values())
    ):
        return
    common = _digest(_setting(toolchain, config), *_beside(copy.path, set(sources.values())))
    for relative, source in sources.items():
        named = f"{common} {relative} {kinds.get(relative)}"
        yield source, _digest(named.encode(), texts[relative])


def _setting(toolchain: Toolchain, config: KernelConfig) -> bytes:
    """What compiles, and how, as far as that is known from outside."""
    return repr((toolchain.compiles_with, sorted(config.runtime.items()))).encode()


def _beside(build: Path, sources: set[Path]) -> Iterator[bytes]:
    """What else lies in a build: sources may include it."""
    for file in sorted(path for path in build.rglob("*") if path.is_symlink() or path.is_file()):
        relative = file.relative_to(build)
        listed = file.resolve() in sources or file.suffix in COMPILED or relative == Path(FILE_NAME)
        if not listed and relative.parts[0] not in _OF_RUNS:
            yield str(relative).encode()
            yield os.path.realpath(file).encode() if file.is_symlink() else file.read_bytes()


def _objects(source: Path) -> Iterator[Path]:
    return (path for suffix in sorted(COMPILED) if (path := source.with_suffix(suffix)).is_file())


def _stamps(sources: Iterable[Path]) -> Stamps:
    return {path: path.stat().st_mtime_ns for source in sources for path in _objects(source)}


def _is_stale(source: Path) -> bool:
    """Whether a source has no object, or one that is older."""
    stamps = [*_stamps([source]).values()]
    return not stamps or min(stamps) < source.stat().st_mtime_ns


def _digest(*parts: bytes) -> str:
    digest = hashlib.sha256()
    for part in parts:
        digest.update(len(part).to_bytes(8, "little") + part)
    return digest.hexdigest()
