"""Finds the submits that may have created a task, and edits an orchestration so that it reports on chosen tasks.

A submit is a statement of the orchestration that creates a task. `find_submits` finds the submits that may have created
a given task. A submit names the tensors of its task, and `tensor_name` follows views back to such a name.
`ArgumentNames` also finds names where several submits may have created the task.

A submit in a loop creates many tasks. The edited source counts the tasks while it runs, to tell them apart. So this
module need not understand loops, branches and helper functions. There are three edits:

- `insert_dump_markers` puts the runtime's own dump markers at chosen tasks.
- `keep_first_submits` lets the orchestration return after its first tasks.
- `insert_fault_report` lets the orchestration print the addresses of its tasks' buffers and of a crash. On a simulator,
  kernels run in the process that loads the orchestration. So a signal handler in that process gets the address.

`launch_statements` returns the statements that set how a task is launched, such as its number of blocks.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping, Sequence, Set
from dataclasses import dataclass
from functools import cached_property

from ...runner.build_output.orchestration import (
    ENTRY_PREFIX,
    BlockKind,
    Orchestration,
    Origin,
    Submit,
    SubmitKind,
    Usage,
)
from ...runner.build_output.task_graph import ArgumentType
from ...runner.errors import UserError
from .tasks import KernelTask, TaskList

USAGES = {
    ArgumentType.INPUT: Usage.INPUT,
    ArgumentType.OUTPUT: Usage.OUTPUT,
    ArgumentType.OUTPUT_EXISTING: Usage.OUTPUT,
    ArgumentType.INOUT: Usage.INOUT,
    ArgumentType.UNKNOWN: Usage.NO_DEPENDENCY,
}


def find_submits(orchestration: Orchestration, task: KernelTask) -> tuple[Submit, ...]:
    """Return the submits that may have created a task: they have its kernels and its kinds of arguments.

    If each submit of the source runs once, in order, return only the submit with the ordinal of the task.
    """
    kernels = tuple(number for number in task.task.kernels or () if number >= 0)
    signature = kernels, tuple(USAGES[argument.type] for argument in task.task.arguments)
    straight_line = orchestration.straight_line_submits
    if task.ordinal < len(straight_line) and straight_line[task.ordinal].signature == signature:
        return (straight_line[task.ordinal],)
    return orchestration.submits_by_signature.get(signature, ())


def submit_lines(orchestration: Orchestration, submits: Sequence[Submit]) -> tuple[int, ...]:
    """Return the line number of each submit, from 1."""
    return tuple(orchestration.source.count(b"\n", 0, submit.statement.start) + 1 for submit in submits)


def tensor_name(orchestration: Orchestration, submits: Sequence[Submit], argument: int) -> str | None:
    """Return the name of the tensor that this argument is or views. Return None where the submits name several."""
    names = tensor_names(orchestration, submits, argument)
    return names.pop() if len(names) == 1 else None


def tensor_names(orchestration: Orchestration, submits: Sequence[Submit], argument: int) -> set[str]:
    """Return the names of the tensors that this argument may be or view, over all the submits."""
    return {
        _root(orchestration, submit.tensor_arguments[argument].text)
        for submit in submits
        if argument < len(submit.tensor_arguments)
    }


def entry_tensor(orchestration: Orchestration, submits: Sequence[Submit], argument: int) -> str | None:
    """Return the name of the tensor that this argument is or views, if it is an argument of the orchestration.

    Return None if it is not one, or if the submits name several tensors.
    """
    name = tensor_name(orchestration, submits, argument)
    return name if name in orchestration.entry_names else None


def _root(orchestration: Orchestration, text: str) -> str:
    """Return the name of the tensor behind views and aliases, without the prefix of generated argument names."""
    bound = orchestration.tensors_by_name
    seen: set[str] = set()
    while text in bound and text not in seen and bound[text].origin in (Origin.VIEW, Origin.ALIAS):
        seen.add(text)
        # A view of a view is spelled `tensor.view(...).transpose(...)`.
        text = bound[text].base.partition(".")[0].strip()
    return text.removeprefix(ENTRY_PREFIX) if text in bound and bound[text].origin is Origin.ENTRY else text


@dataclass(frozen=True)
class ArgumentNames:
    """Finds the name of the tensor that an argument of a task is.

    If several submits may have created a task, those whose tensor names contradict the names that other tasks give to
    the same buffers are dropped.
    """

    orchestration: Orchestration
    tasks: TaskList

    def name_of(self, task: KernelTask, argument: int) -> str | None:
        """Return the name of the tensor that an argument is or views. Return None unless exactly one name is left."""
        names = self._names(task, argument, self._buffer_names)
        return next(iter(names)) if len(names) == 1 else None

    @cached_property
    def _buffer_names(self) -> Mapping[int, Set[str]]:
        """Return the names of each buffer.

        They come from arguments with one possible name. Each new name may exclude submits of other tasks, so this
        repeats until there is no new name.
        """
        known: dict[int, set[str]] = {}
        while True:
            more = {
                (argument.tensor_id, name)
                for task in self.tasks.tasks
                for argument in task.task.arguments
                if argument.tensor_id is not None
                and len(names := self._names(task, argument.index, known)) == 1
                for name in names
                if name not in known.get(argument.tensor_id, ())
            }
            if not more:
                return known
            for buffer, name in more:
                known.setdefault(buffer, set()).add(name)

    @cached_property
    def _submits(self) -> Sequence[Sequence[Submit]]:
        """Return the submits that may have created each task, before buffer names exclude any."""
        return [find_submits(self.orchestration, task) for task in self.tasks.tasks]

    def _names(self, task: KernelTask, argument: int, known: Mapping[int, Set[str]]) -> Set[str]:
        """Return the possible names of an argument, without those of submits that contradict `known`.

        known: the names of each buffer that are known so far.
        """
        submits = self._submits[task.ordinal]
        if len(submits) > 1:
            submits = tuple(submit for submit in submits if self._fits(submit, task, known))
        return tensor_names(self.orchestration, submits, argument)

    def _fits(self, submit: Submit, task: KernelTask, known: Mapping[int, Set[str]]) -> bool:
        """Return whether a submit uses only known names for the task's buffers that have known names."""
        return all(
            tensor_names(self.orchestration, [submit], argument.index) <= known[argument.tensor_id]
            for argument in task.task.arguments
            if argument.tensor_id is not None and argument.tensor_id in known
        )


_COUNTER = "precision_bisect_submitted"
"""The edited source counts its tasks in this C++ variable."""


class UncountableTasksError(UserError):
    """The orchestration cannot be edited to return after its first tasks, because it cannot count them."""


def submits_of_kernels(orchestration: Orchestration) -> tuple[Submit, ...]:
    """Return the submits whose tasks run a kernel."""
    return tuple(submit for submit in orchestration.submits if submit.kind is not SubmitKind.DUMMY)


def keep_first_submits(
    orchestration: Orchestration, count: int, *, stop_before: Collection[Submit] = ()
) -> bytes:
    """Return the source with an entry function that submits its first `count` tasks of kernels and then returns.

    If a submit in `stop_before` would create the last of these tasks, the function returns before that task.

    Raises:
        UncountableTasksError: there is no entry function, or a submit is not a statement of its own in it.
    """
    if orchestration.entry is None:
        raise UncountableTasksError("orchestration: expected an entry function, found none")
    submits = submits_of_kernels(orchestration)
    for submit in submits:
        if not _is_countable(orchestration, submit):
            line = orchestration.source.count(b"\n", 0, submit.statement.start) + 1
            raise UncountableTasksError(
                f"orchestration, line {line}: expected a task submitted by a statement of the entry function, found "
                f"{orchestration.text(submit.statement)[:80]!r} elsewhere"
            )
    insertions = [(orchestration.entry.start + 1, f" int {_COUNTER} = 0;")]
    insertions += [
        (submit.statement.start, f"if ({_COUNTER}++ >= {count - (submit in stop_before)}) return; ")
        for submit in submits
    ]
    return _insert_texts(orchestration.source, insertions)


def _insert_texts(source: bytes, insertions: Iterable[tuple[int, str]]) -> bytes:
    """Return the source with texts inserted at offsets. Texts at the same offset keep their order."""
    parts: list[bytes] = []
    copied = 0
    for offset, text in sorted(insertions, key=lambda insertion: insertion[0]):
        parts += [source[copied:offset], text.encode()]
        copied = offset
    return b"".join([*parts, source[copied:]])


def _is_countable(orchestration: Orchestration, submit: Submit) -> bool:
    """Return whether a statement put before the submit runs as often as the submit, and can return from the entry."""
    entry = orchestration.entry
    before = orchestration.source[: submit.statement.start].rstrip()
    return (
        entry is not None
        and submit.kind is not SubmitKind.GRAPH
        and entry.start < submit.statement.start < entry.end
        and all(block.kind is not BlockKind.LAMBDA for block in submit.blocks)
        and not _is_unbraced_body(submit, orchestration.source)
        and (before.endswith((b"{", b"}", b";")) or _ends_in_comment(before))
    )


def _ends_in_comment(before: bytes) -> bool:
    """Return whether the last line is the end of a statement or a brace, and then a comment."""
    code, mark, _ = before.rpartition(b"\n")[2].partition(b"//")
    return bool(mark) and code.rstrip().endswith((b"{", b"}", b";"))


_PRELUDE = r"""#include <dlfcn.h>
#include <signal.h>
#include <stdio.h>
namespace precision_bisect {
// The handler is reset before it is called: the process then dies of the same signal.
inline void report_fault(int, siginfo_t* fault, void*) {
    // The address is valid only for a page that is missing or protected, not for a signal that was sent.
    if (fault->si_code == SEGV_MAPERR || fault->si_code == SEGV_ACCERR || fault->si_code == BUS_ADRERR) {
        dprintf(2, "\nprecision-bisect: fault at %llu\n", reinterpret_cast<unsigned long long>(fault->si_addr));
    }
}
inline void watch_for_faults() {
    // A runtime may unload the orchestration before its tasks run.
    Dl_info own;
    if (dladdr(reinterpret_cast<void*>(&report_fault), &own) == 0) return;
    if (dlopen(own.dli_fname, RTLD_NOW | RTLD_NODELETE) == nullptr) return;
    struct sigaction action = {};
    action.sa_sigaction = report_fault;
    action.sa_flags = SA_SIGINFO | SA_RESETHAND;
    sigaction(SIGSEGV, &action, nullptr);
    sigaction(SIGBUS, &action, nullptr);
}
inline void report_buffer(int task, int submit, int argument, unsigned long long address, unsigned long long bytes) {
    dprintf(2, "\nprecision-bisect: task %d submit %d argument %d buffer at %llu of %llu\n", task, submit, argument,
            address, bytes);
}
template <typename Tensor>
auto report(int task, int submit, int argument, const Tensor& tensor, int) -> decltype(tensor.buffer.size, void()) {
    report_buffer(task, submit, argument, tensor.buffer.addr, tensor.buffer.size);
}
template <typename Tensor>
auto report(int task, int submit, int argument, const Tensor& tensor, int) -> decltype(tensor.buffer_bytes, void()) {
    report_buffer(task, submit, argument, tensor.buffer_addr, tensor.buffer_bytes);
}
// A buffer that is yet to be allocated.
template <typename Other>
void report(int, int, int, const Other&, long) {}
}
"""
_FAULT = re.compile(r"precision-bisect: fault at (\d{1,20})$")
_BUFFER = re.compile(
    r"precision-bisect: task (\d{1,9}) submit (\d{1,9}) argument (\d{1,9}) buffer at (\d{1,20}) of (\d{1,20})$"
)


@dataclass(frozen=True, kw_only=True)
class ReportedBuffer:
    """The buffer of an argument of a task, as a run printed it.

    Attributes:
        task: the ordinal of the task.
        submit: the ordinal, among `submits_of_kernels`, of the submit that created the task.
        argument: the index of the argument among the tensors of the submit.
        address: where the buffer begins.
        size: its size in bytes.
    """

    task: int
    submit: int
    argument: int
    address: int
    size: int


@dataclass(frozen=True, kw_only=True)
class ReportedFault:
    """The address of a crash, and the buffers of the tasks that were submitted before it."""

    address: int
    buffers: tuple[ReportedBuffer, ...]


def insert_fault_report(orchestration: Orchestration, count: int) -> bytes:
    """Return the source that submits its first `count` tasks, and prints their buffers and the address of a crash.

    Raises:
        UncountableTasksError: as `keep_first_submits`.
    """
    first = Orchestration.parse(keep_first_submits(orchestration, count))
    assert first.entry is not None, "tasks are counted in an entry function"
    insertions = [(0, _PRELUDE), (first.entry.start + 1, " precision_bisect::watch_for_faults();")]
    for ordinal, submit in enumerate(submits_of_kernels(first)):
        report = "".join(
            f"precision_bisect::report({_COUNTER} - 1, {ordinal}, {index}, {argument.text}, 0); "
            for index, argument in enumerate(submit.tensor_arguments)
        )
        insertions.append((submit.statement.start, report))
    return _insert_texts(first.source, insertions)


def read_fault(lines: Iterable[str]) -> ReportedFault | None:
    """Return the crash that a run of `insert_fault_report`'s source printed. Return None if it printed no address."""
    address: int | None = None
    buffers: list[ReportedBuffer] = []
    for line in lines:
        if (buffer := _BUFFER.search(line)) is not None:
            task, submit, argument, start, size = map(int, buffer.groups())
            buffers.append(
                ReportedBuffer(task=task, submit=submit, argument=argument, address=start, size=size)
            )
        elif (fault := _FAULT.search(line)) is not None:
            address = int(fault[1])
    return None if address is None else ReportedFault(address=address, buffers=tuple(buffers))


_DEPENDENCY = re.compile(r"\.(?:set_dependencies|add_deps?)\(")
# The runtime of a5 calls it `set_core_num`.
_BLOCKS = re.compile(r"(\w+\.launch_spec\.set_(?:block|core)_num)\(.*\)\s*;", re.DOTALL)


def sets_block_count(orchestration: Orchestration, submit: Submit) -> bool:
    """Return whether the source sets the number of blocks of this submit. Otherwise its tasks have one block."""
    return any(_BLOCKS.fullmatch(text) for text in _statements(orchestration, submit))


def launch_statements(orchestration: Orchestration, submit: Submit, blocks: int | None) -> list[str]:
    """Return the statements that set how a submit launches its task, with `blocks` as the number of blocks.

    The number replaces the expression of the source, whose variables may not exist where the statements are copied to.
    If `blocks` is None, the number was not recorded, and the expression stays.
    """
    return [
        text if blocks is None else _BLOCKS.sub(rf"\g<1>({blocks});", text)
        for text in _statements(orchestration, submit)
    ]


def _statements(orchestration: Orchestration, submit: Submit) -> list[str]:
    texts = [orchestration.text(span) for span in submit.other_statements]
    return [text for text in texts if not _DEPENDENCY.search(text)]


_RESULTS = "precision_bisect_wants_results"
_WHOLE = "precision_bisect_wants_all"
"""These C++ functions say whether the current task dumps its results, or all of its arguments."""
_NAME = re.compile(r"[A-Za-z_]\w*")
_TEXT_OR_COMMENT = re.compile(
    rb"""("(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])*')|//[^\n]*\n|/\*.*?\*/""", re.DOTALL
)
"""A comment, or a text in which `//` begins none. The group holds a text."""
_CONDITION = re.compile(rb"&&|\|\||\?|\band\b|\bor\b")
"""If such an operator stands before the submit in its statement, the submit may not run."""
_WRITES = frozenset({Usage.OUTPUT, Usage.INOUT, Usage.NO_DEPENDENCY})


class UnmarkableError(UserError):
    """No dump marker can be put at some submit of the source."""


def insert_dump_markers(orchestration: Orchestration, *, results: Set[int], whole: Set[int]) -> bytes:
    """Return the source with dump markers at the tasks with these ordinals.

    Tasks in `results` dump what they write, and tasks in `whole` dump all arguments. Existing markers stay.

    Raises:
        UnmarkableError: there is no entry function, or no marker can be put at some submit.
    """
    source = orchestration.source
    if orchestration.entry is None:
        raise UnmarkableError(
            "orchestration: expected an entry function, found none; dump at level 2 instead"
        )
    prelude = (
        f"static unsigned long {_COUNTER} = 0;\n{_predicate(_RESULTS, results)}{_predicate(_WHOLE, whole)}"
    )
    beginnings = [(0, prelude), (orchestration.entry.start + 1, f"\n    {_COUNTER} = 0;")]
    endings: list[tuple[int, str]] = []
    for submit in orchestration.submits:
        if submit.kind is not SubmitKind.DUMMY:
            opening, closing = ("{ ", " }") if _is_unbraced_body(submit, source) else ("", "")
            beginnings.append((submit.statement.start, opening + _marker(submit, source)))
            endings.append((submit.statement.end, closing))
    # A brace that closes at an offset must come before the marker of a submit that begins there.
    return _insert_texts(source, [*endings, *beginnings])


def _predicate(name: str, ordinals: Set[int]) -> str:
    """Return a C++ function that says whether the current task has one of the ordinals."""
    cases = "".join(f"case {ordinal}: " for ordinal in sorted(ordinals))
    body = (
        f"switch ({_COUNTER}) {{ {cases}return true; default: return false; }}" if cases else "return false;"
    )
    return f"static bool {name}() {{ {body} }}\n"


def _remove_comments(source: bytes) -> bytes:
    return _TEXT_OR_COMMENT.sub(rb"\1", source)


def _marker(submit: Submit, source: bytes) -> str:
    """Return the statements to put before a submit. Raises `UnmarkableError`."""
    line = source.count(b"\n", 0, submit.statement.start) + 1
    before = _remove_comments(source[: submit.statement.start]).rstrip()
    if submit.kind is SubmitKind.GRAPH:
        raise UnmarkableError(
            f"orchestration line {line}: expected single tasks, found a prepared graph of them"
        )
    conditional = _CONDITION.search(
        source[submit.statement.start : submit.statement.end].partition(b"submit")[0]
    )
    is_statement = before.endswith((b"{", b"}", b";")) or _is_unbraced_body(submit, source)
    if conditional or not is_statement or _NAME.fullmatch(submit.arguments_variable) is None:
        raise UnmarkableError(
            f"orchestration line {line}: expected a submit as a statement of its own, with its arguments in a named "
            "variable; rewrite it so to dump single tasks"
        )
    written = [argument for argument in submit.tensor_arguments if argument.usage in _WRITES]
    plain = submit.declaration is not None and all(
        argument.is_added_once and _NAME.fullmatch(argument.text) for argument in written
    )
    names = ", ".join(argument.text for argument in written) if plain else ""
    variable = submit.arguments_variable
    return f"if ({_RESULTS}()) {variable}.dump({names}); if ({_WHOLE}()) {variable}.dump(); ++{_COUNTER}; "


def _is_unbraced_body(submit: Submit, source: bytes) -> bool:
    """Return whether the submit is the whole body of a branch or a loop, without braces around it."""
    if not submit.blocks:
        return False
    body, statement = submit.blocks[-1].body, submit.statement
    before = _remove_comments(source[body.start : statement.start]).strip()
    return body.end == statement.end and before in (b"", b"else")
