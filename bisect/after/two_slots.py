"""Two slots at once: each side of a comparison is run by the toolchain of its own commit."""

import time
from collections.abc import Generator
from contextlib import contextmanager

from ...runner.probe.probe import Prober
from ...runner.process.interrupt import Interrupt, interrupt_after
from ...runner.stack.stack import Stack
from ...runner.workspace.content import StackContent
from ...runner.workspace.home import Home
from ...runner.workspace.workspace import Workspace


@contextmanager
def two_slots(stack: Stack, home: Home, *, deadline: float) -> Generator[tuple[Prober, Prober]]:
    """A prober for each side, until `deadline`, a moment of `time.monotonic`: what they do then ends with
    `InterruptedWorkError`."""
    workspace = Workspace(stack, home)
    content = StackContent(stack, workspace)

    def prober(interrupt: Interrupt) -> Prober:
        return Prober(workspace, content, home, on_activity=lambda _text: None, interrupt=interrupt)

    with (
        interrupt_after(deadline - time.monotonic()) as spent,
        prober(spent) as ours,
        prober(spent) as theirs,
    ):
        yield ours, theirs
