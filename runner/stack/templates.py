"""Templates: texts of the stack file with `{name}` in place of what is known when a command is run."""

import re
from collections.abc import Mapping

_PLACEHOLDER = re.compile(r"\{\{|\}\}|\{([A-Za-z_][A-Za-z0-9_-]*)\}")


def fill(template: str, values: Mapping[str, str]) -> str:
    """Replace `{name}` by its value, and doubled braces by single ones.

    >>> fill("{python} -c 'print({{}})' {minirt}", {"python": "python3", "minirt": "/slot/minirt"})
    "python3 -c 'print({})' /slot/minirt"
    """
    return _PLACEHOLDER.sub(lambda match: values[match[1]] if match[1] else match[0][0], template)


def literal(text: str) -> str:
    """A template that fills to this text."""
    return text.replace("{", "{{").replace("}", "}}")


def unfilled(template: str) -> str:
    """The text as people read it: doubled braces are single ones, placeholders stay.

    >>> unfilled("{case} {{}}")
    '{case} {}'
    """
    return _PLACEHOLDER.sub(lambda match: match[0] if match[1] else match[0][0], template)


def placeholders(template: str) -> list[str]:
    """The names of the placeholders in a text."""
    return [name for name in _PLACEHOLDER.findall(template) if name]
