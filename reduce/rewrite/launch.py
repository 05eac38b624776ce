"""What a submit tells the runtime about the launch: the number of blocks, and whatever else is neither an argument nor
a dependency."""

from __future__ import annotations

import re

from ...runner.build_output.orchestration.model import Submit
from ...runner.build_output.orchestration.orchestration import Orchestration

_DEPENDENCY = re.compile(r"\.(?:set_dependencies|add_deps?)\(")
# `set_core_num` on a5.
_BLOCKS = re.compile(r"(\w+\.launch_spec\.set_(?:block|core)_num)\(.*\)\s*;", re.DOTALL)


def tells_blocks(orchestration: Orchestration, submit: Submit) -> bool:
    """Whether the source gives a number of blocks; else a task has one."""
    return any(_BLOCKS.fullmatch(text) for text in _statements(orchestration, submit))


def launch_statements(orchestration: Orchestration, submit: Submit, blocks: int | None) -> list[str]:
    """The statements, with the number of blocks `blocks` in place of an expression of variables that may not be there;
    None: it was not recorded, and stays as it is written."""
    return [
        text if blocks is None else _BLOCKS.sub(rf"\g<1>({blocks});", text)
        for text in _statements(orchestration, submit)
    ]


def _statements(orchestration: Orchestration, submit: Submit) -> list[str]:
    texts = [orchestration.text(span) for span in submit.other_statements]
    return [text for text in texts if not _DEPENDENCY.search(text)]
