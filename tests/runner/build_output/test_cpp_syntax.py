"""Small questions to the syntax tree of a C++ source."""

import pytest
from tree_sitter import Node

from precision_bisect.runner.build_output.orchestration import (
    Span,
    call_arguments,
    callee,
    declarator_name,
    descendants,
    parse_cpp,
    root_name,
    span_of,
    syntax_errors,
    text_of,
)


def first(source: str, kind: str) -> Node:
    """The first node of a kind in a function's body."""
    return next(
        node for node in descendants(parse_cpp(f"void f() {{ {source} }}".encode())) if node.type == kind
    )


@pytest.mark.parametrize(
    ("declaration", "name"),
    [
        ("int x = 1;", "x"),
        ("const Tensor& x = y;", "x"),
        ("int* x = y;", "x"),
        ("uint32_t x[2] = {1, 2};", "x"),
        ("int x;", "x"),
    ],
)
def test_the_name_of_a_declaration_is_found_within_its_declarators(declaration: str, name: str) -> None:
    node = first(declaration, "declaration")
    assert declarator_name(node.child_by_field_name("declarator")) == name


@pytest.mark.parametrize(
    ("call", "target", "function"),
    [("g(a)", "", "g"), ("p.add(a)", "p", "add"), ("g<float>(a)", "", "g"), ("p->q.add(a)", "p->q", "add")],
)
def test_a_call_is_a_target_a_function_and_its_arguments(call: str, target: str, function: str) -> None:
    node = first(f"{call};", "call_expression")
    found, name = callee(node)
    assert (text_of(found), name) == (target, function)
    assert [text_of(argument) for argument in call_arguments(node)] == ["a"]


def test_comments_are_no_arguments() -> None:
    node = first("g(a, /* b */ c);", "call_expression")
    assert [text_of(argument) for argument in call_arguments(node)] == ["a", "c"]


@pytest.mark.parametrize(
    ("expression", "name"), [("p", "p"), ("p.spec[0]", "p"), ("p.add(a)", "p"), ("(p)", ""), ("1", "")]
)
def test_the_root_of_an_expression_is_the_variable_that_it_begins_with(expression: str, name: str) -> None:
    statement = first(f"{expression};", "expression_statement")
    assert root_name(statement.named_children[0]) == name


def test_spans_are_bytes_and_errors_are_the_outermost_ones() -> None:
    source = "int ä = 1;\nint y = = 2;\n".encode()
    (error,) = syntax_errors(parse_cpp(source))
    assert error.text_in(source).strip("= ") == ""
    assert error in span_of(parse_cpp(source))
    assert Span(0, 7).text_in(source) == "int ä "
    assert syntax_errors(parse_cpp(b"int x;")) == ()
