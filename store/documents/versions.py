"""Which version of the tool's models wrote a JSON value, and how an older one is brought up to date.

Every JSON value that is kept, in a column of the store or in a file, says its version under `schema_version`; one
that does not was written before there were versions, and is of version 1. Steps lead from each version to the next,
so that a value of any age is read, and nobody has to go back to an older version of the tool.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, cast

VERSION = "schema_version"
Upgrade = Callable[[Any], dict[str, Any]]
"""Takes a value of one version to the next; need not set the version."""


class DocumentError(Exception):
    """A kept JSON value cannot be read: what was expected, what was found, what to do."""


def version_of(value: object) -> int:
    """The version of a kept value.

    >>> version_of({"schema_version": 3}), version_of({"message": "found"})
    (3, 1)
    """
    version = cast(Mapping[str, object], value).get(VERSION) if isinstance(value, Mapping) else None
    return version if isinstance(version, int) else 1


def without_format(old: Mapping[str, Any]) -> dict[str, Any]:
    """A written document of version 1, which said so under `format`."""
    return {key: value for key, value in old.items() if key != "format"}


def brought_up_to_date(value: object, upgrades: Sequence[Upgrade], *, kind: str) -> dict[str, Any]:
    """The value as the newest version writes it: `upgrades[i]` leads from version i + 1 to version i + 2.

    >>> brought_up_to_date({"said": "x"}, [lambda old: {"message": old["said"]}], kind="conclusion")
    {'message': 'x', 'schema_version': 2}

    Raises:
        DocumentError: a later version of the tool wrote it, or it is not what its version says.
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
