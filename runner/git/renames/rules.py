"""The files that `--adapt` names: renames as tables of TOML, and what is told of them."""

import tomllib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from pydantic import Field, ValidationError

from ....store.words import plural
from ...errors import UsageError, reason
from ...stack.complaints import first_error
from ...stack.parts import Model, Rename
from ...stack.stack import Stack
from ..repository import GitRepository
from .files import AdaptedFile

_MOST_NAMED = 3


class RenameRules(Model):
    """The tables of such a file."""

    rename: tuple[Rename, ...] = Field(min_length=1)


def with_renames(stack: Stack, files: Iterable[Path], repositories: Mapping[str, GitRepository]) -> Stack:
    """The stack with the renames of some files, in their order. Raises `UserError`."""
    renames = [
        _checked(rename, stack, repositories, option=f"--adapt {file}")
        for file in files
        for rename in _read(file).rename
    ]
    return stack.model_copy(update={"renames": (*stack.renames, *renames)})


def told_of_rename(
    rename: Rename, subject: str, adapted: Mapping[str, Sequence[AdaptedFile]]
) -> Iterator[str]:
    """What a rename means for the runs; `adapted` are the files that it changes, by the end at which it does."""
    made_by = f"{rename.commit[:12]} of {rename.repository} ({subject})"
    if not any(adapted.values()):
        yield (
            f"--adapt: {rename.told} became {rename.new} with {made_by}, and no file that is of another time has the "
            "name that it would be written for: the rule changes nothing at the ends"
        )
        return
    yield f"{rename.told} became {rename.new} with {made_by}: files of another time get the name of the commit at hand"
    for end, files in adapted.items():
        if files:
            named = ", ".join(f"{file.repository}/{file.path}" for file in files[:_MOST_NAMED])
            more = f" and {len(files) - _MOST_NAMED} more" if len(files) > _MOST_NAMED else ""
            yield f"at the {end} end, {plural(sum(file.places for file in files), 'place')} of {named}{more}"


def as_toml(rename: Rename) -> str:
    """A rename as a table of such a file."""
    lines = ["[[rename]]"]
    texts = {"repository": rename.repository, "commit": rename.commit, "old": rename.old, "new": rename.new}
    lines += [f'{key} = "{text}"' for key, text in texts.items()]
    if rename.keyword_of:
        functions = ", ".join(f'"{function}"' for function in rename.keyword_of)
        lines.append(f"keyword_of = [{functions}]")
    return "\n".join(lines)


def _read(file: Path) -> RenameRules:
    try:
        return RenameRules.model_validate(tomllib.loads(file.read_text(encoding="utf-8")))
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"--adapt {file}: expected a file to read: {reason(error)}") from error
    except tomllib.TOMLDecodeError as error:
        raise UsageError(f"--adapt {file}: expected TOML: {error}") from error
    except ValidationError as error:
        raise UsageError(f"--adapt {file}: {first_error(error, RenameRules)}") from error


def _checked(
    rename: Rename, stack: Stack, repositories: Mapping[str, GitRepository], *, option: str
) -> Rename:
    """The rename with the full id of its commit."""
    if rename.repository not in stack.repositories:
        raise UsageError(
            f"{option}: rename.repository: expected one of {', '.join(sorted(stack.repositories))}, found "
            f"{rename.repository}"
        )
    commit = repositories[rename.repository].resolve(rename.commit, option=f"{option}: rename.commit")
    return rename.model_copy(update={"commit": commit})
