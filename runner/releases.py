"""Releases of a tool as a git history in which each release is a commit, so that they are searched like commits.

`list_releases` looks the releases up, and `add_releases` makes the histories. A commit has the file `VERSION` with the
release's name. It may have a link `release` to the unpacked release. It may have the file `SOURCE` with the id of the
commit that the release was made from.
"""

import fnmatch
import hashlib
import json
import re
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import cast

from filelock import FileLock
from pydantic import TypeAdapter, ValidationError

from ..store.durable_files import write_whole
from ..store.vocabulary import MAKER, MAKER_EMAIL, plural
from .errors import UsageError, UserError, reason
from .git import GitRepository, inherited_environment
from .stack import Releases, Stack, Version

_LIST_TIMEOUT = 120
"""A command that lists releases is stopped after this many seconds. It may wait for a server."""
_RELEASE_LIST = "releases.json"
"""This file of a history has the releases from which it was made, and their commits."""
_COMMITTER = f"{MAKER} <{MAKER_EMAIL}>"
_VERSION = TypeAdapter(Version)


@dataclass(frozen=True)
class _Release:
    """A release, with its folder and its source commit where these are known."""

    version: str
    folder: str | None
    source: str | None


def add_releases(stack: Stack, folder: Path) -> Stack:
    """Make a history in `folder` for each tool that has releases; return the stack with these repositories.

    Raises `UserError`.
    """
    repositories = dict(stack.repositories)
    for name, repository in stack.repositories.items():
        if repository.releases is None:
            continue
        where = f"repositories.{name}.releases"
        found = _find_releases(stack, repository.releases, where)
        definition = repository.releases.model_dump_json(exclude={"commits"})
        path = folder / f"{stack.name}-{name}-{hashlib.sha256(definition.encode()).hexdigest()[:12]}"
        try:
            commits = _write_history(path, found)
        except OSError as error:
            raise UserError(
                f"{path}: expected to be able to write here: {reason(error)}; free space or set "
                "PRECISION_BISECT_HOME to a folder with room"
            ) from error
        releases = repository.releases.model_copy(update={"commits": commits})
        repositories[name] = repository.model_copy(update={"path": path, "releases": releases})
    return stack.model_copy(update={"repositories": repositories})


def list_releases(stack: Stack, name: str) -> tuple[str, ...]:
    """Return the names of a tool's releases, oldest first. Raises `UserError` where they cannot be found."""
    releases = stack.repositories[name].releases
    if releases is None:
        return ()
    return tuple(each.version for each in _find_releases(stack, releases, f"repositories.{name}.releases"))


def release_notices(stack: Stack) -> Iterator[str]:
    """Yield a sentence for each tool whose releases were looked up."""
    for name, repository in stack.repositories.items():
        if repository.releases is not None and repository.releases.commits:
            versions = list(repository.releases.commits)
            yield f"{name} has {plural(len(versions), 'release')}, from {versions[0]} to {versions[-1]}"


def _find_releases(stack: Stack, releases: Releases, where: str) -> list[_Release]:
    """Return all releases, oldest first. Raises `UserError` where there are none, or they cannot be listed."""
    tags = None if releases.tags is None else _tags(stack, releases.tags)
    names, source = _versions(releases, tags, where)
    versions = [name for name in names if fnmatch.fnmatchcase(name, releases.pattern)]
    if not versions:
        raise UsageError(f"{where}: expected releases, found none like {releases.pattern} in {source}")
    for version in versions:
        try:
            _VERSION.validate_python(version)
        except ValidationError as error:
            raise UsageError(
                f"{where}: expected names of letters, digits and . _ + -, found {version!r} in {source}"
            ) from error
    if len(set(versions)) < len(versions):
        twice = next(version for version in versions if versions.count(version) > 1)
        raise UsageError(f"{where}: expected each release once, found {twice} twice in {source}")
    untagged = [version for version in versions if tags is not None and version not in tags]
    if untagged:
        raise UsageError(
            f"{where}: expected a tag of {releases.tags} for each release, found none named {untagged[0]}; fetch the "
            "tags there, or leave such releases out with pattern"
        )
    return [
        _Release(
            version=version,
            folder=None if releases.folder is None else str(releases.folder / version),
            source=None if tags is None else tags.get(version),
        )
        for version in versions
    ]


def _versions(releases: Releases, tags: Mapping[str, str] | None, where: str) -> tuple[list[str], str]:
    """Return the names of releases, oldest first, and where they come from, in words."""
    if releases.versions:
        return list(releases.versions), "versions"
    if releases.folder is not None:
        try:
            unpacked = [entry.name for entry in releases.folder.iterdir() if entry.is_dir()]
        except OSError as error:
            raise UsageError(
                f"{where}.folder {releases.folder}: expected a folder with a folder for each release: {reason(error)}"
            ) from error
        names = sorted((name for name in unpacked if not name.startswith(".")), key=_release_order)
        return names, str(releases.folder)
    if releases.command:
        return _run_version_command(releases.command, where), "what its command printed"
    return sorted(tags or (), key=_release_order), f"the tags of {releases.tags}"


def _run_version_command(command: Sequence[str], where: str) -> list[str]:
    """Return the lines that a command prints. Raises `UsageError` where it fails."""
    try:
        done = subprocess.run(
            command,
            env=inherited_environment(),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=_LIST_TIMEOUT,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise UsageError(f"{where}.command: expected a command that prints releases: {error}") from error
    if done.returncode != 0:
        said = (done.stderr.strip().splitlines() or ["it printed no reason"])[-1]
        raise UsageError(
            f"{where}.command: expected a command that prints releases, found one that failed with {done.returncode}: "
            f"{said}"
        )
    return [line.strip() for line in done.stdout.splitlines() if line.strip()]


def _tags(stack: Stack, name: str) -> dict[str, str]:
    """Return the commits of a repository's tags."""
    repository = GitRepository.open_root(stack.repositories[name].path, name=name)
    listed = repository.run(
        "for-each-ref", "--format=%(refname:strip=2) %(objecttype) %(objectname) %(*objectname)", "refs/tags"
    )
    tags: dict[str, str] = {}
    for line in listed.splitlines():
        tag, kind, *objects = line.split()
        if kind in ("commit", "tag"):
            tags[tag] = objects[-1]
    return tags


def _release_order(version: str) -> tuple[list[tuple[int, str]], bool, list[tuple[int, str]]]:
    """Return a key that sorts releases, oldest first: numbers by value, previews before their final release.

    >>> sorted(["v0.10", "v0.9", "v0.10-rc2", "v0.9.1"], key=_release_order)
    ['v0.9', 'v0.9.1', 'v0.10-rc2', 'v0.10']
    """
    final, _, preview = version.partition("-")
    return _numbers(final), not preview, _numbers(preview)


def _numbers(text: str) -> list[tuple[int, str]]:
    return [(int(number or -1), word) for number, word in re.findall(r"(\d+)|([^\d.]+)", text)]


def _write_history(path: Path, releases: Sequence[_Release]) -> dict[str, str]:
    """Make a history of these releases, unless it exists; return the commit of each.

    A commit's id depends only on its release and the earlier ones, so a new release leaves the other commits unchanged.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    listed = json.dumps([[each.version, each.folder, each.source] for each in releases])
    with FileLock(path.with_name(f"{path.name}.lock")):
        file = path / ".git" / _RELEASE_LIST
        if file.is_file():
            written, commits = cast(tuple[str, dict[str, str]], json.loads(file.read_text(encoding="utf-8")))
            if written == listed:
                return commits
        if not (path / ".git").is_dir():
            GitRepository(path.parent).run("init", "--quiet", "--template=", str(path))
            GitRepository(path).run("config", "gc.auto", "0")
        commits = _import_releases(path, releases)
        GitRepository(path).run("checkout", "--quiet", "--force", "--detach", commits[releases[-1].version])
        write_whole(file, json.dumps([listed, commits]))
    return commits


def _import_releases(path: Path, releases: Sequence[_Release]) -> dict[str, str]:
    """Make a commit and a tag of each release; return the commits. Raises `UserError`."""
    marks = path / ".git" / "releases.marks"
    done = subprocess.run(
        ["git", "-C", str(path), "fast-import", "--quiet", "--force", f"--export-marks={marks}"],
        input="".join(_import_stream(releases)).encode(),
        env=inherited_environment(),
        capture_output=True,
        check=False,
    )
    if done.returncode != 0:
        raise UserError(f"{path}: expected git fast-import to take the releases: {done.stderr.decode()}")
    ids = dict(line.split() for line in marks.read_text(encoding="ascii").splitlines())
    return {release.version: ids[f":{number}"] for number, release in enumerate(releases, start=1)}


def _import_stream(releases: Sequence[_Release]) -> Iterator[str]:
    """Yield the input of `git fast-import`."""
    # Without this, the first commit would follow the commits of an earlier list.
    yield "reset refs/heads/releases\n"
    for number, release in enumerate(releases, start=1):
        # The dates of releases are not known, so the number takes the place of the date.
        yield f"commit refs/heads/releases\nmark :{number}\ncommitter {_COMMITTER} {number} +0000\n"
        yield _data(f"release {release.version}")
        if number > 1:
            yield f"from :{number - 1}\n"
        yield "M 100644 inline VERSION\n" + _data(f"{release.version}\n")
        if release.folder is not None:
            yield "M 120000 inline release\n" + _data(release.folder)
        if release.source is not None:
            yield "M 100644 inline SOURCE\n" + _data(f"{release.source}\n")
        yield f"\nreset refs/tags/{release.version}\nfrom :{number}\n\n"


def _data(text: str) -> str:
    return f"data {len(text.encode())}\n{text}\n"
