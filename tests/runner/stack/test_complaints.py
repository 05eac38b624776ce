"""What is said of a wrong file: key, what was expected, what was found, in no words of the library that checks."""

from datetime import time
from typing import Any, Literal

import pytest
from pydantic import Field, ValidationError

from precision_bisect.runner.stack.complaints import first_error
from precision_bisect.runner.stack.parts import Model
from precision_bisect.runner.stack.stack import Stack


class Inner(Model):
    size: int = Field(default=1, gt=0)
    share: float = Field(default=0.5, le=1)


class Settings(Model):
    name: str = ""
    on: bool = False
    start: time = time(0)
    unchanged: Literal["reuse", "run"] = "run"
    inner: Inner = Inner()
    inners: tuple[Inner, ...] = ()
    words: tuple[str, ...] = Field(default=("x",), min_length=1)
    maybe: dict[str, Inner] | None = None


def complaint(model: type[Model], document: dict[str, Any]) -> str:
    with pytest.raises(ValidationError) as caught:
        model.model_validate(document)
    return first_error(caught.value, model)


@pytest.mark.parametrize(
    ("document", "says"),
    [
        ({"nam": "x"}, "nam: unknown key: did you mean name?"),
        ({"inner": {"siez": 1}}, "inner.siez: unknown key: did you mean size?"),
        ({"inners": [{"siez": 1}]}, "inners.0.siez: unknown key: did you mean size?"),
        ({"maybe": {"a": {"shar": 1}}}, "maybe.a.shar: unknown key: did you mean share?"),
        ({"inner": {"q": 1}}, "inner.q: unknown key; expected one of share, size"),
        ({"name": 3}, "name: expected a text, found 3"),
        ({"on": "perhaps"}, "on: expected true or false, found 'perhaps'"),
        ({"start": "noon"}, "start: expected a time such as 22:00:00, found 'noon'"),
        ({"unchanged": "x"}, "unchanged: expected it to be 'reuse' or 'run', found 'x'"),
        ({"inner": 3}, "inner: expected a table, found 3"),
        ({"inner": {"size": 0}}, "inner.size: expected it to be greater than 0, found 0"),
        ({"inner": {"size": "many"}}, "inner.size: expected a whole number, found 'many'"),
        ({"inner": {"share": "half"}}, "inner.share: expected a number, found 'half'"),
        ({"words": []}, "words: expected it not to be empty"),
        ({"words": "x"}, "words: expected a list, found 'x'"),
    ],
)
def test_a_wrong_value(document: dict[str, Any], says: str) -> None:
    assert complaint(Settings, document) == says


def test_keys_of_stack_files() -> None:
    assert "serched: unknown key: did you mean searched?" in complaint(Stack, {"name": "x", "serched": "y"})
    pin = {"kind": "gitlink", "holdr": "a", "path": "b", "target": "c"}
    assert "holdr: unknown key: did you mean holder?" in complaint(Stack, {"pins": {"p": pin}})
