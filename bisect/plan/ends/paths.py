"""`--path DIR`: only commits that touch these files or folders are candidates."""

from collections.abc import Sequence
from pathlib import Path

from ....runner.errors import UsageError
from ....store.words import plural
from ...commits.range import LoadedRange
from ..request import BisectRequest


def paths_of_tree(texts: Sequence[str], *, checkout: Path, here: Path) -> tuple[str, ...]:
    """Paths as a commit's tree has them; "" is all of it. Relative ones begin at the current folder where that lies in
    the checkout, else at its root. Raises `UsageError` where one leads out of it."""
    root = checkout.resolve()
    start = here.resolve() if here.resolve().is_relative_to(root) else root
    found: list[str] = []
    for text in texts:
        path = Path(text)
        # Not resolved as a whole: the last part may be a link, which is what commits change.
        inside = _without_dots(path if path.is_absolute() else start / path)
        if not inside.is_relative_to(root):
            raise UsageError(f"--path {text}: expected a path inside {root}, found one outside")
        named = inside.relative_to(root).as_posix()
        found.append("" if named == "." else named)
    return tuple(dict.fromkeys(found))


def told_of_paths(request: BisectRequest, loaded: LoadedRange | None) -> list[str]:
    """What the report says of the paths of a question, and how many commits of its range touch them."""
    if not request.paths:
        return []
    limit = " or ".join(path or "." for path in request.paths)
    among = ""
    if loaded is not None:
        touching = len(loaded.commits) - len(loaded.elsewhere)
        among = f", {touching} of {plural(len(loaded.commits), 'commit')}{_kept(loaded)}"
    return [f"--path {limit}: only commits that touch it are searched{among}"]


def _kept(loaded: LoadedRange) -> str:
    """Which commits can be named although they touch none of the paths."""
    kept = [sha for sha in loaded.candidates if sha in loaded.elsewhere]
    merges = [sha for sha in kept if sha != loaded.range.new]
    told = [f"the end {sha[:12]}" for sha in kept if sha == loaded.range.new]
    told += [f"{plural(len(merges), 'merge')} of such commits"] if merges else []
    return f", and {' and '.join(told)}" if told else ""


def _without_dots(path: Path) -> Path:
    parts: list[str] = []
    for part in path.parts:
        if part == "..":
            parts = parts[:-1] or parts
        else:
            parts.append(part)
    return Path(*parts)
