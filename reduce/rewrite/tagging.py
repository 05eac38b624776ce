"""Puts the runtime's own dump markers at chosen tasks of an orchestration.

A submit in a loop stands for many tasks. They are told apart by counting: the edited source counts every submit that
runs a kernel, and marks the arguments of those whose number was chosen. So loops, branches and helper functions need
not be understood.
"""

from __future__ import annotations

import re
from collections.abc import Set

from ...runner.build_output.orchestration.model import Submit, SubmitKind, Usage
from ...runner.build_output.orchestration.orchestration import Orchestration
from ...runner.errors import UserError

_COUNTER = "precision_bisect_submitted"
_RESULTS = "precision_bisect_wants_results"
_WHOLE = "precision_bisect_wants_all"
_NAME = re.compile(r"[A-Za-z_]\w*")
_COMMENT = re.compile(rb"//[^\n]*\n|/\*.*?\*/", re.DOTALL)
_CONDITION = re.compile(rb"&&|\|\||\?|\band\b|\bor\b")
"""Before a submit in its statement: it may not be made."""
_WRITES = frozenset({Usage.OUTPUT, Usage.INOUT, Usage.NO_DEPENDENCY})


class UntaggableError(UserError):
    """The source has submits at which no marker can be put."""


def tagged(orchestration: Orchestration, *, results: Set[int], whole: Set[int]) -> bytes:
    """The source with markers at tasks by their ordinal: at what they write, and at all arguments of `whole` ones.

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
    # What ends at a place comes before what begins there.
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
    """Whether it is all that a branch or a loop does, without braces around it."""
    if not submit.blocks:
        return False
    body, statement = submit.blocks[-1].body, submit.statement
    before = _COMMENT.sub(b"", source[body.start : statement.start]).strip()
    return body.end == statement.end and before in (b"", b"else")
