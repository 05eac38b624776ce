"""Questions about the small stack, and what is made of them."""

from pathlib import Path
from typing import Any

from precision_bisect.bisect.ask.question import BisectRequest
from precision_bisect.runner.pins import fixed_revisions
from precision_bisect.runner.workspace.slot import Workspace
from tests.runner.small_stack import SmallStack


def small_request(
    small: SmallStack, workspace: Workspace, good: str, bad: str, **fields: Any
) -> BisectRequest:
    """A question about the tool between two commits."""
    row: dict[str, Any] = {
        "stack": workspace.stack,
        "repository": "tool",
        "fixed": fixed_revisions(workspace.stack, workspace.repositories, searched="tool"),
        "good": good,
        "bad": bad,
        "case": "case.sh",
        "platform": "sim",
        "device": 0,
        "bad_when": "mismatch",
        "golden_data": None,
        "timeout": None,
        "confidence": 0.99,
        "output": Path(small.folder / "report"),
    }
    return BisectRequest(**(row | fields))
