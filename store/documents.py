"""JSON documents with versions: each is written with the version of its model, and read at any earlier one.

Every JSON value that is kept, in a column of the store or in a file, has its version under `schema_version`. A value
without one was written before there were versions, and has version 1. Upgrades lead from each version to the next. So a
value of any age can be read, and nobody needs an older version of the tool. `published_schema` gives the JSON schemas
that are published under `docs/`.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar, TypeVar, cast

from pydantic import BaseModel, ConfigDict, ValidationError, ValidationInfo, model_validator

VERSION = "schema_version"
Upgrade = Callable[[Any], dict[str, Any]]
"""Such a function converts a value of one version to the next. It need not set the version."""


class DocumentError(Exception):
    """A kept JSON value cannot be read. The message says what was expected, what was found, what to do."""


def version_of(value: object) -> int:
    """Return the version of a kept value.

    >>> version_of({"schema_version": 3}), version_of({"message": "found"})
    (3, 1)
    """
    version = cast(Mapping[str, object], value).get(VERSION) if isinstance(value, Mapping) else None
    return version if isinstance(version, int) else 1


def remove_format(old: Mapping[str, Any]) -> dict[str, Any]:
    """Upgrade a written document of version 1, which had its version under `format`."""
    return {key: value for key, value in old.items() if key != "format"}


def upgrade_value(value: object, upgrades: Sequence[Upgrade], *, kind: str) -> dict[str, Any]:
    """Return the value as the newest version writes it. `upgrades[i]` leads from version i + 1 to version i + 2.

    >>> upgrade_value({"said": "x"}, [lambda old: {"message": old["said"]}], kind="conclusion")
    {'message': 'x', 'schema_version': 2}

    Raises:
        DocumentError: a later version of the tool wrote it, or its structure does not match its version.
    """
    version, newest = version_of(value), 1 + len(upgrades)
    if not 1 <= version <= newest:
        raise DocumentError(
            f"expected a {kind} of schema version {newest} or earlier, found {version}, which a later version of "
            "the tool wrote; update this one: pip install --upgrade precision-bisect"
        )
    try:
        for upgrade in upgrades[version - 1 :]:
            value = upgrade(value)
        return {**cast(Mapping[str, Any], value), VERSION: newest}
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise DocumentError(
            f"expected a {kind} as its schema version {version} has it, found another structure ({error!r})"
        ) from error


_READING = object()
"""In this validation context a document may be an old one. A value that code makes is always current."""


class Document(BaseModel):
    """The root of a JSON document, which declares its `schema_version`.

    A change that makes old documents invalid needs an upgrade and the next version.

    >>> from typing import Literal
    >>> class Greeting(Document):
    ...     upgrades = (lambda old: {"text": old["word"]},)
    ...     schema_version: Literal[2] = 2
    ...     text: str
    >>> read_document(Greeting, {"word": "hello"})
    Greeting(schema_version=2, text='hello')
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    upgrades: ClassVar[tuple[Upgrade, ...]] = ()
    """The upgrades. The first one takes a document of version 1, or without a version, to version 2."""

    @classmethod
    def __pydantic_init_subclass__(cls, **_options: Any) -> None:
        newest = 1 + len(cls.upgrades)
        declared = cls.model_fields.get(VERSION)
        if declared is None or declared.default != newest:
            raise TypeError(f"{cls.__name__}: expected schema_version {newest}, one more than its upgrades")

    @model_validator(mode="before")
    @classmethod
    def _bring_up_to_date(cls, value: object, info: ValidationInfo) -> object:
        if info.context is not _READING or not isinstance(value, Mapping):
            return value
        return upgrade_value(cast(object, value), cls.upgrades, kind=cls.__name__)


_D = TypeVar("_D", bound=Document)


def write_document(document: Document) -> dict[str, Any]:
    """Return the document as JSON values, with its version."""
    return document.model_dump(mode="json")


def read_document(model: type[_D], value: object) -> _D:
    """Return a document of any version up to the model's own, upgraded. The documents within it are upgraded too.

    Raises:
        DocumentError: a later version of the tool wrote it, or it is damaged.
    """
    try:
        return model.model_validate(value, context=_READING)
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(map(str, first["loc"])) or "the whole of it"
        raise DocumentError(
            f"expected a {model.__name__}, found one that is damaged, or of another version of the tool, at {place}: "
            f"{first['msg']}"
        ) from error


def published_schema(document: type[BaseModel], *, by_alias: bool = True) -> str:
    """Return the schema of `document` as it is written, as the text of its file. `by_alias` is as in writing."""
    schema = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        **document.model_json_schema(by_alias=by_alias, mode="serialization"),
    }
    return json.dumps(schema, indent=2) + "\n"
