"""The submits of an orchestration: which of them made a task, and edits by which a run reports on chosen tasks.

`find_submits` finds the statements that may have made a task. A statement names each tensor of its task: `tensor_name`
follows views back to that name. `ArgumentNames` also finds names where the text alone allows several statements.

A submit in a loop stands for many tasks. The edited source tells them apart by counting every submit that runs a
kernel. So loops, branches and helper functions need not be understood. There are three such edits:

- The runtime's own dump markers are put at chosen tasks.
- The orchestration ends after its first tasks.
- The orchestration prints where the buffers of its tasks lie, and the address at which the process crashes. On a
  simulator kernels run in the process that loads the orchestration, so that a signal handler there gets the address.

The module also reads what a submit tells the runtime about the launch. That is the number of blocks, and all else that
is neither an argument nor a dependency.
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
    """The submits in the text that may have made a task: those of its kernels and with its kinds of tensors.

    If each submit of the text makes one task, only the submit at the task's place is returned.
    """
    kernels = tuple(number for number in task.task.kernels or () if number >= 0)
    call = kernels, tuple(USAGES[argument.type] for argument in task.task.arguments)
    line = orchestration.straight_line_submits
    if task.ordinal < len(line) and line[task.ordinal].call == call:
        return (line[task.ordinal],)
    return orchestration.submits_by_call.get(call, ())


def submit_lines(orchestration: Orchestration, submits: Sequence[Submit]) -> tuple[int, ...]:
    """The line number of each submit, from 1."""
    return tuple(orchestration.source.count(b"\n", 0, submit.statement.start) + 1 for submit in submits)


def tensor_name(orchestration: Orchestration, submits: Sequence[Submit], argument: int) -> str | None:
    """The tensor that argument `argument` is, or is a view of; None where the submits do not agree on one."""
    names = tensor_names(orchestration, submits, argument)
    return names.pop() if len(names) == 1 else None


def tensor_names(orchestration: Orchestration, submits: Sequence[Submit], argument: int) -> set[str]:
    """The tensors that argument `argument` may be, or may be a view of, one for each of the submits."""
    return {
        _root(orchestration, submit.tensor_arguments[argument].text)
        for submit in submits
        if argument < len(submit.tensor_arguments)
    }


def entry_tensor(orchestration: Orchestration, submits: Sequence[Submit], argument: int) -> str | None:
    """The name that `tensor_name` returns, where that tensor is an argument of the orchestration.

    None where it is not one, or not surely one.
    """
    name = tensor_name(orchestration, submits, argument)
    return name if name in orchestration.entry_names else None


def _root(orchestration: Orchestration, text: str) -> str:
    """The tensor behind views and aliases, without the prefix that generated code gives to entry arguments."""
    bound = orchestration.tensors_by_name
    seen: set[str] = set()
    while text in bound and text not in seen and bound[text].origin in (Origin.VIEW, Origin.ALIAS):
        seen.add(text)
        # A view of a view is spelled `tensor.view(...).transpose(...)`.
        text = bound[text].base.partition(".")[0].strip()
    return text.removeprefix(ENTRY_PREFIX) if text in bound and bound[text].origin is Origin.ENTRY else text


@dataclass(frozen=True)
class ArgumentNames:
    """Names of tensors by task and argument.

    Several submits may have made a task. Then only those count whose tensor names agree with other tasks' names of the
    same buffers.
    """

    orchestration: Orchestration
    tasks: TaskList

    def name_of(self, task: KernelTask, argument: int) -> str | None:
        """The name of the tensor that an argument is, or is a view of. None if no name is left, or several are."""
        names = self._names(task, argument, self._buffer_names)
        return next(iter(names)) if len(names) == 1 else None

    @cached_property
    def _buffer_names(self) -> Mapping[int, Set[str]]:
        """Return the names of each buffer. They come from tasks whose submit is known by the text, or by buffer names
        that are known already."""
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
        """Return the submits that may have made each task, by their text."""
        return [find_submits(self.orchestration, task) for task in self.tasks.tasks]

    def _names(self, task: KernelTask, argument: int, known: Mapping[int, Set[str]]) -> Set[str]:
        """The names of an argument in the submits that may have made its task. `known` names of its buffers exclude
        some submits."""
        submits = self._submits[task.ordinal]
        if len(submits) > 1:
            submits = tuple(submit for submit in submits if self._fits(submit, task, known))
        return tensor_names(self.orchestration, submits, argument)

    def _fits(self, submit: Submit, task: KernelTask, known: Mapping[int, Set[str]]) -> bool:
        return all(
            tensor_names(self.orchestration, [submit], argument.index) <= known[argument.tensor_id]
            for argument in task.task.arguments
            if argument.tensor_id is not None and argument.tensor_id in known
        )


SUBMIT_COUNTER = "precision_bisect_submitted"
"""The entry function counts its tasks in this variable."""


class FirstSubmitsError(UserError):
    """The tasks of an orchestration cannot be counted by editing its text."""


def submits_of_kernels(orchestration: Orchestration) -> tuple[Submit, ...]:
    """The statements that submit tasks which run a kernel."""
    return tuple(submit for submit in orchestration.submits if submit.kind is not SubmitKind.DUMMY)


def keep_first_submits(
    orchestration: Orchestration, count: int, *, one_less: Collection[Submit] = ()
) -> bytes:
    """The source with an entry function that submits its first `count` tasks of kernels and then returns. Where a
    statement in `one_less` would submit the last of these, the function returns before that task.

    Raises:
        FirstSubmitsError: a task is not submitted by a statement of its own in the entry function.
    """
    if orchestration.entry is None:
        raise FirstSubmitsError("orchestration: expected an entry function, found none")
    submits = submits_of_kernels(orchestration)
    for submit in submits:
        if not _is_countable(orchestration, submit):
            line = orchestration.source.count(b"\n", 0, submit.statement.start) + 1
            raise FirstSubmitsError(
                f"orchestration, line {line}: expected a task submitted by a statement of the entry function, found "
                f"{orchestration.text(submit.statement)[:80]!r} elsewhere"
            )
    places = [
        (
            submit.statement.start,
            f"if ({SUBMIT_COUNTER}++ >= {count - (submit in one_less)}) return; ".encode(),
        )
        for submit in submits
    ]
    places.append((orchestration.entry.start + 1, f" int {SUBMIT_COUNTER} = 0;".encode()))
    source = orchestration.source
    for place, text in sorted(places, reverse=True):
        source = source[:place] + text + source[place:]
    return source


def _is_countable(orchestration: Orchestration, submit: Submit) -> bool:
    """Return whether a statement put before the submit runs as often as the submit, and may return."""
    entry = orchestration.entry
    before = orchestration.source[: submit.statement.start].rstrip()
    return (
        entry is not None
        and submit.kind is not SubmitKind.GRAPH
        and entry.start < submit.statement.start < entry.end
        and all(block.kind is not BlockKind.LAMBDA for block in submit.blocks)
        and (before.endswith((b"{", b"}", b";")) or _ends_in_comment(before))
    )


def _ends_in_comment(before: bytes) -> bool:
    code, mark, _ = before.rpartition(b"\n")[2].partition(b"//")
    return bool(mark) and code.rstrip().endswith((b"{", b"}", b";"))


_PRELUDE = r"""#include <dlfcn.h>
#include <signal.h>
#include <stdio.h>
namespace precision_bisect {
// The handler is reset before it is called: the process then dies of the same signal.
inline void tell_fault(int, siginfo_t* told, void*) {
    // An address is told of a page that is missing or protected, not of a signal that was sent.
    if (told->si_code == SEGV_MAPERR || told->si_code == SEGV_ACCERR || told->si_code == BUS_ADRERR) {
        dprintf(2, "\nprecision-bisect: fault at %llu\n", reinterpret_cast<unsigned long long>(told->si_addr));
    }
}
inline void watch_for_faults() {
    // A runtime may unload the orchestration before its tasks run.
    Dl_info own;
    if (dladdr(reinterpret_cast<void*>(&tell_fault), &own) == 0) return;
    if (dlopen(own.dli_fname, RTLD_NOW | RTLD_NODELETE) == nullptr) return;
    struct sigaction action = {};
    action.sa_sigaction = tell_fault;
    action.sa_flags = SA_SIGINFO | SA_RESETHAND;
    sigaction(SIGSEGV, &action, nullptr);
    sigaction(SIGBUS, &action, nullptr);
}
inline void tell_buffer(int task, int submit, int argument, unsigned long long address, unsigned long long bytes) {
    dprintf(2, "\nprecision-bisect: task %d submit %d argument %d buffer at %llu of %llu\n", task, submit, argument,
            address, bytes);
}
template <typename Tensor>
auto tell(int task, int submit, int argument, const Tensor& tensor, int) -> decltype(tensor.buffer.size, void()) {
    tell_buffer(task, submit, argument, tensor.buffer.addr, tensor.buffer.size);
}
template <typename Tensor>
auto tell(int task, int submit, int argument, const Tensor& tensor, int) -> decltype(tensor.buffer_bytes, void()) {
    tell_buffer(task, submit, argument, tensor.buffer_addr, tensor.buffer_bytes);
}
// A buffer that is yet to be allocated.
template <typename Other>
void tell(int, int, int, const Other&, long) {}
}
"""
_FAULT = re.compile(r"precision-bisect: fault at (\d{1,20})$")
_BUFFER = re.compile(
    r"precision-bisect: task (\d{1,9}) submit (\d{1,9}) argument (\d{1,9}) buffer at (\d{1,20}) of (\d{1,20})$"
)


@dataclass(frozen=True, kw_only=True)
class ReportedBuffer:
    """A buffer that an argument of a task lies in. `task` is the ordinal of the task. `submit` is the ordinal of the
    statement that submits it."""

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
    """The source that submits its first `count` tasks, and prints their buffers and the address of a crash.

    Raises:
        FirstSubmitsError: as `keep_first_submits`.
    """
    first = Orchestration.parse(keep_first_submits(orchestration, count))
    assert first.entry is not None, "tasks are counted in an entry function"
    places = [(first.entry.start + 1, " precision_bisect::watch_for_faults();"), (0, _PRELUDE)]
    for ordinal, submit in enumerate(submits_of_kernels(first)):
        told = "".join(
            f"precision_bisect::tell({SUBMIT_COUNTER} - 1, {ordinal}, {index}, {argument.text}, 0); "
            for index, argument in enumerate(submit.tensor_arguments)
        )
        places.append((submit.statement.start, told))
    source = first.source
    for place, text in sorted(places, reverse=True):
        source = source[:place] + text.encode() + source[place:]
    return source


def read_fault(lines: Iterable[str]) -> ReportedFault | None:
    """The crash that a run of such an orchestration printed. None if it printed no address."""
    address: int | None = None
    buffers: list[ReportedBuffer] = []
    for line in lines:
        if (told := _BUFFER.search(line)) is not None:
            task, submit, argument, start, size = map(int, told.groups())
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
    """Return whether the source sets a number of blocks. A task has one block otherwise."""
    return any(_BLOCKS.fullmatch(text) for text in _statements(orchestration, submit))


def launch_statements(orchestration: Orchestration, submit: Submit, blocks: int | None) -> list[str]:
    """The statements about the launch, with the number `blocks` in place of the source's expression. The variables of
    that expression may not be there. Where `blocks` is None, the number was not recorded, and the expression stays."""
    return [
        text if blocks is None else _BLOCKS.sub(rf"\g<1>({blocks});", text)
        for text in _statements(orchestration, submit)
    ]


def _statements(orchestration: Orchestration, submit: Submit) -> list[str]:
    texts = [orchestration.text(span) for span in submit.other_statements]
    return [text for text in texts if not _DEPENDENCY.search(text)]


_COUNTER = "precision_bisect_submitted"
_RESULTS = "precision_bisect_wants_results"
_WHOLE = "precision_bisect_wants_all"
_NAME = re.compile(r"[A-Za-z_]\w*")
_COMMENT = re.compile(rb"//[^\n]*\n|/\*.*?\*/", re.DOTALL)
_CONDITION = re.compile(rb"&&|\|\||\?|\band\b|\bor\b")
"""With such an operator before the submit in its statement, the submit may be skipped."""
_WRITES = frozenset({Usage.OUTPUT, Usage.INOUT, Usage.NO_DEPENDENCY})


class UntaggableError(UserError):
    """The source has submits at which no marker can be put."""


def insert_dump_markers(orchestration: Orchestration, *, results: Set[int], whole: Set[int]) -> bytes:
    """The source with dump markers at the tasks with these ordinals. Tasks in `results` dump what they write, and tasks
    in `whole` dump all arguments.

    Markers that are there already stay.

    Raises:
        UntaggableError: the entry function is missing, or a submit is of a kind whose tasks cannot be counted.
    """
    source = orchestration.source
    if orchestration.entry is None:
        raise UntaggableError(
            "orchestration: expected its entry function, found none; dump at level 2 instead"
        )
    prelude = (
        f"static unsigned long {_COUNTER} = 0;\n{_predicate(_RESULTS, results)}{_predicate(_WHOLE, whole)}"
    )
    insertions = [(0, prelude), (orchestration.entry.start + 1, f"\n    {_COUNTER} = 0;")]
    for submit in orchestration.submits:
        if submit.kind is not SubmitKind.DUMMY:
            opening, closing = ("{ ", " }") if _is_unbraced_body(submit, source) else ("", "")
            insertions.append((submit.statement.start, opening + _marker(submit, source)))
            insertions.append((submit.statement.end, closing))
    # What ends at a place must come before what begins there.
    for place, text in sorted(insertions, reverse=True):
        source = source[:place] + text.encode() + source[place:]
    return source


def _predicate(name: str, ordinals: Set[int]) -> str:
    cases = "".join(f"case {ordinal}: " for ordinal in sorted(ordinals))
    body = (
        f"switch ({_COUNTER}) {{ {cases}return true; default: return false; }}" if cases else "return false;"
    )
    return f"static bool {name}() {{ {body} }}\n"


def _marker(submit: Submit, source: bytes) -> str:
    line = source.count(b"\n", 0, submit.statement.start) + 1
    before = _COMMENT.sub(b"", source[: submit.statement.start]).rstrip()
    if submit.kind is SubmitKind.GRAPH:
        raise UntaggableError(
            f"orchestration line {line}: expected single tasks, found a prepared graph of them"
        )
    conditional = _CONDITION.search(
        source[submit.statement.start : submit.statement.end].partition(b"submit")[0]
    )
    is_statement = before.endswith((b"{", b"}", b";")) or _is_unbraced_body(submit, source)
    if conditional or not is_statement or _NAME.fullmatch(submit.parameters) is None:
        raise UntaggableError(
            f"orchestration line {line}: expected a submit that is a statement, of arguments with a name, found "
            "another; single tasks cannot be dumped until it is written so"
        )
    written = [argument for argument in submit.tensor_arguments if argument.usage in _WRITES]
    plain = submit.declaration is not None and all(
        argument.plain and _NAME.fullmatch(argument.text) for argument in written
    )
    names = ", ".join(argument.text for argument in written) if plain else ""
    parameters = submit.parameters
    return (
        f"if ({_RESULTS}()) {parameters}.dump({names}); if ({_WHOLE}()) {parameters}.dump(); ++{_COUNTER}; "
    )


def _is_unbraced_body(submit: Submit, source: bytes) -> bool:
    """Return whether the submit is the whole body of a branch or a loop, without braces around it."""
    if not submit.blocks:
        return False
    body, statement = submit.blocks[-1].body, submit.statement
    before = _COMMENT.sub(b"", source[body.start : statement.start]).strip()
    return body.end == statement.end and before in (b"", b"else")
