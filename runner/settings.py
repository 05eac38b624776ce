"""The files that configure a command: stack files, and settings that take the place of typed options.

`load_stack` reads a stack file by its path, or by the name of one that comes with the tool. `read_defaults` reads the
settings of the checkout around a folder: `precision-bisect.toml`, or a table of `pyproject.toml`. Settings, and the
stack file that they name, have no effect before a person trusts them with `trust_file`. `first_error` describes in one
line what is wrong with a file.
"""

import hashlib
import json
import os
import re
import tomllib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from importlib import resources
from pathlib import Path
from types import UnionType
from typing import Annotated, Any, Union, cast, get_args, get_origin
from urllib.parse import urlsplit

from pydantic import BaseModel, Field, ValidationError
from pydantic_core import ErrorDetails

from ..store.durable_files import read_text_file, write_whole
from .errors import UsageError, reason, suggestion
from .stack import Model, Repository, Stack
from .workspace.home import command_line, user_home


def checkout_root(folder: Path) -> Path:
    """Return the root of the git checkout, or submodule, around a folder; the folder itself where there is none."""
    for candidate in (folder, *folder.parents):
        if (candidate / ".git").exists():
            return candidate
    return folder


def expand_home(path: Path) -> Path:
    """Return the path with its leading `~` or `~user` expanded; unchanged where there is no such user."""
    return Path(os.path.expanduser(path))  # noqa: PTH111 (pathlib's raises where there is no such user)


def is_file(path: Path) -> bool:
    """Return whether a text is the path of a file. A text that is too long for a path is none."""
    return os.path.isfile(path)  # noqa: PTH113 (pathlib's raises where the text is too long)


def is_folder(path: Path) -> bool:
    """Return whether a text is the path of a folder. A text that is too long for a path is none."""
    return os.path.isdir(path)  # noqa: PTH112 (pathlib's raises where the text is too long)


_MAX_DOTS = 1_000
"""A key of TOML may have this many dots. `tomllib` takes minutes for a key of 100,000 parts."""
_STRING_OR_COMMENT = re.compile(
    "|".join(
        (
            r'"""(?:[^\\]|\\.)*?(?:"""|\Z)',
            r"'''.*?(?:'''|\Z)",
            r'"(?:[^"\\\n]|\\[^\n])*+"?',
            r"'[^'\n]*'?",
            r"#[^\n]*",
        )
    ),
    re.DOTALL,
)
_DOTTED = re.compile(r"[\w-]+(?:[ \t]*+\.[ \t]*+[\w-]+)*+")


class TomlError(ValueError):
    """A text is not valid TOML, or exceeds our limits. The message says where."""


def parse_toml(text: str) -> dict[str, Any]:
    """Return the tables of a TOML text. Raises `TomlError`, also for NUL, which no path or command can hold.

    >>> parse_toml("a = " + "[" * 10_000)
    Traceback (most recent call last):
        ...
    precision_bisect.runner.settings.TomlError: nesting too deep
    >>> parse_toml("a" + 100_000 * ".a" + " = 1")
    Traceback (most recent call last):
        ...
    precision_bisect.runner.settings.TomlError: line 1: expected at most 1,000 dots in a key, found 100,000
    """
    _refuse_long_keys(text)
    try:
        document = tomllib.loads(text)
        _refuse_nul(document, "")
    except RecursionError as error:
        raise TomlError("nesting too deep") from error
    except ValueError as error:  # This is `TOMLDecodeError`, or the error about a number of too many digits.
        raise TomlError(str(error)) from error
    return document


def _refuse_long_keys(text: str) -> None:
    """Raise `TomlError` for a key of too many parts. Dots in strings and comments do not count."""
    plain = _STRING_OR_COMMENT.sub(lambda found: "s" + "\n" * found[0].count("\n"), text)
    for found in _DOTTED.finditer(plain):
        if (dots := found[0].count(".")) > _MAX_DOTS:
            line = plain.count("\n", 0, found.start()) + 1
            raise TomlError(f"line {line}: expected at most {_MAX_DOTS:,} dots in a key, found {dots:,}")


def _refuse_nul(value: object, place: str) -> None:
    if isinstance(value, dict):
        for key, inner in cast(dict[str, object], value).items():
            _refuse_nul(key, place)
            _refuse_nul(inner, f"{place}.{key}" if place else key)
    elif isinstance(value, list):
        for inner in cast(list[object], value):
            _refuse_nul(inner, place)
    elif isinstance(value, str) and "\0" in value:
        raise ValueError(f"{place or 'a key'}: expected a text without NUL")


_DEMO = "demo"
_UNLISTED_FILES = frozenset({"nightly.toml", f"{_DEMO}.toml"})
"""These files in `configs/` are no usable stacks: a nightly job, and the demo without its repositories."""


def load_stack(name_or_path: str, *, overrides: Mapping[str, Path] | None = None) -> Stack:
    """Read a stack by the name of a file in `configs/`, or by path. Raises `UsageError`.

    Relative paths of repositories count from the stack file's folder. Those of a named stack count from
    `checkout_root` of the current folder. `overrides` replaces the paths of single repositories. Its relative paths
    count from the current folder.
    """
    path = Path(name_or_path)
    if path.suffix == ".toml" or (name_or_path not in named_stacks() and is_file(path)):
        text, where, base = _read(path), str(path), path.absolute().parent
    else:
        text = _read_named_stack(name_or_path)
        where, base = f"configs/{name_or_path}.toml", checkout_root(Path.cwd())
    stack = parse_stack(text, where=where)
    return _resolve_paths(stack, base=base, overrides=overrides or {})


def load_trusted_stack(file: Path, *, overrides: Mapping[str, Path]) -> Stack:
    """Read a stack file that nobody typed. Raises `UsageError`, also where its content is not trusted."""
    content = read_whole(file)
    check_trusted(file, content)
    stack = parse_stack(content.decode(), where=str(file))
    return _resolve_paths(stack, base=file.absolute().parent, overrides=overrides)


def _read_named_stack(name: str) -> str:
    """Return the text of a stack file that comes with the tool. Raises `UsageError`."""
    if name == _DEMO:
        raise UsageError(
            f"--stack {name}: expected a stack that is there; make it with: bisect-precision demo DIR, then name "
            "--stack DIR/stack.toml"
        )
    known = named_stacks()
    if name not in known and is_folder(Path(name)):
        files = [*Path(name).glob("*.toml")]
        hint = f"; name the file in it: --stack {files[0]}" if len(files) == 1 else ""
        raise UsageError(f"--stack {name}: expected a stack file, found a folder{hint}")
    if name not in known:
        hint = suggestion(name, known) or f"; expected a stack file or one of {', '.join(known)}"
        raise UsageError(f"--stack {name}: no such stack{hint}")
    return resources.files("precision_bisect.configs").joinpath(f"{name}.toml").read_text(encoding="utf-8")


def named_stacks() -> list[str]:
    """Return the names of the stacks that come with the tool."""
    folder = resources.files("precision_bisect.configs")
    return sorted(
        entry.name.removesuffix(".toml")
        for entry in folder.iterdir()
        if entry.name.endswith(".toml") and entry.name not in _UNLISTED_FILES
    )


def stack_of_checkout(directory: Path) -> str | None:
    """Return the name of the stack whose `marks` a checkout has; None where there is none."""
    for name in named_stacks():
        marks = parse_stack(_read_named_stack(name), where=f"configs/{name}.toml").marks
        if marks and all((directory / mark).exists() for mark in marks):
            return name
    return None


def parse_stack(text: str, *, where: str) -> Stack:
    """Parse and validate the text of a stack file. Raises `UsageError`, whose message begins with `where`."""
    try:
        return Stack.model_validate(_extend(parse_toml(text), where=where))
    except TomlError as error:
        raise UsageError(f"{where}: expected TOML: {error}") from error
    except ValidationError as error:
        raise UsageError(f"{where}: {first_error(error, Stack)}") from error


def _extend(table: Mapping[str, Any], *, where: str) -> Mapping[str, Any]:
    """Return a stack file's tables, merged over those of the stack that it `extends`, if any."""
    base = table.get("extends")
    if base is None:
        return table
    if base not in named_stacks():
        raise UsageError(f"{where}: extends: expected one of {', '.join(named_stacks())}, found {base!r}")
    extended = _extend(parse_toml(_read_named_stack(base)), where=f"configs/{base}.toml")
    return _merge_tables(extended, {key: table[key] for key in table if key != "extends"})


def _merge_tables(base: Mapping[str, Any], table: Mapping[str, Any]) -> dict[str, Any]:
    """Return `base` with the entries of `table`. Where both have a table under a key, the two are merged.

    >>> _merge_tables({"a": {"x": 1, "y": 2}, "b": [1]}, {"a": {"y": 3}, "b": [2]})
    {'a': {'x': 1, 'y': 3}, 'b': [2]}
    """
    merged = dict(base)
    for key, value in table.items():
        below = merged.get(key)
        both = isinstance(below, Mapping) and isinstance(value, Mapping)
        merged[key] = (
            _merge_tables(cast(Mapping[str, Any], below), cast(Mapping[str, Any], value)) if both else value
        )
    return merged


def _read(path: Path) -> str:
    try:
        return read_text_file(path)
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"{path}: expected a readable stack file: {reason(error)}") from error


def _resolve_paths(stack: Stack, *, base: Path, overrides: Mapping[str, Path]) -> Stack:
    for name in overrides:
        if name not in stack.repositories:
            raise UsageError(
                f"--repository {name}=...: expected one of {', '.join(sorted(stack.repositories))}, found {name!r}"
            )
    repositories = {
        name: _resolve_path(name, repository, base=base, override=overrides.get(name))
        for name, repository in stack.repositories.items()
    }
    return stack.model_copy(update={"repositories": repositories})


def _resolve_path(name: str, repository: Repository, *, base: Path, override: Path | None) -> Repository:
    """Return a repository with the absolute path of its checkout, or of its folder of releases."""
    if override is not None:
        override = expand_home(override).absolute()
    if repository.releases is None:
        path = (override or base / expand_home(repository.path)).resolve()
        return repository.model_copy(update={"path": path})
    folder = override or repository.releases.folder
    if folder is None:
        return repository
    if repository.releases.folder is None:
        raise UsageError(
            f"--repository {name}={override}: expected a repository with a checkout or a folder of releases; that of "
            f"{name} is made of releases which the stack file tells"
        )
    releases = repository.releases.model_copy(update={"folder": (base / expand_home(folder)).resolve()})
    return repository.model_copy(update={"releases": releases})


def check_trusted(file: Path, used: bytes) -> None:
    """Check that a person has trusted a file with the content `used`. Raises `UsageError`.

    A file that was changed or moved since has to be trusted again.
    """
    if not _trust_mark(file, used).is_file():
        trust = command_line(["bisect-precision", "trust", str(file.resolve())])
        raise UsageError(
            f"{file} is used automatically and is not trusted yet, or changed since. Read it, then run: {trust}"
        )


def read_whole(file: Path) -> bytes:
    """Return the content of a text file. Raises `UsageError`."""
    try:
        return read_text_file(file).encode()
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"{file}: expected a file that can be read: {reason(error)}") from error


def _trust_mark(file: Path, used: bytes) -> Path:
    """Return the empty file that records the trust. Its name is the digest of the trusted file's path and content."""
    digest = hashlib.sha256(bytes(file.resolve()) + b"\0" + used)
    return user_home().trust_marks / digest.hexdigest()


_SQLITE_FILE = re.compile(r"(?P<prefix>sqlite(?:\+\w+)?:///)(?!:memory:|file:)(?P<path>[^?]+)(?P<query>.*)")
OWN_FILE, SHARED_FILE, TABLE = "precision-bisect.toml", "pyproject.toml", "precision-bisect"


class OptionDefaults(Model):
    """The defaults of options, by the options' names. `resolve` makes relative paths absolute."""

    stack: str | None = None
    repository: Mapping[str, Path] = {}
    """The checkouts of the stack's repositories, by repository."""
    platform: str | None = None
    device: int | None = None
    store: str | None = None
    jobs: int | None = Field(default=None, ge=1)
    backend: str | None = None
    build_store: str | None = Field(default=None, alias="build-store")
    budget: str | float | None = None
    timeout: str | float | None = None
    confidence: float | None = Field(default=None, ge=0.5, lt=1)

    def resolve(self, folder: Path) -> "OptionDefaults":
        """Return the defaults with full paths. Relative ones count from `folder`, that of the settings file."""
        stack, build_store = self.stack, self.build_store
        if stack is not None and stack not in named_stacks():
            stack = str(folder / expand_home(Path(stack)))
        if build_store is not None and not urlsplit(build_store).scheme:
            build_store = str(folder / expand_home(Path(build_store)))
        return self.model_copy(
            update={
                "stack": stack,
                "build_store": build_store,
                "store": None if self.store is None else _resolve_store(self.store, folder),
                "repository": {name: folder / expand_home(path) for name, path in self.repository.items()},
            }
        )

    def restrict_to_stack(self, typed: str | None) -> "OptionDefaults":
        """Return the defaults that apply where the option `--stack` was typed, or None if it was not.

        Repositories, platform and device do not apply to a stack other than the one in the settings.
        """
        if typed is None or self.stack is None:
            return self
        is_same = typed == self.stack or (
            self.stack_file is not None and Path(typed).resolve() == self.stack_file.resolve()
        )
        if is_same:
            return self.model_copy(update={"stack": None})
        return self.model_copy(update={"stack": None, "repository": {}, "platform": None, "device": None})

    def restrict_to_stored_bisection(self) -> "OptionDefaults":
        """Return the defaults that apply to a stored bisection. It has its own values of all other options."""
        return OptionDefaults(store=self.store, jobs=self.jobs, budget=self.budget)

    @property
    def stack_file(self) -> Path | None:
        """Return the path of the stack's file; None where the stack comes with the tool, or there is none."""
        return None if self.stack is None or self.stack in named_stacks() else Path(self.stack)

    def option_values(self) -> dict[str, Any]:
        """Return the value of each option, as `click` takes it.

        Raises `UsageError` where nobody has trusted the stack file.
        """
        values = {
            name: value
            for name, value in self.model_dump().items()
            if value is not None and name != "repository"
        }
        if self.stack_file is not None:
            check_trusted(self.stack_file, read_whole(self.stack_file))
        values["repository"] = [f"{name}={path}" for name, path in self.repository.items()]
        return values


def _resolve_store(url: str, folder: Path) -> str:
    """Return the URL of a store with a full path, if it is that of a SQLite file.

    >>> _resolve_store("sqlite:///results.sqlite?timeout=5", Path("/checkout"))
    'sqlite:////checkout/results.sqlite?timeout=5'
    """
    found = _SQLITE_FILE.fullmatch(url)
    return url if found is None else f"{found['prefix']}{folder / found['path']}{found['query']}"


def read_defaults(folder: Path) -> OptionDefaults:
    """Return the defaults of the checkout around a folder, with full paths.

    Raises:
        UsageError: the file is no TOML, has a key or value that no option takes, or is not trusted.
    """
    file = settings_file(folder)
    if file is None:
        return OptionDefaults()
    table = _table(file)
    check_trusted(file, _canonical_bytes(table))
    return _parse_table(file, table)


def settings_file(folder: Path) -> Path | None:
    """Return the settings file of the checkout around a folder: the nearest one going up. Raises `UsageError`."""
    root = checkout_root(folder)
    for place in (folder, *folder.parents):
        for file in (place / OWN_FILE, place / SHARED_FILE):
            if file.is_file() and _table(file) is not None:
                return file
        if place == root:
            break
    return None


def read_settings(file: Path) -> OptionDefaults:
    """Return the settings in a file, trusted or not. Raises `UsageError`."""
    return _parse_table(file, _table(file))


def trust_file(file: Path) -> None:
    """Trust the settings in a settings file, or the whole of a stack file. Raises `UsageError` and `OSError`."""
    is_settings = file.name in (OWN_FILE, SHARED_FILE)
    mark = _trust_mark(file, _canonical_bytes(_table(file)) if is_settings else read_whole(file))
    user_home().make()
    mark.parent.mkdir(exist_ok=True)
    write_whole(mark, "")


def _canonical_bytes(table: object) -> bytes:
    return json.dumps(table, sort_keys=True, default=str).encode()


def _table(file: Path) -> object:
    """Return the settings in a file, not yet validated; None where a `pyproject.toml` has no table of ours."""
    try:
        text = read_text_file(file)
        if file.name == SHARED_FILE and TABLE not in text:
            return None
        document = parse_toml(text)
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"{file}: expected a file that can be read: {reason(error)}") from error
    except TomlError as error:
        raise UsageError(f"{file}: expected TOML: {error}") from error
    if file.name == OWN_FILE:
        return document
    tools = document.get("tool")
    return cast(dict[str, Any], tools).get(TABLE) if isinstance(tools, dict) else None


def _parse_table(file: Path, table: object) -> OptionDefaults:
    where = str(file) if file.name == OWN_FILE else f"{file}: tool.{TABLE}"
    try:
        return OptionDefaults.model_validate(table).resolve(file.absolute().parent)
    except ValidationError as error:
        raise UsageError(f"{where}: {first_error(error, OptionDefaults)}") from error


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
"""These phrases say what a field expects, by pydantic's names of errors."""


def first_error(error: ValidationError, model: type[BaseModel]) -> str:
    """Return the most helpful complaint about a file that was read as `model`, after the key, and count the others."""
    # A misspelt key also causes the error of a missing key, so it is reported first.
    details = sorted(error.errors(), key=lambda detail: detail["type"] != "extra_forbidden")
    first = details[0]
    key = ".".join(str(part) for part in first["loc"])
    more = f" (and {len(details) - 1} more)" if len(details) > 1 else ""
    complaint = f"{_complaint(first, model)}{more}"
    return f"{key}: {complaint}" if key else complaint


def _complaint(detail: ErrorDetails, model: type[BaseModel]) -> str:
    """Describe one error of pydantic: what was expected, and what was found."""
    kind, found = detail["type"], detail["input"]
    if kind == "extra_forbidden":
        *place, name = detail["loc"]
        known = sorted(set(_keys(model, place)))
        return f"unknown key{suggestion(str(name), known) or '; expected one of ' + ', '.join(known)}"
    if kind == "missing":
        return "this key is required"
    if kind == "value_error":
        return detail["msg"].removeprefix("Value error, ")
    context = detail.get("ctx", {})
    if kind == "union_tag_not_found":
        return f"expected a key {context['discriminator']}"
    if kind == "union_tag_invalid":
        return f"expected {context['discriminator']} to be one of {context['expected_tags']}, found {context['tag']!r}"
    if kind == "string_pattern_mismatch":
        return _append_found(f"expected a text of the form {context['pattern']}", found)
    if kind == "too_short":
        return "expected it not to be empty"
    expected = _EXPECTED.get(kind) or re.sub(r"^(Input|String) should", "it to", detail["msg"])
    return _append_found(f"expected {expected}", found)


def _append_found(complaint: str, found: object) -> str:
    return f"{complaint}, found {found!r}" if isinstance(found, (str, int, float, bool)) else complaint


def _keys(annotation: Any, place: Sequence[int | str]) -> Iterator[str]:
    """Yield the keys of the model at a place inside of a type. Pydantic gives the place as a path of keys."""
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
            yield from _keys(argument, place[1:])  # A place inside a union begins with the member's tag.
    elif place and isinstance(origin, type) and issubclass(origin, Mapping):
        yield from _keys(arguments[1], place[1:])
    elif place and origin in (tuple, list):
        yield from _keys(arguments[0], place[1:])


_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


def read_overrides(texts: Iterable[str]) -> dict[str, Path]:
    """Return the paths of `--repository NAME=PATH` options, by repository. Raises `UsageError`.

    A relative path counts from the current folder.
    """
    paths: dict[str, Path] = {}
    for text in texts:
        name, _, path = text.partition("=")
        if not (name and path):
            raise UsageError(f"--repository {text}: expected NAME=PATH")
        paths[name] = expand_home(Path(path)).absolute()
    return paths


def read_variables(texts: Iterable[str]) -> dict[str, str]:
    """Return the values of `--env NAME=VALUE` options, by variable. Raises `UsageError`."""
    variables: dict[str, str] = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if not equals or _VARIABLE.fullmatch(name) is None:
            raise UsageError(f"--env {text}: expected NAME=VALUE")
        if name in variables:
            raise UsageError(f"--env {text}: expected each name once, found {name} twice")
        variables[name] = value
    return variables
