"""C++ syntax trees by tree-sitter, in the few terms that reading an orchestration takes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import tree_sitter_cpp
from tree_sitter import Language, Node, Parser

_LANGUAGE = Language(tree_sitter_cpp.language())


@dataclass(frozen=True, order=True)
class Span:
    """Bytes `start` up to `end` of a source file."""

    start: int
    end: int

    def of(self, source: bytes) -> str:
        """The text of these bytes of `source`."""
        return source[self.start : self.end].decode("utf-8", "replace")

    def __contains__(self, other: Span) -> bool:
        return self.start <= other.start and other.end <= self.end


def parse_cpp(source: bytes) -> Node:
    """Root of the syntax tree; text that is no C++ gives nodes of type ERROR."""
    return Parser(_LANGUAGE).parse(source).root_node


def span_of(node: Node) -> Span:
    """The bytes that a node takes."""
    return Span(node.start_byte, node.end_byte)


def text_of(node: Node | None) -> str:
    """The node's source text; empty for None."""
    return (node.text or b"").decode("utf-8", "replace") if node is not None else ""


def descendants(node: Node) -> Iterator[Node]:
    """`node` and all named nodes below it, in source order."""
    waiting = [node]
    while waiting:
        current = waiting.pop()
        yield current
        waiting.extend(reversed(current.named_children))


def syntax_errors(root: Node) -> tuple[Span, ...]:
    """Outermost places that were not understood."""
    found: list[Span] = []
    waiting = [root] if root.has_error else []
    while waiting:
        node = waiting.pop()
        if node.is_error or node.is_missing:
            found.append(span_of(node))
        else:
            waiting.extend(child for child in reversed(node.children) if child.has_error)
    return tuple(found)


def declared_name(declarator: Node | None) -> str:
    """The name a declarator declares, within references, pointers, arrays and initializers; empty if none."""
    while declarator is not None:
        if declarator.type in ("identifier", "field_identifier"):
            return text_of(declarator)
        inner = declarator.child_by_field_name("declarator")
        if inner is None and declarator.type == "reference_declarator":
            inner = declarator.named_children[0] if declarator.named_children else None
        declarator = inner
    return ""


def call_arguments(call: Node) -> list[Node]:
    """Argument expressions of a call or constructor call, comments left out."""
    listed = call.child_by_field_name("arguments") or call
    return [child for child in listed.named_children if child.type != "comment"]


def callee(call: Node) -> tuple[Node | None, str]:
    """Object and method of `object.method(...)`, or None and the function's name."""
    function = call.child_by_field_name("function")
    if function is None:
        return None, ""
    if function.type == "field_expression":
        return function.child_by_field_name("argument"), text_of(function.child_by_field_name("field"))
    if function.type == "template_function":
        return None, text_of(function.child_by_field_name("name"))
    return None, text_of(function)


def root_name(expression: Node | None) -> str:
    """`p` of `p`, `p.launch_spec`, `p[0]` or `p.add_input(a)`; empty for anything else."""
    while expression is not None and expression.type != "identifier":
        if expression.type in ("field_expression", "subscript_expression"):
            expression = expression.child_by_field_name("argument")
        elif expression.type == "call_expression":
            expression = expression.child_by_field_name("function")
        else:
            return ""
    return text_of(expression)
