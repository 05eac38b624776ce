"""Names that stand for numbers in an orchestration source."""

from __future__ import annotations

from dataclasses import dataclass, field

from tree_sitter import Node

from .cpp_syntax import declared_name, descendants, text_of
from .model import KernelReference

NO_KERNEL = -1


@dataclass(frozen=True)
class Constants:
    """Integers by name, from `#define`, enumerations, and constant declarations anywhere in the file."""

    numbers: dict[str, int] = field(default_factory=dict[str, int])

    @classmethod
    def of(cls, root: Node) -> Constants:
        """All of a file. A name given two numbers is left out."""
        constants = cls({"INVALID_KERNEL_ID": NO_KERNEL})
        clashing: set[str] = set()
        for node in descendants(root):
            for name, expression in _definitions(node):
                number = constants.number(expression)
                if number is None:
                    continue
                if constants.numbers.setdefault(name, number) != number:
                    clashing.add(name)
        for name in clashing:
            del constants.numbers[name]
        return constants

    def number(self, expression: str) -> int | None:
        """The integer an expression is: a literal or a known name, in parentheses or with a minus or not."""
        text = expression.strip().strip("()").strip()
        sign = -1 if text.startswith("-") else 1
        text = text.removeprefix("-").strip()
        if text in self.numbers:
            return sign * self.numbers[text]
        digits = text.rstrip("uUlL").replace("'", "")
        try:
            return sign * int(digits, 0) if len(digits) <= 20 else None
        except ValueError:
            return None

    def kernel(self, expression: str) -> KernelReference:
        """The kernel that a submit names by `expression`."""
        return KernelReference(expression, self.number(expression))


def _definitions(node: Node) -> list[tuple[str, str]]:
    match node.type:
        case "preproc_def":
            value = text_of(node.child_by_field_name("value")).split("//")[0].split("/*")[0]
            return [(text_of(node.child_by_field_name("name")), value)]
        case "enumerator":
            return [(text_of(node.child_by_field_name("name")), text_of(node.child_by_field_name("value")))]
        case "declaration" if _is_constant(node):
            declarators = node.children_by_field_name("declarator")
            return [
                (declared_name(one), text_of(one.child_by_field_name("value")))
                for one in declarators
                if one.type == "init_declarator"
            ]
        case _:
            return []


def _is_constant(declaration: Node) -> bool:
    qualifiers = [text_of(child) for child in declaration.named_children if child.type == "type_qualifier"]
    return "constexpr" in qualifiers or "const" in qualifiers
