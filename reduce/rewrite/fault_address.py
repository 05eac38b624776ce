"""An orchestration that prints where the buffers of its tasks lie, and the address at which the process crashes.

On a simulator kernels run in the process that loads the orchestration, so that a handler of its own is told the
address.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from ...runner.build_output.orchestration.orchestration import Orchestration
from .first_submits import SUBMITTED, submits_of_kernels, with_first_submits

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
class ToldBuffer:
    """A buffer that an argument of a task lies in: `task` is the task's ordinal, `submit` the one of the statement
    that submits it."""

    task: int
    submit: int
    argument: int
    address: int
    size: int


@dataclass(frozen=True, kw_only=True)
class ToldFault:
    """The address of a crash, and the buffers of the tasks that were submitted before."""

    address: int
    buffers: tuple[ToldBuffer, ...]


def with_fault_address(orchestration: Orchestration, count: int) -> bytes:
    """The source that submits its first `count` tasks and tells of their buffers and of a crash.

    Raises:
        FirstSubmitsError: as `with_first_submits`.
    """
    first = Orchestration.parse(with_first_submits(orchestration, count))
    assert first.entry is not None, "tasks are counted in an entry function"
    places = [(first.entry.start + 1, " precision_bisect::watch_for_faults();"), (0, _PRELUDE)]
    for ordinal, submit in enumerate(submits_of_kernels(first)):
        told = "".join(
            f"precision_bisect::tell({SUBMITTED} - 1, {ordinal}, {index}, {argument.text}, 0); "
            for index, argument in enumerate(submit.tensor_arguments)
        )
        places.append((submit.statement.start, told))
    source = first.source
    for place, text in sorted(places, reverse=True):
        source = source[:place] + text.encode() + source[place:]
    return source


def read_fault(lines: Iterable[str]) -> ToldFault | None:
    """What a run of such an orchestration told; None where it was told no address."""
    address: int | None = None
    buffers: list[ToldBuffer] = []
    for line in lines:
        if (told := _BUFFER.search(line)) is not None:
            task, submit, argument, start, size = map(int, told.groups())
            buffers.append(ToldBuffer(task=task, submit=submit, argument=argument, address=start, size=size))
        elif (fault := _FAULT.search(line)) is not None:
            address = int(fault[1])
    return None if address is None else ToldFault(address=address, buffers=tuple(buffers))
