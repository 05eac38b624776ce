"""Dependencies that a submit states by hand and that name no other task: they stay with the task wherever it goes."""

from __future__ import annotations

from .....runner.build_output.orchestration.cpp_syntax import (
    declared_name,
    descendants,
    parse_cpp,
    span_of,
    text_of,
)
from .....runner.build_output.orchestration.model import Submit
from .....runner.build_output.orchestration.orchestration import Orchestration

_SET = "set_dependencies"


def standing_dependencies(orchestration: Orchestration, submit: Submit) -> list[str]:
    """Declarations and the statements that use them; those that name a variable from elsewhere are left out, as that
    task may not be there."""
    spans = [span for span in submit.other_statements if _SET in orchestration.text(span)]
    if not spans:
        return []
    root = parse_cpp(orchestration.source)
    declared = {
        declared_name(node.child_by_field_name("declarator")): node
        for node in descendants(root)
        if node.type == "declaration" and span_of(node) < spans[0]
    }
    statements: list[str] = []
    for span in spans:
        names = [
            text_of(node)
            for node in descendants(root)
            if node.type == "identifier" and span_of(node) in span and text_of(node) != submit.parameters
        ]
        arrays = [declared[name] for name in names if name in declared]
        used = {
            text_of(node)
            for array in arrays
            for node in descendants(array.child_by_field_name("declarator") or array)
            if node.type == "identifier"
        }
        if len(arrays) == len(names) and not (used - set(names)) & declared.keys():
            statements += [*map(text_of, arrays), orchestration.text(span)]
    return statements
