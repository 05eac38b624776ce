"""What the compiler made differently for the two builds, and after which of its passes that first shows."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from .build_directory import BuildDirectory

_GENERATED = ("kernel_config.py", "orchestration", "kernels")
_SUFFIXES = (".cpp", ".py", ".h")
_MOST_BYTES = 16 * 2**20
_DIFF_LINES = 40
# Of the time of the build, and of the process that made it.
_CHANCE = re.compile(
    r"(?<!\d)\d{8}_\d{6}(?!\d)|\b\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(?:\.\d+)?|\bat 0x[0-9a-f]+"
)


@dataclass(frozen=True, kw_only=True)
class PassDifference:
    """The first pass after which the program differs, and the start of a unified diff, reference to failing."""

    number: int
    name: str
    diff: str


@dataclass(frozen=True, kw_only=True)
class GeneratedDifference:
    """Generated sources that differ once times, addresses and the builds' own paths are left aside.

    `first_pass` is None where not both builds have dumps of passes, or none of those differs.
    """

    differing: tuple[str, ...]
    only_failing: tuple[str, ...]
    only_reference: tuple[str, ...]
    first_pass: PassDifference | None

    @property
    def is_empty(self) -> bool:
        """The compiler made the same of both: what is wrong is in the runtime, or in how it is called."""
        return not (self.differing or self.only_failing or self.only_reference)


def compare_generated(failing: BuildDirectory, reference: BuildDirectory) -> GeneratedDifference:
    """Compare the generated sources of two builds.

    Raises:
        BuildOutputError: a file is too large, or leads out of its build.
    """
    ours, theirs = set(_sources(failing)), set(_sources(reference))
    return GeneratedDifference(
        differing=tuple(
            path for path in sorted(ours & theirs) if _text(failing, path) != _text(reference, path)
        ),
        only_failing=tuple(sorted(ours - theirs)),
        only_reference=tuple(sorted(theirs - ours)),
        first_pass=_first_pass(failing, reference),
    )


def _sources(build: BuildDirectory) -> Iterator[str]:
    waiting = [name for name in _GENERATED if build.folder.has_file(name) or build.folder.has_folder(name)]
    while waiting:
        path = waiting.pop()
        if build.folder.has_folder(path):
            # A link to a folder may lead back to where it stands.
            if not (build.folder.root / path).is_symlink():
                waiting += [f"{path}/{name}" for name in build.folder.names(path)]
        elif path.endswith(_SUFFIXES) and build.folder.has_file(path):
            yield path


def _text(build: BuildDirectory, path: str) -> str:
    data = build.folder.read(path, expected="a generated source", limit=_MOST_BYTES)
    return _normalized(data.decode("utf-8", "replace"), build)


def _normalized(text: str, build: BuildDirectory) -> str:
    return _CHANCE.sub("_", text.replace(str(build.folder.root), "_"))


def _first_pass(failing: BuildDirectory, reference: BuildDirectory) -> PassDifference | None:
    if failing.contents.passes is None or reference.contents.passes is None:
        return None
    ours, theirs = failing.passes(), reference.passes()
    by_name = {(dump.number, dump.name): dump for dump in theirs.passes}
    for dump in ours.passes:
        counterpart = by_name.get((dump.number, dump.name))
        before = "" if counterpart is None else _normalized(theirs.text(counterpart), reference)
        after = _normalized(ours.text(dump), failing)
        if counterpart is None or before != after:
            diff = _short_diff(before.splitlines(), after.splitlines())
            return PassDifference(number=dump.number, name=dump.name, diff=diff)
    return None


def _short_diff(before: Sequence[str], after: Sequence[str]) -> str:
    lines = list(difflib.unified_diff(before, after, "reference", "failing", n=1, lineterm=""))
    rest = len(lines) - _DIFF_LINES
    return "\n".join([*lines[:_DIFF_LINES], *([f"... {rest} more lines"] if rest > 0 else [])])
