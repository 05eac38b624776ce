"""Finds the changes from a good build, the reference, to a failing one, and makes builds with some of the changes.

`BuildChanges` compares the sources of two builds, and makes the reference with some of the changes. `data_changes`
compares their frozen data, because wrong data can make a correct build fail.

`text_changes` finds the lines that differ in two versions of a source. `apply_changes` makes the reference version with
some of these changes.

`apply_reference_allocations` first aligns the allocations of two orchestrations. A compiler that reuses a buffer for a
second tensor allocates fewer buffers, and numbers the others anew. The new numbers have no effect, and cannot change
one by one. So the failing version gets the allocations of the reference. The lines that still differ put a tensor into
another buffer.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
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
from ...runner.build_output.orchestration import (
    Allocation,
    CreateInfo,
    Orchestration,
    Origin,
    Span,
    TensorName,
)
from ..replay.replay import RunnableBuild, WorkingCopy
from ..replay.toolchain import Toolchain

_COMMENT_OR_STRING = re.compile(rb"//[^\n]*|/\*.*?\*/|(\"(?:\\.|[^\"\\])*\")", re.DOTALL)
"""A comment, or a string in group 1. Strings are matched so that `//` in a string does not begin a comment."""
_ARGUMENTS = re.compile(
    rb"\b(\w+)\.(?:add_\w+|launch_spec|set_dependencies|dump)\b|\brt_submit_\w+\([^;]*?(\w+)\)\s*;"
)
"""A line about the arguments of a task, with their variable in a group: `params.add_input(x);` in group 1, or
`rt_submit_aiv_task(0, params);` in group 2."""
_DECLARATION = re.compile(rb"\s*(?:[\w:]+[&*]?\s+)+[&*]?(\w+)\s*=(?!=)(.*)", re.DOTALL)
"""A declaration of one name with its value: `int rows = 8;`.

Arrays do not match, because the shape and the offsets of a view must change together.
"""
_SHAPES = re.compile(r"TensorCreateInfo\s+\w+\s*[({]\s*(\w+)")
"""The array with the shape of an allocation: `x_shapes` in `TensorCreateInfo x_ci(x_shapes, 2, DataType::FLOAT32);`."""
_BATCH_INDEX = re.compile(rb"(\bget_ref\(\s*)\w+(\s*\))")
"""The index of a tensor in its batch of allocations: `0` in `const ChipTensor& x = batch.get_ref(0);`."""
_MAX_DECLARATION_LINES = 4
"""The declaration of an allocation has at most this many lines, from its shape on. The generator writes no more."""


class ChangedPart(Enum):
    """The part of a build that a change affects."""

    KERNEL = "kernel"
    """The source of one kernel, as a whole."""
    ORCHESTRATION = "orchestration"
    """Edits of the orchestration's source that have to be made together."""
    KERNEL_LIST = "kernel list"
    """The kernel list as a whole, with the kernels that only the failing build has.

    If the change names a kernel, only the source file listed for that kernel differs. Both builds have that file.
    """
    RUNTIME = "runtime"
    """The toolchain that runs the build."""
    DATA = "data"
    """A frozen input or expected output. It belongs to the case and not to the build."""


@dataclass(frozen=True, kw_only=True)
class Change:
    """A difference between the two builds.

    Attributes:
        file: the path of the file in the failing build, or "" if no file differs.
        kernel: the name of the kernel that differs, or "".
        edits: the places at which the source differs.
        settings: the settings of the toolchain that differ, the reference's after `-`, and the failing ones after `+`.
    """

    part: ChangedPart
    file: str = ""
    kernel: str = ""
    edits: tuple[TextChange, ...] = ()
    settings: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class BuildChanges:
    """All changes from the build `reference` to the build `failing`."""

    failing: RunnableBuild
    reference: RunnableBuild
    changes: tuple[Change, ...]

    @classmethod
    def compare(cls, failing: RunnableBuild, reference: RunnableBuild) -> BuildChanges:
        """Compare the sources of two builds. Comments and blanks do not count.

        Raises `BuildOutputError` if a source cannot be read.
        """
        directories = [BuildDirectory.open(build.path) for build in (failing, reference)]
        failing_list, reference_list = (directory.kernel_config() for directory in directories)
        changes = [*_orchestration_changes(*directories), *_kernel_changes(*directories)]
        if _list_contents(failing_list) != _list_contents(reference_list):
            changes.append(Change(part=ChangedPart.KERNEL_LIST, file=KERNEL_CONFIG_FILE))
        if _toolchains_differ(failing.toolchain, reference.toolchain):
            settings = _differing_settings(failing.toolchain, reference.toolchain)
            changes.append(Change(part=ChangedPart.RUNTIME, settings=settings))
        return cls(failing=failing, reference=reference, changes=tuple(changes))

    @property
    def source_changes(self) -> tuple[Change, ...]:
        """Return all changes except that of the runtime."""
        return tuple(change for change in self.changes if change.part is not ChangedPart.RUNTIME)

    def make(self, chosen: Collection[Change], folder: Path, schedule: str | None) -> RunnableBuild:
        """Make the reference with some of the changes, in the new folder `folder`.

        schedule: the schedule of the stack file under which the build runs. None keeps the schedule of its toolchain.

        Raises `BuildOutputError` if a source cannot be read.
        """
        # A change of the list that names a kernel swaps only the text of that kernel.
        parts = {change.part for change in chosen if not change.kernel}
        list_build = self.failing if ChangedPart.KERNEL_LIST in parts else self.reference
        toolchain = (self.failing if ChangedPart.RUNTIME in parts else self.reference).toolchain
        WorkingCopy.create(list_build.path, folder)
        failing, reference, copy = (
            BuildDirectory.open(path) for path in (self.failing.path, self.reference.path, folder)
        )
        # A source that another toolchain has compiled is written again, so that it is newer than its binary.
        always = _toolchains_differ(list_build.toolchain, toolchain)
        names = {change.kernel for change in chosen if change.kernel}
        for kernel in copy.kernel_config().kernels.values():
            if not kernel.external:
                # If the two lists name different files for a kernel, the text goes to the file of the copied list.
                text = _kernel_text(kernel.name, failing, reference, prefer_failing=kernel.name in names)
                _write(copy, kernel.source, text, always=always)
        edits = [
            edit for change in chosen if change.part is ChangedPart.ORCHESTRATION for edit in change.edits
        ]
        text = apply_changes(_orchestration_text(reference), edits)
        _write(copy, copy.kernel_config().orchestration.source, text, always=always)
        return RunnableBuild(
            path=folder, toolchain=toolchain if schedule is None else toolchain.with_schedule(schedule)
        )


def _kernel_text(
    name: str, failing: BuildDirectory, reference: BuildDirectory, *, prefer_failing: bool
) -> bytes:
    """Return the source of a kernel in the reference, or in the failing build if preferred or if only that has it."""
    failing_kernel = failing.kernel_config().kernel_named(name)
    reference_kernel = reference.kernel_config().kernel_named(name)
    if failing_kernel is not None and (prefer_failing or reference_kernel is None):
        return failing.source(failing_kernel.source)
    assert reference_kernel is not None, "the list comes from one of the two builds"
    return reference.source(reference_kernel.source)


def _orchestration_changes(failing: BuildDirectory, reference: BuildDirectory) -> list[Change]:
    """Return the changes of the orchestration.

    Differences in allocations alone are no change, but differences in the places of tensors are. If only allocations
    differ, every differing line is a change.
    """
    file = str(failing.kernel_config().orchestration.source)
    reference_text = _orchestration_text(reference)
    aligned = apply_reference_allocations(reference.orchestration(), failing.orchestration())
    groups = group_changes(text_changes(reference_text, aligned))
    if not groups:
        groups = group_changes(text_changes(reference_text, source_lines(_orchestration_text(failing))))
    return [Change(part=ChangedPart.ORCHESTRATION, file=file, edits=edits) for edits in groups]


def _kernel_changes(failing: BuildDirectory, reference: BuildDirectory) -> list[Change]:
    """Return a change for each kernel of both builds, by name, whose sources differ."""
    changes: list[Change] = []
    for kernel in failing.kernel_config().kernels.values():
        other = reference.kernel_config().kernel_named(kernel.name)
        if other is None or kernel.external or other.external:
            continue
        if edits := text_changes(reference.source(other.source), source_lines(failing.source(kernel.source))):
            list_change = _kernel_list_change(failing, reference, kernel, other)
            changes.append(
                list_change
                or Change(part=ChangedPart.KERNEL, file=str(kernel.source), kernel=kernel.name, edits=edits)
            )
    return changes


def _kernel_list_change(
    failing: BuildDirectory, reference: BuildDirectory, kernel: Kernel, other: Kernel
) -> Change | None:
    """Return the change if the failing build only lists another file for a kernel, which both builds have alike.

    `kernel` is the kernel in the failing build, and `other` the kernel of the same name in the reference.
    """
    listed = {each.source for each in reference.kernel_config().kernels.values()}
    if kernel.source == other.source or kernel.source not in listed:
        return None
    if reference.source(kernel.source) != failing.source(kernel.source):
        return None
    lists = [build.source(PurePath(KERNEL_CONFIG_FILE)) for build in (reference, failing)]
    names = [
        re.compile(rb"(?<![\w.-])" + re.escape(each.source.name.encode()) + rb"(?![\w.-])")
        for each in (kernel, other)
    ]
    edits = tuple(
        edit
        for edit in text_changes(lists[0], source_lines(lists[1]))
        if any(name.search(line) for name in names for line in (*edit.old, *edit.new_lines))
    )
    return Change(part=ChangedPart.KERNEL_LIST, file=KERNEL_CONFIG_FILE, kernel=kernel.name, edits=edits)


def _orchestration_text(build: BuildDirectory) -> bytes:
    return build.source(build.kernel_config().orchestration.source)


def _write(build: BuildDirectory, source: PurePosixPath, text: bytes, *, always: bool) -> None:
    """Write a source of a build. Without `always`, a file that already has this text is not touched."""
    file = build.folder.locate(source)
    if always or file.read_bytes() != text:
        file.write_bytes(text)


def _list_contents(config: KernelConfig) -> tuple[object, ...]:
    """Return the contents of a kernel list that matter, without the paths of files that belong to the build."""
    kernels: Mapping[int, object] = {
        number: (kernel.name, kernel.core_type, kernel.source if kernel.external else None, kernel.signature)
        for number, kernel in config.kernels.items()
    }
    return dict(config.runtime), config.orchestration.signature, config.orchestration.function_name, kernels


def _toolchains_differ(toolchain: Toolchain, other: Toolchain) -> bool:
    """Return whether two toolchains differ in their settings, their variables or the paths of their repositories."""

    def values(of: Toolchain) -> tuple[object, ...]:
        paths = {name: entry.path for name, entry in of.stack.repositories.items()}
        return of.python, of.platform, of.schedule, of.environment, paths

    return values(toolchain) != values(other)


def _differing_settings(failing: Toolchain, reference: Toolchain) -> tuple[str, ...]:
    """Return the settings in which two toolchains differ, as `-` and `+` lines with a name and a value."""
    new, old = _settings(failing), _settings(reference)
    return tuple(
        f"{sign} {name} {side[name]}"
        for name in dict.fromkeys([*old, *new])
        if old.get(name) != new.get(name)
        for sign, side in (("-", old), ("+", new))
        if name in side
    )


def _settings(toolchain: Toolchain) -> Mapping[str, str]:
    """Return the settings of a toolchain by name: its interpreter, platform, schedule, repositories and variables.

    A repository of a slot counts by its commit. The slot's own folder does not count.
    """
    environment = toolchain.environment
    settings = {
        "python": str(toolchain.python),
        "platform": toolchain.platform,
        "schedule": toolchain.schedule or "none",
        **{name: str(entry.path) for name, entry in toolchain.stack.repositories.items()},
        **{name: environment[name] for name in sorted(toolchain.settings & environment.keys())},
    }
    if not toolchain.of_slot:
        return settings
    inside = {name: text.replace(str(toolchain.slot), "SLOT") for name, text in settings.items()}
    return {**inside, **{name: commit[:12] for name, commit in toolchain.slot_commits().items()}}


def data_changes(failing: Path, reference: Path) -> tuple[Change, ...]:
    """Return a change for each tensor that differs in two folders of frozen data.

    Returns no change if the reference has no such folder. Raises `BuildOutputError` if other data cannot be read.
    """
    try:
        reference_data = GoldenData.open(reference)
    except BuildOutputError:
        return ()
    failing_data = GoldenData.open(failing)
    return (
        *_folder_changes(failing_data.inputs, reference_data.inputs, "data/in"),
        *_folder_changes(failing_data.outputs, reference_data.outputs, "data/out"),
    )


def _folder_changes(failing: TensorFolder, reference: TensorFolder, folder: str) -> tuple[Change, ...]:
    return tuple(
        Change(part=ChangedPart.DATA, file=f"{folder}/{name}.pt")
        for name in failing.names
        if name in reference.names and _differ(failing, reference, name)
    )


def _differ(failing: TensorFolder, reference: TensorFolder, name: str) -> bool:
    one, other = failing.tensor(name), reference.tensor(name)
    return (one.dtype, one.shape) != (other.dtype, other.shape) or (
        one.contiguous().tobytes() != other.contiguous().tobytes()
    )


@dataclass(frozen=True)
class SourceLine:
    """A line of the failing build's source."""

    text: bytes
    """The line as it is compared and applied, with the allocations of the reference."""
    number: int
    """The number of the line in the file, from 1."""
    written: bytes
    """The line as it is in the file. It is empty if the line comes from the reference."""


def source_lines(text: bytes) -> tuple[SourceLine, ...]:
    """Return the lines of a file, unchanged."""
    lines = text.splitlines(keepends=True)
    return tuple(SourceLine(line, number, line) for number, line in enumerate(lines, start=1))


@dataclass(frozen=True, kw_only=True)
class TextChange:
    """Adjacent lines of the reference, and the lines of the failing build that replace them."""

    start: int
    """The line number of the first replaced line in the reference, from 0."""
    stop: int
    """The line number after the last replaced line. It equals `start` if lines are only added."""
    old: tuple[bytes, ...]
    new: tuple[SourceLine, ...]
    first_line: int
    """The line number of the change in the file of the failing build, from 1."""

    @property
    def new_lines(self) -> tuple[bytes, ...]:
        """Return the texts of the new lines."""
        return tuple(line.text for line in self.new)

    @property
    def changes_code(self) -> bool:
        """Return whether more than comments and blanks differ."""
        return _code(self.old) != _code(self.new_lines)

    def lines(self) -> tuple[str, ...]:
        """Return the change as a diff shows it, with `-` or `+` before each line."""
        return tuple(
            f"{sign} {line.decode('utf-8', 'replace').strip()}"
            for sign, lines in (("-", self.old), ("+", tuple(line.written for line in self.new)))
            for line in lines
            if line.strip()
        )


def text_changes(reference: bytes, failing: Sequence[SourceLine]) -> tuple[TextChange, ...]:
    """Return all changes that matter to a compiler, in the order of the lines.

    >>> [change.lines() for change in text_changes(b"a;\\nb;\\n", source_lines(b"a;\\nc;\\n"))]
    [('- b;', '+ c;')]
    >>> text_changes(b"a;  // one\\n", source_lines(b"a; // two\\n"))
    ()
    """
    old, new = reference.splitlines(keepends=True), [line.text for line in failing]
    changes = (
        TextChange(
            start=start,
            stop=stop,
            old=tuple(old[start:stop]),
            new=tuple(failing[first:last]),
            first_line=failing[first].number if first < len(failing) else len(failing) + 1,
        )
        for kind, start, stop, first, last in SequenceMatcher(None, old, new, autojunk=False).get_opcodes()
        if kind != "equal"
    )
    return tuple(change for change in changes if change.changes_code)


def group_changes(changes: Sequence[TextChange]) -> tuple[tuple[TextChange, ...], ...]:
    """Return the changes of an orchestration in groups. The changes of a group must be made together.

    Lines and values that moved from one place to another are in one group. So are all lines about the arguments of one
    task. Declarations of names that both versions have are separate changes, even on adjacent lines.

    >>> [len(group) for group in group_changes(text_changes(b"a;\\nb;\\nc;\\n", source_lines(b"b;\\na;\\nc;\\nd;\\n")))]
    [2, 1]
    >>> old, new = b"int a = 1;\\nint b = 2;\\n", source_lines(b"int a = 3;\\nint b = 4;\\n")
    >>> [len(group) for group in group_changes(text_changes(old, new))]
    [1, 1]
    """
    groups: list[_Group] = []
    for change in (part for whole in changes for part in _split_declarations(whole)):
        arguments = _ARGUMENTS.findall(b"".join((*change.old, *change.new_lines)))
        names = {b"arguments " + (variable or submitted) for variable, submitted in arguments}
        group = _Group(
            removed_code=_movable_code(change.old) | names,
            added_code=_movable_code(change.new_lines) | names,
            members=(change,),
        )
        for earlier in [each for each in groups if each.belongs_with(group)]:
            groups.remove(earlier)
            group = earlier.merge(group)
        groups.append(group)
    return tuple(group.members for group in groups)


@dataclass(frozen=True, kw_only=True, eq=False)
class _Group:
    """Changes that must be made together, with the code that they remove and add."""

    removed_code: set[bytes]
    added_code: set[bytes]
    members: tuple[TextChange, ...]

    def belongs_with(self, later: _Group) -> bool:
        """Return whether one group removes code that the other adds, which means that the code moved."""
        return bool(self.removed_code & later.added_code or self.added_code & later.removed_code)

    def merge(self, later: _Group) -> _Group:
        """Return one group with the changes of both."""
        return _Group(
            removed_code=self.removed_code | later.removed_code,
            added_code=self.added_code | later.added_code,
            members=self.members + later.members,
        )


def _movable_code(lines: tuple[bytes, ...]) -> set[bytes]:
    """Return the statements of the lines, and the values that they declare, to find them again elsewhere."""
    statements = {code for line in lines if (code := _code((line,))) not in (b"", b"{", b"}", b"};")}
    declarations = (_DECLARATION.match(line) for line in lines)
    return statements | {b"value " + _code((match[2],)) for match in declarations if match is not None}


def _split_declarations(change: TextChange) -> Iterator[TextChange]:
    """Yield one change for each line, if each new line declares the same name as the old one. Else yield the change."""
    pairs = [
        (_DECLARATION.match(old), _DECLARATION.match(new))
        for old, new in zip(change.old, change.new_lines, strict=False)
    ]
    same_names = all(old is not None and new is not None and old[1] == new[1] for old, new in pairs)
    if len(change.old) != len(change.new) or not same_names:
        yield change
        return
    for start, (old, new) in enumerate(zip(change.old, change.new, strict=True), start=change.start):
        part = TextChange(start=start, stop=start + 1, old=(old,), new=(new,), first_line=new.number)
        if part.changes_code:
            yield part


def apply_changes(reference: bytes, chosen: Collection[TextChange]) -> bytes:
    """Return the text of the reference with the chosen changes.

    >>> changes = text_changes(b"a\\nb\\nc\\n", source_lines(b"x\\nb\\ny\\n"))
    >>> apply_changes(b"a\\nb\\nc\\n", changes[1:])
    b'a\\nb\\ny\\n'
    """
    lines = reference.splitlines(keepends=True)
    for change in sorted(chosen, key=lambda change: change.start, reverse=True):
        lines[change.start : change.stop] = change.new_lines
    return b"".join(lines)


def _code(lines: tuple[bytes, ...]) -> bytes:
    """Return the text without comments and blanks."""
    bare = _COMMENT_OR_STRING.sub(lambda match: match[1] or b" ", b"".join(lines))
    return b"".join(bare.split())


def apply_reference_allocations(reference: Orchestration, failing: Orchestration) -> tuple[SourceLine, ...]:
    """Return the lines of `failing`, with larger batches of allocations from `reference`.

    A batch is replaced if the reference's batch has all of its allocations and more. The additional allocations have no
    effect, because no tensor of `failing` uses them. A batch that is not fully understood stays unchanged.
    """
    lines = list(source_lines(failing.source))
    added: dict[int, list[bytes]] = {}
    for allocation in failing.allocations:
        other = _larger_batch(reference, failing, allocation)
        tensors = None if other is None else _tensors_of(failing, allocation)
        if other is None or tensors is None:
            continue
        declarations = _missing_declarations(reference, failing, other)
        failing_line = _only_line(failing, allocation.statement)
        reference_line = _only_line(reference, other.statement)
        if declarations is None or failing_line is None or reference_line is None:
            continue
        for before, text in declarations:
            added.setdefault(failing_line if before is None else before, []).extend(text)
        _replace_line(lines, failing_line, reference.source.splitlines(keepends=True)[reference_line])
        for line, index in tensors:
            new_index = other.infos.index(allocation.infos[index])
            _replace_line(lines, line, _BATCH_INDEX.sub(rb"\g<1>%d\g<2>" % new_index, lines[line].text))
    return tuple(_insert_lines(lines, added))


def _larger_batch(
    reference: Orchestration, failing: Orchestration, allocation: Allocation
) -> Allocation | None:
    """Return the reference's batch of the same name, if it has all allocations of this one and more, each once."""
    reference_batches, failing_batches = (
        [batch for batch in side.allocations if batch.variable == allocation.variable]
        for side in (reference, failing)
    )
    if len(reference_batches) != 1 or len(failing_batches) != 1:
        return None
    infos, more = allocation.infos, reference_batches[0].infos
    has_repeats = len(set(infos)) < len(infos) or len(set(more)) < len(more)
    return reference_batches[0] if not has_repeats and set(infos) < set(more) else None


def _tensors_of(failing: Orchestration, allocation: Allocation) -> list[tuple[int, int]] | None:
    """Return the line and the index of each tensor from a batch. Returns None if a tensor may be overlooked."""
    tensors = [
        tensor
        for tensor in failing.tensors
        if tensor.origin is Origin.ALLOCATED and tensor.base == allocation.variable
    ]
    uses = re.findall(rf"\b{re.escape(allocation.variable)}\b".encode(), failing.source)
    if len(uses) != 1 + len(tensors):
        return None
    places = [
        (line, tensor.index)
        for tensor in tensors
        if (line := _line_of(failing, tensor)) is not None
        and tensor.index is not None
        and tensor.index < len(allocation.infos)
    ]
    return places if len(places) == len(tensors) else None


def _line_of(failing: Orchestration, tensor: TensorName) -> int | None:
    """Return the line that takes a tensor from its batch. Returns None if it does more than that."""
    line = _only_line(failing, tensor.statement)
    text = b"" if line is None else failing.source.splitlines(keepends=True)[line]
    return line if len(_BATCH_INDEX.findall(text)) == 1 else None


def _missing_declarations(
    reference: Orchestration, failing: Orchestration, batch: Allocation
) -> list[tuple[int | None, list[bytes]]] | None:
    """Return the lines that declare each allocation that `failing` lacks, with the line before which they belong.

    That line is None for the line of the batch. Returns None if a declaration is not found.
    """
    known, infos = {info.name for info in failing.create_infos}, reference.create_infos
    order = [info.name for info in infos]
    declarations: list[tuple[int | None, list[bytes]]] = []
    for name in sorted(set(batch.infos) - known, key=lambda name: order.index(name) if name in order else -1):
        if order.count(name) != 1:
            return None
        index = order.index(name)
        lines = _declaration_lines(reference, infos[index])
        if lines is None:
            return None
        text = reference.source.splitlines(keepends=True)[lines.start : lines.stop]
        declarations.append((_line_after(failing, order[index + 1 :], batch), text))
    return declarations


def _line_after(failing: Orchestration, following: Sequence[str], batch: Allocation) -> int | None:
    """Return the line of `failing` that declares the first of these names that the batch has too."""
    own: Mapping[str, CreateInfo] = {info.name: info for info in failing.create_infos}
    for name in following:
        if name in own and name in batch.infos:
            lines = _declaration_lines(failing, own[name])
            return None if lines is None else lines.start
    return None


def _declaration_lines(orchestration: Orchestration, info: CreateInfo) -> range | None:
    """Return the lines that declare an allocation, from its shape on. Returns None if the shape is not nearby."""
    last = _only_line(orchestration, info.statement)
    shapes = _SHAPES.search(orchestration.text(info.statement))
    if last is None or shapes is None:
        return None
    lines = orchestration.source.splitlines(keepends=True)
    for first in range(last - 1, max(-1, last - _MAX_DECLARATION_LINES), -1):
        if re.search(rf"\b{re.escape(shapes[1])}\s*\[".encode(), lines[first]):
            return range(first, last + 1)
    return None


def _only_line(orchestration: Orchestration, statement: Span) -> int | None:
    """Return the line number, from 0, of a statement. Returns None if the statement is not alone on one line."""
    before = orchestration.source[: statement.start].rpartition(b"\n")[2]
    after = orchestration.source[statement.end :].partition(b"\n")[0].strip(b" \t\r;")
    is_multiline = "\n" in orchestration.text(statement)
    if is_multiline or before.strip() or (after and not after.startswith(b"//")):
        return None
    return orchestration.source.count(b"\n", 0, statement.start)


def _replace_line(lines: list[SourceLine], line: int, text: bytes) -> None:
    lines[line] = SourceLine(text, lines[line].number, lines[line].written)


def _insert_lines(lines: Sequence[SourceLine], added: Mapping[int, Sequence[bytes]]) -> list[SourceLine]:
    """Return the lines with the added ones before their line numbers. The added lines are not in the file."""
    whole: list[SourceLine] = []
    for place, line in enumerate(lines):
        whole += [SourceLine(text, line.number, b"") for text in added.get(place, ())]
        whole.append(line)
    return whole
