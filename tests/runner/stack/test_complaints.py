"""What is said of a wrong file: key, what was expected, what was found, in no words of the library that checks."""

import itertools
import os
import re
import tomllib
from collections.abc import Callable, Iterator
from datetime import time
from importlib import resources
from pathlib import Path
from typing import Any, Literal

import pytest
from pydantic import BaseModel, Field, ValidationError

from precision_bisect import configs
from precision_bisect.bisect.nightly.matrix import NightlyConfig, load_config
from precision_bisect.runner.errors import UsageError
from precision_bisect.runner.renames import add_renames
from precision_bisect.runner.settings import OWN_FILE, first_error, load_stack, read_defaults
from precision_bisect.runner.stack import Model, Stack
from precision_bisect.runner.verdict.rules import VerdictRule
from tests.support.quick import quick_first


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


def complaint(model: type[BaseModel], document: dict[str, Any]) -> str:
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
    for pattern, says in (
        (3, "expected a regular expression, found 3"),
        ("(", "found '(': missing ), unterm"),
    ):
        rule = {"verdict": "pass", "pattern": pattern}
        assert says in complaint(VerdictRule, rule)
    pin = {"kind": "gitlink", "holdr": "a", "path": "b", "target": "c"}
    assert "holdr: unknown key: did you mean holder?" in complaint(Stack, {"pins": {"p": pin}})


WRONG: tuple[Any, ...] = (3, -1, "", "../x", "{zz}", "(", [], [3], {"x": 3}, True, float("nan"), time(1))
FOREIGN = re.compile(
    r"\b(Input|Value|String|should|valid|instance|dictionary|tuple|union|NoneType)\b|\['|\[\]"
)


def places(document: Any, place: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Where values stand in a document, those of tables and lists included."""
    if not isinstance(document, (dict, list)):
        return
    for key, value in document.items() if isinstance(document, dict) else enumerate(document):
        yield (*place, key)
        yield from places(value, (*place, key))


def replaced(document: Any, place: tuple[Any, ...], value: Any) -> Any:
    """A copy with another value at a place."""
    if not place:
        return value
    changed = dict(document) if isinstance(document, dict) else list(document)
    changed[place[0]] = replaced(document[place[0]], place[1:], value)
    return changed


@pytest.mark.parametrize("name", quick_first(["demo", "nightly", "simpler", "pypto"], 2))
def test_whatever_is_wrong_in_a_shipped_file_is_said_in_words_of_our_own(name: str) -> None:
    document = tomllib.loads(resources.files(configs).joinpath(f"{name}.toml").read_text("utf-8"))
    model = NightlyConfig if name == "nightly" else Stack
    told: set[str] = set()
    for place, value in itertools.product(places(document), WRONG):
        wrong = replaced(document, place, value)
        try:
            model.model_validate(wrong)
        except ValidationError as error:
            told.add(first_error(error, model))
    assert len(told) > 10
    foreign = [
        text for text in told if FOREIGN.search(text.partition(", found ")[0]) or text.count(", found ") > 1
    ]
    assert not foreign, foreign[:5]


def test_each_file_of_settings_is_bounded(tmp_path: Path) -> None:
    stack = load_stack("pypto")
    readers: list[tuple[str, Callable[[Path], object]]] = [
        ("stack.toml", lambda file: load_stack(str(file))),
        (OWN_FILE, lambda file: read_defaults(file.parent)),
        ("nightly.toml", load_config),
        ("rules.toml", lambda file: add_renames(stack, [file], {})),
    ]
    for name, read in readers:
        file = tmp_path / name
        file.touch()
        os.truncate(file, 2**33)
        with pytest.raises(UsageError, match=f"{name}.*more than 4 MiB"):
            read(file)
        for text in (f"a={'[' * 5000}", f"a={'9' * 5000}", r'a=[{"b\u0000"=1}]'):
            file.write_text(text)
            with pytest.raises(UsageError, match=f"{name}.*expected TOML"):
                read(file)
        file.unlink()


def test_a_text_that_is_no_path_is_told_as_any_other(tmp_path: Path) -> None:
    """One that is too long for a file's name, and a home of nobody."""
    job = 'job = "n"\ncases = ["a"]\n[platforms.a2a3sim]\n'
    file = tmp_path / "nightly.toml"
    file.write_text(f'stack = "{"x" * 5000}"\n{job}')
    with pytest.raises(UsageError, match="no such stack"):
        load_config(file)
    file.write_text(f'stack = "pypto"\n{job}[repositories]\npypto = "~nobody-of-this-name/x"\n')
    _, stack = load_config(file)
    assert stack.repositories["pypto"].path == tmp_path / "~nobody-of-this-name" / "x"
