"""The parts in which the failing build differs from the good one, each of which can be put into the good build alone.

`BuildChanges` compares the sources of two builds and makes builds with some of the changes. `data_changes` compares
their frozen data: what a build fails on may not be its own fault.

`text_changes` finds the lines in which two versions of a source differ, and `apply_changes` writes a version that has
only some of the changes. Before that, `apply_reference_allocations` aligns the allocations of two orchestrations. A
compiler that lets a tensor use the buffer of another one allocates fewer buffers, and renumbers all that follow. Such
lines have no effect by themselves, and none of them can be changed alone. Which tensor lies in which buffer can be
changed alone. So one version gets the allocations of the other, and their buffers compare by what is in them.
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

_COMMENT = re.compile(rb"//[^\n]*|/\*.*?\*/|(\"(?:\\.|[^\"\\])*\")", re.DOTALL)
_ARGUMENTS = re.compile(
    rb"\b(\w+)\.(?:add_\w+|launch_spec|set_dependencies|dump)\b|\brt_submit_\w+\([^;]*?(\w+)\)\s*;"
)
_DECLARATION = re.compile(rb"\s*(?:[\w:]+[&*]?\s+)+[&*]?(\w+)\s*=(?!=)(.*)", re.DOTALL)
"""A declaration of one name with its value. Arrays do not match, because a view's shape and its offsets belong
together."""
_SHAPES = re.compile(r"TensorCreateInfo\s+\w+\s*[({]\s*(\w+)")
_PLACE = re.compile(rb"(\bget_ref\(\s*)\w+(\s*\))")
_MAX_DECLARATION_LINES = 4
"""At most this many lines, counted from its shape on, declare one allocation. The generator writes no more."""


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
        """Return the changes of the builds themselves, without that of the runtime."""
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


@dataclass(frozen=True)
class SourceLine:
    """A line of the failing build's source. `text` is the line as it is used here. `number`, from 1, and `written` are
    those of the line in that build's file."""

    text: bytes
    number: int
    written: bytes


def source_lines(text: bytes) -> tuple[SourceLine, ...]:
    """The lines of a file, unchanged."""
    lines = text.splitlines(keepends=True)
    return tuple(SourceLine(line, number, line) for number, line in enumerate(lines, start=1))


@dataclass(frozen=True, kw_only=True)
class TextChange:
    """Lines of a source that differ in the failing build's version.

    `start` to `stop` are line numbers of the reference, from 0. The range is empty where lines were only added.
    """

    start: int
    stop: int
    was: tuple[bytes, ...]
    now: tuple[SourceLine, ...]
    first_line: int
    """The first line of the change in the failing build's text, from 1."""

    @property
    def new_lines(self) -> tuple[bytes, ...]:
        """Return the new lines, which replace `was`."""
        return tuple(line.text for line in self.now)

    @property
    def changes_code(self) -> bool:
        """Return whether more than comments and blanks differ."""
        return _code(self.was) != _code(self.new_lines)

    def lines(self) -> tuple[str, ...]:
        """The change as a diff shows it, with `-` and `+` before the lines."""
        return tuple(
            f"{sign} {line.decode('utf-8', 'replace').strip()}"
            for sign, lines in (("-", self.was), ("+", tuple(line.written for line in self.now)))
            for line in lines
            if line.strip()
        )


def text_changes(reference: bytes, failing: Sequence[SourceLine]) -> tuple[TextChange, ...]:
    """All changes that matter to a compiler, in their order.

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
            was=tuple(old[start:stop]),
            now=tuple(failing[first:last]),
            first_line=failing[first].number if first < len(failing) else len(failing) + 1,
        )
        for kind, start, stop, first, last in SequenceMatcher(None, old, new, autojunk=False).get_opcodes()
        if kind != "equal"
    )
    return tuple(change for change in changes if change.changes_code)


def group_changes(changes: Sequence[TextChange]) -> tuple[tuple[TextChange, ...], ...]:
    """The changes of an orchestration, in groups whose members must be made together. A group holds lines and values
    that moved from one place to another, and all that is said of one task's arguments. Declarations of names that both
    versions have are separate changes, even on adjacent lines.

    >>> [len(group) for group in group_changes(text_changes(b"a;\\nb;\\nc;\\n", source_lines(b"b;\\na;\\nc;\\nd;\\n")))]
    [2, 1]
    >>> old, new = b"int a = 1;\\nint b = 2;\\n", source_lines(b"int a = 3;\\nint b = 4;\\n")
    >>> [len(group) for group in group_changes(text_changes(old, new))]
    [1, 1]
    """
    groups: list[tuple[set[bytes], set[bytes], list[TextChange]]] = []
    for change in (part for whole in changes for part in _declarations(whole)):
        was, now = _movable_code(change.was), _movable_code(change.new_lines)
        found = _ARGUMENTS.findall(b"".join((*change.was, *change.new_lines)))
        names = {b"arguments " + (added or submitted) for added, submitted in found}
        was, now, members = was | names, now | names, [change]
        for group in [each for each in groups if each[0] & now or each[1] & was]:
            groups.remove(group)
            was, now, members = was | group[0], now | group[1], [*group[2], *members]
        groups.append((was, now, members))
    return tuple(tuple(members) for _, _, members in groups)


def _movable_code(lines: tuple[bytes, ...]) -> set[bytes]:
    """The statements of the lines and the values of the names in them. The same code elsewhere means that it moved."""
    statements = {code for line in lines if (code := _code((line,))) not in (b"", b"{", b"}", b"};")}
    declared = (_DECLARATION.match(line) for line in lines)
    return statements | {b"value " + _code((found[2],)) for found in declared if found is not None}


def _declarations(change: TextChange) -> Iterator[TextChange]:
    """The change split by lines, if each line declares the name that the old line in its place declared. Otherwise the
    change is not split."""
    pairs = [
        (_DECLARATION.match(was), _DECLARATION.match(now))
        for was, now in zip(change.was, change.new_lines, strict=False)
    ]
    alike = all(was is not None and now is not None and was[1] == now[1] for was, now in pairs)
    if len(change.was) != len(change.now) or not alike:
        yield change
        return
    for place, (was, now) in enumerate(zip(change.was, change.now, strict=True)):
        start = change.start + place
        part = TextChange(start=start, stop=start + 1, was=(was,), now=(now,), first_line=now.number)
        if part.changes_code:
            yield part


def apply_changes(reference: bytes, chosen: Collection[TextChange]) -> bytes:
    """The reference's text with the chosen changes.

    >>> changes = text_changes(b"a\\nb\\nc\\n", source_lines(b"x\\nb\\ny\\n"))
    >>> apply_changes(b"a\\nb\\nc\\n", changes[1:])
    b'a\\nb\\ny\\n'
    """
    lines = reference.splitlines(keepends=True)
    for change in sorted(chosen, key=lambda change: change.start, reverse=True):
        lines[change.start : change.stop] = change.new_lines
    return b"".join(lines)


def _code(lines: tuple[bytes, ...]) -> bytes:
    """The text without comments and blanks."""
    bare = _COMMENT.sub(lambda match: match[1] or b" ", b"".join(lines))
    return b"".join(bare.split())


def apply_reference_allocations(reference: Orchestration, failing: Orchestration) -> tuple[SourceLine, ...]:
    """The lines of `failing`, with larger batches of allocations from `reference`. A batch is replaced if the
    reference's batch holds all of its allocations and more, because nothing lies in the additional ones. A batch that
    is not fully understood stays unchanged."""
    lines = list(source_lines(failing.source))
    added: dict[int, list[bytes]] = {}
    for allocation in failing.allocations:
        other = _larger_batch(reference, failing, allocation)
        tensors = None if other is None else _tensors_of(failing, allocation)
        if other is None or tensors is None:
            continue
        declared = _missing_declarations(reference, failing, other)
        own = _only_line(failing, allocation.statement)
        theirs = _only_line(reference, other.statement)
        if declared is None or own is None or theirs is None:
            continue
        for before, text in declared:
            added.setdefault(own if before is None else before, []).extend(text)
        _change(lines, own, reference.source.splitlines(keepends=True)[theirs])
        for line, place in tensors:
            place_there = other.infos.index(allocation.infos[place])
            _change(lines, line, _PLACE.sub(rb"\g<1>%d\g<2>" % place_there, lines[line].text))
    return tuple(_insert_lines(lines, added))


def _larger_batch(
    reference: Orchestration, failing: Orchestration, allocation: Allocation
) -> Allocation | None:
    """The reference's batch of the same name, if it allocates the same tensors and more, each of them once."""
    others = [other for other in reference.allocations if other.variable == allocation.variable]
    ours = [other for other in failing.allocations if other.variable == allocation.variable]
    if len(others) != 1 or len(ours) != 1:
        return None
    infos, more = allocation.infos, others[0].infos
    once = len(set(infos)) == len(infos) and len(set(more)) == len(more)
    return others[0] if once and set(infos) < set(more) else None


def _tensors_of(failing: Orchestration, allocation: Allocation) -> list[tuple[int, int]] | None:
    """The line and the index in the batch of each tensor that is taken from it. None if some tensors may be missed."""
    named = [
        tensor
        for tensor in failing.tensors
        if tensor.origin is Origin.ALLOCATED and tensor.base == allocation.variable
    ]
    mentioned = re.findall(rf"\b{re.escape(allocation.variable)}\b".encode(), failing.source)
    found = [(_line_of(failing, tensor), tensor.index) for tensor in named]
    if len(mentioned) != 1 + len(named):
        return None
    known = [
        (line, place)
        for line, place in found
        if line is not None and place is not None and place < len(allocation.infos)
    ]
    return known if len(known) == len(named) else None


def _line_of(failing: Orchestration, tensor: TensorName) -> int | None:
    line = _only_line(failing, tensor.statement)
    text = b"" if line is None else failing.source.splitlines(keepends=True)[line]
    return line if len(_PLACE.findall(text)) == 1 else None


def _missing_declarations(
    reference: Orchestration, failing: Orchestration, batch: Allocation
) -> list[tuple[int | None, list[bytes]]] | None:
    """Declarations of the allocations that `failing` does not have: where to put each, and its lines. The place is the
    line after it, or None for the line of the batch. The result is None if a declaration is not found."""
    known, infos = {info.name for info in failing.create_infos}, reference.create_infos
    order = [info.name for info in infos]
    found: list[tuple[int | None, list[bytes]]] = []
    for name in sorted(set(batch.infos) - known, key=lambda name: order.index(name) if name in order else -1):
        if order.count(name) != 1:
            return None
        place = order.index(name)
        declared = _declaration(reference, infos[place])
        if declared is None:
            return None
        text = reference.source.splitlines(keepends=True)[declared.start : declared.stop]
        found.append((_place_before(failing, order[place + 1 :], batch), text))
    return found


def _place_before(failing: Orchestration, following: Sequence[str], batch: Allocation) -> int | None:
    """The line of `failing` that declares the first of the names in `following` that the batch has too."""
    own: Mapping[str, CreateInfo] = {info.name: info for info in failing.create_infos}
    for name in following:
        if name in own and name in batch.infos:
            declared = _declaration(failing, own[name])
            return None if declared is None else declared.start
    return None


def _declaration(orchestration: Orchestration, info: CreateInfo) -> range | None:
    """The lines that declare an allocation, its shape first. None if they are not adjacent."""
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
    """The line number, from 0, of a statement that is alone on its line. None if it is not."""
    before = orchestration.source[: statement.start].rpartition(b"\n")[2]
    after = orchestration.source[statement.end :].partition(b"\n")[0].strip(b" \t\r;")
    several = "\n" in orchestration.text(statement)
    if several or before.strip() or (after and not after.startswith(b"//")):
        return None
    return orchestration.source.count(b"\n", 0, statement.start)


def _change(lines: list[SourceLine], line: int, text: bytes) -> None:
    lines[line] = SourceLine(text, lines[line].number, lines[line].written)


def _insert_lines(lines: Sequence[SourceLine], added: Mapping[int, Sequence[bytes]]) -> list[SourceLine]:
    """Insert the added lines before their places. Inserted lines are in no file."""
    whole: list[SourceLine] = []
    for place, line in enumerate(lines):
        whole += [SourceLine(text, line.number, b"") for text in added.get(place, ())]
        whole.append(line)
    return whole
