"""A probe as a value: what another machine needs for it is named by content, and no path of this one counts there."""

import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from importlib.metadata import version
from pathlib import Path

from ...case.golden import FrozenGolden
from ...case.runtime_dir import replay_of
from ...errors import UsageError, UserError
from ...git.cherry_picks import patches_in
from ...git.repository import GitRepository
from ...git.submodules import MissingSubmoduleError, is_initialized, submodules_at
from ...stack.stack import Stack
from ...stack.templates import fill, literal, placeholders
from ...workspace.home import Home
from ...workspace.workspace import Workspace
from ..files.archive import pack_folder, unpack_folder
from ..files.digest import digest_of
from ..records import ProbeRequest
from .mirrors import Mirror, NeededCommits
from .objects import Objects

_LARGEST_SCRIPT = 1 << 20
_PROGRAM = b"\x7fELF"


@dataclass(frozen=True, kw_only=True)
class ProbeParcel:
    """A probe of a stack, as it travels. Paths in `stack` and `request` are the driver's."""

    version: str
    """The driver's, of this tool."""
    stack: Stack
    request: ProbeRequest
    commits: Mapping[str, NeededCommits]
    """By repository."""
    runtime_dir: str | None
    """The object that holds the build directory of `--runtime-dir`."""
    scripts: Mapping[str, str]
    """Objects that hold the user's own scripts, by word of the case's command."""
    expected: tuple[str, ...]
    """Programs that the case's command names by their full path, which are to be at a host."""
    build_store: str | None
    """The URL of the builds that hosts share."""

    @property
    def objects(self) -> frozenset[str]:
        """All objects that it needs."""
        golden = self.request.golden.files.values() if self.request.golden else ()
        folders = () if self.runtime_dir is None else (self.runtime_dir,)
        return frozenset((*golden, *folders, *self.scripts.values()))


class ParcelMaker:
    """Makes parcels at a driver, and knows where their objects lie there. `folder` takes what it has to write."""

    def __init__(
        self, stack: Stack, workspace: Workspace, folder: Path, *, build_store: str | None = None
    ) -> None:
        self._build_store = build_store
        self._stack = stack
        self._workspace = workspace
        self._packed = Objects(folder)
        self._sources: dict[str, Path] = {}
        self._runtime_dirs: dict[Path, str] = {}
        words = dict(_own_files(stack))
        travelling = {word: file for word, file in words.items() if _is_script(file)}
        self._scripts = {word: self._known(file) for word, file in travelling.items()}
        self._expected = tuple(str(file) for word, file in words.items() if word not in travelling)

    def source(self, digest: str) -> Path:
        """The file that holds an object of a parcel."""
        return self._sources[digest]

    def clone(self, repository: str) -> GitRepository:
        """The repository that holds the commits of parcels."""
        return self._workspace.clones[repository]

    def parcel(self, request: ProbeRequest) -> ProbeParcel:
        """A probe, ready to travel.

        Raises:
            UserError: a commit is not there, or a person is to run the case.
        """
        if request.by_hand:
            raise UsageError("--interactive: expected workers of this machine, found those of a cluster")
        if request.golden is not None:
            for name, digest in request.golden.files.items():
                self._sources[digest] = request.golden.directory / name
        runtime_dir = request.options.runtime_dir
        return ProbeParcel(
            version=version("precision-bisect"),
            stack=self._stack,
            request=request,
            commits={name: self._commits(name, request) for name in self._stack.repositories},
            runtime_dir=None if runtime_dir is None else self._folder(runtime_dir),
            scripts=self._scripts,
            expected=self._expected,
            build_store=self._build_store,
        )

    def _commits(self, name: str, request: ProbeRequest) -> NeededCommits:
        overlays = [overlay.commit for overlay in self._stack.repositories[name].overlays]
        there = [request.revisions[name]] if name in request.revisions else []
        own = [*there, *patches_in(request.revisions, name)]
        commits = [*own, *overlays]
        for sha in commits:
            self._workspace.ensure_commit(name, sha)
        if self._stack.repositories[name].submodules:
            commits += self._submodules(name, own)
        return NeededCommits.of(self.clone(name), commits, stack=self._stack.name, name=name)

    def _submodules(self, name: str, commits: Sequence[str]) -> list[str]:
        """The commits of submodules that commits of a repository pin. Raises `MissingSubmoduleError`: a host could not
        tell such a submodule from one that the checkout never had."""
        pinned: list[str] = []
        besides = self._stack.pinned_folders(name)
        for sha in commits:
            for submodule in submodules_at(self.clone(name), sha, besides=besides):
                if submodule.is_here:
                    pinned.append(submodule.commit)
                elif is_initialized(self._workspace.repositories[name], submodule):
                    raise MissingSubmoduleError(submodule, self._workspace.repositories[name])
        return pinned

    def _known(self, file: Path) -> str:
        digest = digest_of(file)
        self._sources[digest] = file
        return digest

    def _folder(self, folder: Path) -> str:
        if folder not in self._runtime_dirs:
            with tempfile.TemporaryDirectory() as temporary:
                archive = Path(temporary) / "archive"
                pack_folder(folder, archive)
                digest = self._packed.take(archive)
            self._sources[digest] = self._packed.path(digest)
            self._runtime_dirs[folder] = digest
        return self._runtime_dirs[folder]


def unpack(parcel: ProbeParcel, home: Home, directory: Path) -> tuple[Stack, ProbeRequest]:
    """The stack and the request as they are at a host, where all that the parcel needs has come. `directory` is for
    logs and for what is kept of the run.

    Raises:
        UserError: the host lacks a program, or another version of this tool is there.
        OSError: there is no room.
    """
    _check_host(parcel)
    request, objects = parcel.request, Objects(home.objects)
    golden = None if request.golden is None else _golden(request.golden, home)
    case, options = request.case, request.options
    if parcel.runtime_dir is not None:
        folder = home.objects / f"{parcel.runtime_dir}.folder"
        if not folder.is_dir():
            with tempfile.TemporaryDirectory(dir=home.objects) as temporary:
                unpack_folder(objects.path(parcel.runtime_dir), Path(temporary) / "folder")
                _move_unless_there(Path(temporary) / "folder", folder)
        options = replace(options, runtime_dir=folder)
        if case is not None and case.path.is_absolute():
            case = replay_of(folder)
    if golden is not None and options.golden_data is not None:
        options = replace(options, golden_data=golden.directory)
    moved = replace(request, golden=golden, options=options, case=case, directory=directory)
    return _stack_at(parcel, home, objects), moved


def _check_host(parcel: ProbeParcel) -> None:
    here = version("precision-bisect")
    if here != parcel.version:
        raise UserError(
            f"expected precision-bisect {parcel.version}, as the driver has, found {here}; install it here"
        )
    for path in parcel.expected:
        if not Path(path).exists():
            raise UserError(
                f"{path}: expected the program that the case's command names, found none; install it here"
            )


def _golden(golden: FrozenGolden, home: Home) -> FrozenGolden:
    """Frozen data put together of its objects."""
    folder = home.golden / golden.digest
    if not folder.is_dir():
        home.golden.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=home.golden) as temporary:
            partial = Path(temporary) / golden.digest
            for name, digest in golden.files.items():
                target = partial / name
                target.parent.mkdir(parents=True, exist_ok=True)
                _link(Objects(home.objects).path(digest), target)
            _move_unless_there(partial, folder)
    return FrozenGolden(digest=golden.digest, directory=folder, files=golden.files)


def _link(source: Path, target: Path) -> None:
    source.chmod(0o444)
    target.hardlink_to(source)


def _move_unless_there(folder: Path, target: Path) -> None:
    """Put a folder in place, unless another probe of this host has just done so."""
    try:
        folder.rename(target)
    except OSError:
        if not target.is_dir():
            raise


def _stack_at(parcel: ProbeParcel, home: Home, objects: Objects) -> Stack:
    stack = parcel.stack
    repositories = {
        name: repository.model_copy(update={"path": Mirror(home, parcel.commits[name]).path})
        for name, repository in stack.repositories.items()
    }
    command = tuple(
        literal(str(_runnable(objects.path(parcel.scripts[word])))) if word in parcel.scripts else word
        for word in stack.case.command
    )
    case = stack.case.model_copy(update={"command": command})
    return stack.model_copy(update={"repositories": repositories, "case": case})


def _runnable(script: Path) -> Path:
    script.chmod(0o555)
    return script


def _own_files(stack: Stack) -> Iterator[tuple[str, Path]]:
    """The words of the case's command that name files of this machine, outside of any commit."""
    for word in stack.case.command:
        if placeholders(word):
            continue
        text = fill(word, {})
        if Path(text).is_absolute() and Path(text).is_file():
            yield word, Path(text)


def _is_script(file: Path) -> bool:
    """Whether a file is text that runs anywhere, and no program of this machine."""
    with file.open("rb") as stream:
        start = stream.read(len(_PROGRAM))
    return start != _PROGRAM and file.stat().st_size <= _LARGEST_SCRIPT
