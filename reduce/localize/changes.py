"""What differs between the failing build and the good one, in parts that can be put into the good build one by one.

`BuildChanges` compares the sources of two builds and makes builds with some of the changes. `data_changes` compares
their frozen data: what a build fails on may not be its own fault.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from enum import Enum
from pathlib import Path, PurePath, PurePosixPath

from ...runner.build_output.directory import (
    KERNEL_CONFIG_FILE,
    BuildDirectory,
    GoldenData,
    Kernel,
    KernelConfig,
    TensorFolder,
)
from ...runner.build_output.files import BuildOutputError
from ..replay.replay import RunnableBuild, WorkingCopy
from ..replay.toolchain import Toolchain
from ..rewrite_text import (
    TextChange,
    apply_changes,
    apply_reference_allocations,
    group_changes,
    source_lines,
    text_changes,
)


class ChangedPart(Enum):
    """What a change is made to."""

    KERNEL = "kernel"
    """The source of one kernel, as a whole."""
    ORCHESTRATION = "orchestration"
    """One place of the orchestration's source, with the places that make no sense without it."""
    KERNEL_LIST = "kernel list"
    """The kernel list as a whole, with the kernels that only the failing build has.

    With a kernel's name, it is only the choice of the source that this kernel is built from; both builds have that
    source.
    """
    RUNTIME = "runtime"
    """The toolchain that runs the build."""
    DATA = "data"
    """A frozen tensor, an input or an expected output. It belongs to the case and not to the build."""


@dataclass(frozen=True, kw_only=True)
class Change:
    """A part that differs.

    `file` is relative to the failing build, and `kernel` is a name; each is empty where there is none. `texts` are the
    places at which the source differs.
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
    def compare(cls, failing: RunnableBuild, reference: RunnableBuild) -> BuildChanges:
        """Compare the sources of two builds; comments and blanks do not count.

        Raises `BuildOutputError` where a source cannot be read.
        """
        bad, good = (BuildDirectory.open(build.path) for build in (failing, reference))
        bad_list, good_list = bad.kernel_config(), good.kernel_config()
        changes = [*_orchestration(bad, good), *_kernels(bad, good)]
        if _list_contents(bad_list) != _list_contents(good_list):
            changes.append(Change(part=ChangedPart.KERNEL_LIST, file=KERNEL_CONFIG_FILE))
        if _toolchains_differ(failing.toolchain, reference.toolchain):
            changes.append(Change(part=ChangedPart.RUNTIME))
        return cls(failing=failing, reference=reference, changes=tuple(changes))

    @property
    def source_changes(self) -> tuple[Change, ...]:
        """The changes of the builds themselves, without that of the runtime."""
        return tuple(change for change in self.changes if change.part is not ChangedPart.RUNTIME)

    def make(self, chosen: Collection[Change], folder: Path, schedule: str | None) -> RunnableBuild:
        """Make the good build with some of the changes, in the new folder `folder`.

        It runs under `schedule` of the stack file; None leaves the schedule that its toolchain has.

        Raises `BuildOutputError` where a source cannot be read.
        """
        # Where a kernel is built from another source, that text is written to the source that the good build lists.
        parts = {change.part for change in chosen if not change.kernel}
        listing = self.failing if ChangedPart.KERNEL_LIST in parts else self.reference
        runs = self.failing if ChangedPart.RUNTIME in parts else self.reference
        copy = WorkingCopy.create(listing.path, folder)
        bad, good, made = (
            BuildDirectory.open(path) for path in (self.failing.path, self.reference.path, folder)
        )
        # Sources that another toolchain has compiled are written anew, so that they are newer than their binaries.
        anew = listing is not runs and _toolchains_differ(listing.toolchain, runs.toolchain)
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
            made, made.kernel_config().orchestration.source, apply_changes(_program(good), texts), anew=anew
        )
        toolchain = runs.toolchain if schedule is None else runs.toolchain.with_schedule(schedule)
        return RunnableBuild(path=copy.path, toolchain=toolchain)


def _orchestration(bad: BuildDirectory, good: BuildDirectory) -> list[Change]:
    """The changes of the orchestration.

    It is no change that the failing build allocates fewer buffers than the good one: only what it puts into the others
    is. Where nothing else differs, all lines that differ are changes.
    """
    file = str(bad.kernel_config().orchestration.source)
    like_the_good = apply_reference_allocations(good.orchestration(), bad.orchestration())
    changes = group_changes(text_changes(_program(good), like_the_good))
    if not changes:
        changes = group_changes(text_changes(_program(good), source_lines(_program(bad))))
    return [Change(part=ChangedPart.ORCHESTRATION, file=file, texts=texts) for texts in changes]


def _kernels(bad: BuildDirectory, good: BuildDirectory) -> list[Change]:
    """Kernels that both builds have, by name, and whose sources differ."""
    changes: list[Change] = []
    for kernel in bad.kernel_config().kernels.values():
        other = good.kernel_config().kernel_named(kernel.name)
        if other is None or kernel.external or other.external:
            continue
        if texts := text_changes(_source(good, other), source_lines(_source(bad, kernel))):
            listed = _kernel_list_change(bad, good, kernel, other)
            changes.append(
                listed
                or Change(part=ChangedPart.KERNEL, file=str(kernel.source), kernel=kernel.name, texts=texts)
            )
    return changes


def _kernel_list_change(
    bad: BuildDirectory, good: BuildDirectory, kernel: Kernel, other: Kernel
) -> Change | None:
    """The change that a kernel is built from another source, which both builds have alike.

    None where the source itself was changed.
    """
    both_have = next(
        (each for each in good.kernel_config().kernels.values() if each.source == kernel.source), None
    )
    if kernel.source == other.source or both_have is None or _source(good, both_have) != _source(bad, kernel):
        return None
    lists = [build.source(PurePath(KERNEL_CONFIG_FILE)) for build in (good, bad)]
    names = [each.source.name.encode() for each in (kernel, other)]
    texts = tuple(
        change
        for change in text_changes(lists[0], source_lines(lists[1]))
        if any(name in line for name in names for line in (*change.was, *change.new_lines))
    )
    return Change(part=ChangedPart.KERNEL_LIST, file=KERNEL_CONFIG_FILE, kernel=kernel.name, texts=texts)


def _program(build: BuildDirectory) -> bytes:
    return build.source(build.kernel_config().orchestration.source)


def _source(build: BuildDirectory, kernel: Kernel) -> bytes:
    return build.source(kernel.source)


def _write(build: BuildDirectory, source: PurePosixPath, text: bytes, *, anew: bool) -> None:
    file = build.folder.locate(source)
    if anew or file.read_bytes() != text:
        file.write_bytes(text)


def _list_contents(config: KernelConfig) -> tuple[object, ...]:
    """The relevant contents of a kernel list, whatever its files are called."""
    kernels: Mapping[int, object] = {
        number: (kernel.name, kernel.core_type, kernel.external and kernel.source, kernel.signature)
        for number, kernel in config.kernels.items()
    }
    return dict(config.runtime), config.orchestration.signature, config.orchestration.function_name, kernels


def _toolchains_differ(failing: Toolchain, reference: Toolchain) -> bool:
    """Return whether the builds are run by different toolchains, as far as places and variables tell."""

    def settings(side: Toolchain) -> tuple[object, ...]:
        places = {name: entry.path for name, entry in side.stack.repositories.items()}
        return side.python, side.platform, side.schedule, side.environment, places

    return settings(failing) != settings(reference)


def data_changes(failing: Path, reference: Path) -> tuple[Change, ...]:
    """Tensors, by their files, that differ between two folders of frozen data; none where a folder is missing.

    Raises `BuildOutputError` where a tensor of the failing build cannot be read.
    """
    try:
        theirs = GoldenData.open(reference)
    except BuildOutputError:
        return ()
    ours = GoldenData.open(failing)
    return (
        *_data_changes_in(ours.inputs, theirs.inputs, "data/in"),
        *_data_changes_in(ours.outputs, theirs.outputs, "data/out"),
    )


def _data_changes_in(failing: TensorFolder, reference: TensorFolder, folder: str) -> tuple[Change, ...]:
    return tuple(
        Change(part=ChangedPart.DATA, file=f"{folder}/{name}.pt")
        for name in failing.names
        if name in reference.names and _differ(failing, reference, name)
    )


def _differ(failing: TensorFolder, reference: TensorFolder, name: str) -> bool:
    ours, theirs = failing.tensor(name), reference.tensor(name)
    return (ours.dtype, ours.shape) != (theirs.dtype, theirs.shape) or (
        ours.contiguous().tobytes() != theirs.contiguous().tobytes()
    )
