"""Models whose values are kept as JSON: written with the version of the model, read at any earlier one."""

from collections.abc import Mapping
from typing import Any, ClassVar, TypeVar, cast

from pydantic import BaseModel, ConfigDict, ValidationError, ValidationInfo, model_validator

from .versions import VERSION, DocumentError, Upgrade, brought_up_to_date

_READING = object()
"""The validation context in which a document may be an old one; a value that code makes is always of today."""


class Document(BaseModel):
    """The root of a JSON document, which declares its `schema_version`. A change that old documents do not bear gets
    an upgrade, and the next version.

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
    """The first takes a document of version 1, or without one, to version 2."""

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
        return brought_up_to_date(cast(object, value), cls.upgrades, kind=cls.__name__)


_D = TypeVar("_D", bound=Document)


def write_document(document: Document) -> dict[str, Any]:
    """The document as JSON values, with its version."""
    return document.model_dump(mode="json")


def read_document(model: type[_D], value: object) -> _D:
    """A document of any version up to the model's own, as that is now; so are the documents within it.

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
