"""What differs between the failing build and the good one, in parts that can be put into the good build one by one."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from enum import Enum
from pathlib import Path, PurePosixPath

from ....runner.build_output.build_directory import BuildDirectory
from ....runner.build_output.kernel_config import FILE_NAME, Kernel, KernelConfig
from ...replay.runnable_build import RunnableBuild
from ...replay.toolchain import Toolchain
from ...replay.working_copy import WorkingCopy
from ...rewrite.same_allocations import with_allocations_of
from ...rewrite.text_changes import TextChange, connected, source_lines, text_changes, with_changes


class ChangedPart(Enum):
    """What a change is made to."""

    KERNEL = "kernel"
    """The source of one kernel, as a whole."""
    ORCHESTRATION = "orchestration"
    """One place of the orchestration's source, with the places that make no sense without it."""
    KERNEL_LIST = "kernel list"
    """The kernel list as a whole, with the kernels that only the failing build has; with a kernel's name, which of the
    sources that both builds have that kernel is built from."""
    RUNTIME = "runtime"
    """The toolchain that the build is run by."""
    DATA = "data"
    """A frozen tensor, an input or an expected output. It is the case's and not the build's."""


@dataclass(frozen=True, kw_only=True)
class Change:
    """A part that differs. `file` is relative to the failing build, `kernel` a name; empty where there is none.

    `texts` are the places at which the source differs.
    """

    part: ChangedPart
    file: str = ""
    kernel: str = ""
    texts: tuple[TextChange, ...] = ()


@dataclass(frozen=True, kw_only=True)
class BuildChanges:
    """All changes from the good build `reference` to the failing one."""

    failing: RunnableBuild
    reference: RunnableBuild
    changes: tuple[Change, ...]

    @classmethod
    def of(cls, failing: RunnableBuild, reference: RunnableBuild) -> BuildChanges:
        """Compare the sources of two builds; comments and blanks do not count.

        Raises `BuildOutputError` where a source cannot be read.
        """
        bad, good = (BuildDirectory.open(build.path) for build in (failing, reference))
        bad_list, good_list = bad.kernel_config(), good.kernel_config()
        changes = [*_orchestration(bad, good), *_kernels(bad, good)]
        if _listed(bad_list) != _listed(good_list):
            changes.append(Change(part=ChangedPart.KERNEL_LIST, file=FILE_NAME))
        if _runs_otherwise(failing.toolchain, reference.toolchain):
            changes.append(Change(part=ChangedPart.RUNTIME))
        return cls(failing=failing, reference=reference, changes=tuple(changes))

    @property
    def of_sources(self) -> tuple[Change, ...]:
        """Those of the builds themselves."""
        return tuple(change for change in self.changes if change.part is not ChangedPart.RUNTIME)

    def make(self, chosen: Collection[Change], folder: Path, schedule: str | None) -> RunnableBuild:
        """The good build with some of the changes, in the new folder `folder`, to run under a schedule of the stack
        file; None: as its toolchain has it.

        Raises `BuildOutputError` where a source cannot be read.
        """
        # That a kernel is built from another source is made in the source of the good build's list.
        parts = {change.part for change in chosen if not change.kernel}
        listing = self.failing if ChangedPart.KERNEL_LIST in parts else self.reference
        runs = self.failing if ChangedPart.RUNTIME in parts else self.reference
        copy = WorkingCopy.of(listing.path, folder)
        bad, good, made = (
            BuildDirectory.open(path) for path in (self.failing.path, self.reference.path, folder)
        )
        # What another toolchain has compiled is compiled anew: a source that is written is newer than its binary.
        anew = listing is not runs and _runs_otherwise(listing.toolchain, runs.toolchain)
        taken = {change.kernel for change in chosen if change.kernel}
        for kernel in made.kernel_config().kernels.values():
            ours = bad.kernel_config().kernel_named(kernel.name)
            theirs = good.kernel_config().kernel_named(kernel.name)
            if kernel.external:
                continue
            origin = (bad, ours) if theirs is None or (kernel.name in taken and ours) else (good, theirs)
            assert origin[1] is not None
            _write(made, kernel.source, _source(origin[0], origin[1]), anew=anew)
        texts = [
            text for change in chosen if change.part is ChangedPart.ORCHESTRATION for text in change.texts
        ]
        _write(
            made, made.kernel_config().orchestration.source, with_changes(_program(good), texts), anew=anew
        )
        toolchain = runs.toolchain if schedule is None else runs.toolchain.under(schedule)
        return RunnableBuild(path=copy.path, toolchain=toolchain)


def _orchestration(bad: BuildDirectory, good: BuildDirectory) -> list[Change]:
    """That the failing build allocates fewer buffers than the good one is no change: what it puts into the others is.
    Where nothing else differs, all lines that do are changes."""
    file = str(bad.kernel_config().orchestration.source)
    like_the_good = with_allocations_of(good.orchestration(), bad.orchestration())
    changes = connected(text_changes(_program(good), like_the_good))
    if not changes:
        changes = connected(text_changes(_program(good), source_lines(_program(bad))))
    return [Change(part=ChangedPart.ORCHESTRATION, file=file, texts=texts) for texts in changes]


def _kernels(bad: BuildDirectory, good: BuildDirectory) -> list[Change]:
    """Kernels that both builds have, by name, and whose sources differ."""
    changes: list[Change] = []
    for kernel in bad.kernel_config().kernels.values():
        other = good.kernel_config().kernel_named(kernel.name)
        if other is None or kernel.external or other.external:
            continue
        if texts := text_changes(_source(good, other), source_lines(_source(bad, kernel))):
            listed = _listed_otherwise(bad, good, kernel, other)
            changes.append(
                listed
                or Change(part=ChangedPart.KERNEL, file=str(kernel.source), kernel=kernel.name, texts=texts)
            )
    return changes


def _listed_otherwise(
    bad: BuildDirectory, good: BuildDirectory, kernel: Kernel, other: Kernel
) -> Change | None:
    """That a kernel is built from another source, which both builds have alike; None where its source was changed."""
    both_have = next(
        (each for each in good.kernel_config().kernels.values() if each.source == kernel.source), None
    )
    if kernel.source == other.source or both_have is None or _source(good, both_have) != _source(bad, kernel):
        return None
    lists = [build.folder.locate(FILE_NAME).read_bytes() for build in (good, bad)]
    names = [each.source.name.encode() for each in (kernel, other)]
    texts = tuple(
        change
        for change in text_changes(lists[0], source_lines(lists[1]))
        if any(name in line for name in names for line in (*change.was, *change.made))
    )
    return Change(part=ChangedPart.KERNEL_LIST, file=FILE_NAME, kernel=kernel.name, texts=texts)


def _program(build: BuildDirectory) -> bytes:
    return build.folder.locate(build.kernel_config().orchestration.source).read_bytes()


def _source(build: BuildDirectory, kernel: Kernel) -> bytes:
    return build.folder.locate(kernel.source).read_bytes()


def _write(build: BuildDirectory, source: PurePosixPath, text: bytes, *, anew: bool) -> None:
    file = build.folder.locate(source)
    if anew or file.read_bytes() != text:
        file.write_bytes(text)


def _listed(config: KernelConfig) -> tuple[object, ...]:
    """What a kernel list says that matters, whatever its files are called."""
    kernels: Mapping[int, object] = {
        number: (kernel.name, kernel.core_type, kernel.external and kernel.source, kernel.signature)
        for number, kernel in config.kernels.items()
    }
    return dict(config.runtime), config.orchestration.signature, config.orchestration.function_name, kernels


def _runs_otherwise(failing: Toolchain, reference: Toolchain) -> bool:
    """Whether the builds are run by different toolchains, as far as places and variables tell."""

    def told(side: Toolchain) -> tuple[object, ...]:
        places = {name: entry.path for name, entry in side.stack.repositories.items()}
        return side.python, side.platform, side.schedule, side.environment, places

    return told(failing) != told(reference)
