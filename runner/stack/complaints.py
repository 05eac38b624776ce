"""What is wrong with a file of settings, in one line: the key, what was expected, what was found."""

import difflib
import re
from collections.abc import Iterator, Mapping, Sequence
from types import UnionType
from typing import Annotated, Any, Union, get_args, get_origin

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

_EXPECTED = {
    "bool_parsing": "true or false",
    "bool_type": "true or false",
    "dict_type": "a table",
    "finite_number": "a finite number",
    "float_parsing": "a number",
    "float_type": "a number",
    "int_from_float": "a whole number",
    "int_parsing": "a whole number",
    "int_type": "a whole number",
    "list_type": "a list",
    "mapping_type": "a table",
    "model_attributes_type": "a table",
    "model_type": "a table",
    "path_type": "a path",
    "pattern_type": "a regular expression",
    "string_type": "a text",
    "time_parsing": "a time such as 22:00:00",
    "time_type": "a time such as 22:00:00",
    "tuple_type": "a list",
}
"""What is expected, by pydantic's names of what can be wrong."""


def first_error(error: ValidationError, model: type[BaseModel]) -> str:
    """The most helpful complaint about a file that was read as `model`."""
    # A misspelt key is also a missing one; its spelling is what helps.
    details = sorted(error.errors(), key=lambda detail: detail["type"] != "extra_forbidden")
    first = details[0]
    key = ".".join(str(part) for part in first["loc"])
    more = f" (and {len(details) - 1} more)" if len(details) > 1 else ""
    complaint = f"{_complaint(first, model)}{more}"
    return f"{key}: {complaint}" if key else complaint


def suggestion(name: str, known: Sequence[str]) -> str:
    """A question for a name that resembles a known one; else nothing.

    >>> suggestion("serched", ["searched", "steps"]), suggestion("x", ["searched"])
    (': did you mean searched?', '')
    """
    close = difflib.get_close_matches(name, known, n=1)
    return f": did you mean {close[0]}?" if close else ""


def _complaint(detail: ErrorDetails, model: type[BaseModel]) -> str:
    kind, found = detail["type"], detail["input"]
    if kind == "extra_forbidden":
        *place, name = detail["loc"]
        known = sorted(set(_keys(model, place)))
        return f"unknown key{suggestion(str(name), known) or '; expected one of ' + ', '.join(known)}"
    if kind == "missing":
        return "this key is required"
    if kind == "value_error":
        told = detail["msg"].removeprefix("Value error, ")
        return told if ", found " in told else _with_found(told, found)
    context = detail.get("ctx", {})
    if kind == "union_tag_not_found":
        return f"expected a key {context['discriminator']}"
    if kind == "union_tag_invalid":
        return f"expected {context['discriminator']} to be one of {context['expected_tags']}, found {context['tag']!r}"
    if kind == "string_pattern_mismatch":
        return _with_found(f"expected a text of the form {context['pattern']}", found)
    if kind == "too_short":
        return "expected it not to be empty"
    expected = _EXPECTED.get(kind) or re.sub(r"^(Input|String) should", "it to", detail["msg"])
    return _with_found(f"expected {expected}", found)


def _with_found(complaint: str, found: object) -> str:
    return f"{complaint}, found {found!r}" if isinstance(found, (str, int, float, bool)) else complaint


def _keys(annotation: Any, place: Sequence[int | str]) -> Iterator[str]:
    """The keys that a model has at a place below it, as pydantic names places."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        fields = annotation.model_fields
        if not place:
            yield from fields
        elif place[0] in fields:
            yield from _keys(fields[str(place[0])].annotation, place[1:])
        return
    arguments = get_args(annotation)
    origin = get_origin(annotation)
    if origin is Annotated:
        yield from _keys(arguments[0], place)
    elif origin in (Union, UnionType):
        for argument in arguments:
            yield from _keys(argument, place)
            yield from _keys(argument, place[1:])  # a place inside of a union begins with the member's tag
    elif place and isinstance(origin, type) and issubclass(origin, Mapping):
        yield from _keys(arguments[1], place[1:])
    elif place and origin in (tuple, list):
        yield from _keys(arguments[0], place[1:])
