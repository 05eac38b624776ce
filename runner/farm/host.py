"""Makes a probe at a host of a farm, in the host's own slot, from what the driver has sent.

`ProbeParcel` is a probe as it travels: it names its contents by digests and commit ids. A host keeps files in
`Objects`, and the history of each repository in a `Mirror`. `HostMachine` makes the probe. The driver calls the
functions whose first argument is the host's home. `trim` removes the oldest files that a host keeps.
"""

import contextlib
import fcntl
import hashlib
import os
import tempfile
import time
import traceback
from collections.abc import Callable, Collection, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from importlib.metadata import version
from pathlib import Path

from filelock import FileLock

from ...store.durable_files import entries_below, try_remove_tree, write_whole
from ..case.case import FrozenGolden
from ..case.preflight import frozen_build_case
from ..errors import UsageError, UserError, reason
from ..git import GitError, GitRepository
from ..overlays import list_patches
from ..pins import MissingSubmoduleError, is_initialized, list_submodules
from ..probe.build_cache import digest_of, pack_folder, unpack_folder
from ..probe.probe import Prober, ProbeRequest, ProbeResult
from ..process.run import Interrupt, InterruptedWorkError
from ..stack import Stack, escape_braces, fill, placeholders
from ..workspace.content import StackContent
from ..workspace.home import Home
from ..workspace.slot import Workspace

_MIN_AGE = 3600.0
"""An entry that is younger than this many seconds is not removed, because a probe may be about to use it."""


@contextlib.contextmanager
def hold_entries(paths: Iterable[Path]) -> Generator[None]:
    """Prevent `trim` from removing these paths during the block. Raises `FileNotFoundError` where one is missing.

    The shared locks end with this process at the latest.
    """
    with contextlib.ExitStack() as locks:
        for path in paths:
            descriptor = _open(path, locks)
            fcntl.flock(descriptor, fcntl.LOCK_SH)
            # While this waited for the lock, the file may have been removed, and made again.
            if not os.path.samestat(os.fstat(descriptor), path.stat()):
                raise FileNotFoundError(path)
            os.utime(path)
        yield


def trim(folder: Path, *, max_bytes: int) -> None:
    """Remove the oldest entries of a folder until the others have `max_bytes`. Entries in use or young stay."""
    if not folder.is_dir():
        return
    entries = sorted((path.stat().st_mtime_ns, path) for path in folder.iterdir() if path.exists())
    sizes = {path: _size(path) for _, path in entries}
    total = sum(sizes.values())
    newest_removable = time.time_ns() - int(_MIN_AGE * 1e9)
    for modified, path in entries:
        if total <= max_bytes or modified > newest_removable:
            return
        if _try_remove(path):
            total -= sizes[path]


def _try_remove(path: Path) -> bool:
    """Remove an entry unless somebody uses it; return whether it is gone."""
    with contextlib.ExitStack() as locks:
        try:
            fcntl.flock(_open(path, locks), fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            return False  # Somebody uses the entry, or has removed it.
        if path.is_dir():
            try_remove_tree(path)
        else:
            path.unlink(missing_ok=True)
    return not path.exists()


def _open(path: Path, stack: contextlib.ExitStack) -> int:
    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW)
    stack.callback(os.close, descriptor)
    return descriptor


def _size(path: Path) -> int:
    """Return the bytes of an entry. A hard link has an equal share of its file."""
    total = 0
    with contextlib.suppress(OSError):
        for file in entries_below(path) if path.is_dir() else (path,):
            with contextlib.suppress(OSError):
                status = file.lstat()
                total += status.st_size // status.st_nlink
    return total


_MAX_LISTED_COMMITS = 20
"""A host lists at most this many commits that it has. New packs usually build on one of the latest."""


@dataclass(frozen=True)
class NeededCommits:
    """The commits that a probe needs of one repository."""

    mirror: str
    """The name of the repository at hosts."""
    boundary: tuple[str, ...]
    """The commits at which a shallow clone ends."""
    hashes: str
    """The kind of commit ids, `sha1` or `sha256`."""
    commits: tuple[str, ...]
    lost: frozenset[str] = frozenset()
    """The objects of the commits that the driver itself lacks."""

    @classmethod
    def from_clone(
        cls, clone: GitRepository, commits: Collection[str], *, lost: Collection[str], stack: str, name: str
    ) -> "NeededCommits":
        """Make the value from a driver's private clone of the repository `name`."""
        boundary = tuple(sorted(clone.shallow_commits))
        hashes = clone.object_format
        # A shallow file cuts all histories of a mirror, so histories with other boundaries have their own mirrors.
        end = f"-{hashlib.sha256(' '.join(boundary).encode()).hexdigest()[:12]}" if boundary else ""
        mirror = f"{stack}-{name}-{hashes}{end}"
        return cls(mirror, boundary, hashes, tuple(dict.fromkeys(commits)), frozenset(lost))


@dataclass(frozen=True)
class MissingCommits:
    """The needed commits that a host lacks, and some commits that it has."""

    commits: tuple[str, ...]
    has: tuple[str, ...]


class Mirror:
    """One repository at a host. It has the whole history of the needed commits, because a build may ask git about it.

    A commit is complete if all its objects are present, except those that the driver has lost.
    """

    def __init__(self, home: Home, needed: NeededCommits) -> None:
        self._needed = needed
        self.path = home.mirrors / needed.mirror
        self._marks = self.path / ".git" / "whole"
        """This folder has an empty file for each commit of which all objects are present."""

    def missing_commits(self) -> MissingCommits | None:
        """Return the needed commits that are not complete; None where all are."""
        commits = tuple(sha for sha in self._needed.commits if not self._is_complete(sha))
        return MissingCommits(commits, self._newest_commits()) if commits else None

    def _is_complete(self, sha: str) -> bool:
        if (self._marks / sha).is_file():
            return True
        if not self._needed.lost:
            return False
        try:
            return self._needed.lost.issuperset(GitRepository(self.path).missing_objects("--no-walk", sha))
        except GitError:
            return False

    def _newest_commits(self) -> tuple[str, ...]:
        """Return the commits that were completed last."""
        if not self._marks.is_dir():
            return ()
        marks = sorted(self._marks.iterdir(), key=lambda mark: mark.stat().st_mtime_ns, reverse=True)
        return tuple(mark.name for mark in marks[:_MAX_LISTED_COMMITS])

    def add_pack(self, pack: Path) -> bool:
        """Add a pack, and return whether all needed commits are complete then. Raises `OSError` and `GitError`."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with FileLock(self.path.with_name(f"{self.path.name}.lock")):
            repository = self._init_repository()
            repository.add_pack(pack)
            self._marks.mkdir(exist_ok=True)
            for sha in self._needed.commits:
                if not repository.missing_objects("--no-walk", sha):
                    (self._marks / sha).touch()
        return self.missing_commits() is None

    def _init_repository(self) -> GitRepository:
        """Make the repository, unless that was done before, and return it."""
        repository = GitRepository(self.path)
        # The last of the files written below marks a complete repository.
        if not (self.path / ".git" / "shallow.known").is_file():
            self.path.mkdir(exist_ok=True)
            # A template may bring hooks, so none is used.
            repository.run("init", "--quiet", "--template=", f"--object-format={self._needed.hashes}")
            repository.run("config", "gc.auto", "0")
            if self._needed.boundary:
                lines = "".join(f"{sha}\n" for sha in self._needed.boundary)
                write_whole(self.path / ".git" / "shallow", lines)
            (self.path / ".git" / "shallow.known").touch()
        return repository


def write_missing_pack(clone: GitRepository, missing: MissingCommits, target: Path) -> None:
    """Write a pack of the commits that a host lacks, from a driver's clone. Raises `UserError`."""
    shared = [sha for sha in missing.has if clone.has_commit(sha)]
    clone.write_pack(target, wanted=missing.commits, excluded=shared)


PIECE_BYTES = 4 << 20
"""One message carries at most this many bytes. A scheduler keeps whole messages in memory."""

_INCOMING_SUFFIX = ".incoming"


class Objects:
    """A folder of files, the objects, each named by its SHA-256.

    A file is received in pieces. Once its contents match its name, it is an object.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def path(self, digest: str) -> Path:
        """Return the path of an object, also of one that is not present."""
        return self._folder / digest

    def has(self, digest: str) -> bool:
        """Return whether an object is present."""
        return self.path(digest).is_file()

    def receive(self, digest: str, sender: str, offset: int, piece: bytes) -> None:
        """Write a piece of an object. A sender sends all its pieces in order.

        Raises:
            OSError: there is no room.
            UserError: an earlier piece is missing.
        """
        self._folder.mkdir(parents=True, exist_ok=True)
        incoming = self._incoming_file(digest, sender)
        with incoming.open("wb" if offset == 0 else "ab") as file:
            if file.tell() != offset:
                raise UserError(f"{incoming}: expected {offset} bytes, found {file.tell()}; send it again")
            file.write(piece)

    def seal(self, digest: str, sender: str) -> None:
        """Make an object of a sender's pieces. Raises `UserError` where they do not match its name."""
        self.check_received(digest, sender).replace(self.path(digest))

    def check_received(self, digest: str, sender: str) -> Path:
        """Return the file of a sender's pieces, which no other process uses.

        Raises `UserError` where the pieces do not match the object's name.
        """
        incoming = self._incoming_file(digest, sender)
        found = digest_of(incoming)
        if found != digest:
            incoming.unlink()
            raise UserError(f"{incoming}: expected the SHA-256 {digest}, found {found}; send it again")
        return incoming

    def abandon(self, digest: str, sender: str) -> None:
        """Remove a sender's pieces."""
        with contextlib.suppress(OSError):
            self._incoming_file(digest, sender).unlink()

    def _incoming_file(self, digest: str, sender: str) -> Path:
        return self._folder / f"{digest}.{sender}{_INCOMING_SUFFIX}"


_MAX_SCRIPT_BYTES = 1 << 20
"""A larger file counts as a program."""
_ELF_MAGIC = b"\x7fELF"
"""A program of Linux begins with these bytes."""


@dataclass(frozen=True, kw_only=True)
class ProbeParcel:
    """A probe of a stack, as it travels. Paths in `stack` and `request` are the driver's."""

    version: str
    """The driver's version of this tool."""
    stack: Stack
    request: ProbeRequest
    commits: Mapping[str, NeededCommits]
    """The needed commits, by repository."""
    runtime_dir: str | None
    """The digest of an archive of the build directory of `--runtime-dir`."""
    scripts: Mapping[str, str]
    """The digests of the user's own scripts, by word of the case's command."""
    programs: tuple[str, ...]
    """The full paths of programs in the case's command. A host must have them."""
    build_store: str | None
    """The URL of the builds that hosts share."""

    @property
    def objects(self) -> frozenset[str]:
        """Return the digests of all objects that the parcel needs."""
        golden = self.request.golden.files.values() if self.request.golden else ()
        folders = () if self.runtime_dir is None else (self.runtime_dir,)
        return frozenset((*golden, *folders, *self.scripts.values()))


class ParcelMaker:
    """Makes parcels at a driver, and finds their objects there."""

    def __init__(
        self, stack: Stack, workspace: Workspace, folder: Path, *, build_store: str | None = None
    ) -> None:
        """Archives are written to `folder`. `build_store` is the URL of the builds that hosts share."""
        self._build_store = build_store
        self._stack = stack
        self._workspace = workspace
        self._folder = folder
        self._sources: dict[str, Path] = {}
        """The file of each object, by digest."""
        self._runtime_dirs: dict[Path, str] = {}
        """The digests of the archives of build directories."""
        files = dict(_local_files(stack))
        scripts = {word: file for word, file in files.items() if _is_script(file)}
        self._scripts = {word: self._register(file) for word, file in scripts.items()}
        self._programs = tuple(str(file) for word, file in files.items() if word not in scripts)

    def source(self, digest: str) -> Path:
        """Return the file of an object."""
        return self._sources[digest]

    def clone(self, repository: str) -> GitRepository:
        """Return the private clone that has the commits of parcels."""
        return self._workspace.clones[repository]

    def parcel(self, request: ProbeRequest) -> ProbeParcel:
        """Make a parcel of a probe.

        Raises:
            UserError: a commit is missing, or a person is to run the case.
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
            runtime_dir=None if runtime_dir is None else self._pack_runtime_dir(runtime_dir),
            scripts=self._scripts,
            programs=self._programs,
            build_store=self._build_store,
        )

    def _commits(self, name: str, request: ProbeRequest) -> NeededCommits:
        """Return the commits that a probe needs of a repository. Raises `UserError`."""
        revision = [request.revisions[name]] if name in request.revisions else []
        tested = [*revision, *list_patches(request.revisions, name)]
        commits = [*tested, *(overlay.commit for overlay in self._stack.repositories[name].overlays)]
        for sha in commits:
            self._workspace.ensure_commit(name, sha)
        if self._stack.repositories[name].submodules:
            commits += self._submodules(name, tested)
        lost = self._workspace.fetch_missing(name, "--no-walk", *commits).missing if commits else ()
        return NeededCommits.from_clone(
            self.clone(name), commits, lost=lost, stack=self._stack.name, name=name
        )

    def _submodules(self, name: str, commits: Sequence[str]) -> list[str]:
        """Return the commits of submodules that commits of a repository pin. Raises `MissingSubmoduleError`.

        A host could not distinguish a submodule that lacks a commit from one that the checkout never had.
        """
        pinned: list[str] = []
        besides = self._stack.submodule_paths(name)
        for sha in commits:
            for submodule in list_submodules(self.clone(name), sha, besides=besides):
                if submodule.is_here:
                    pinned.append(submodule.commit)
                elif is_initialized(self._workspace.repositories[name], submodule):
                    raise MissingSubmoduleError(submodule, self._workspace.repositories[name])
        return pinned

    def _register(self, file: Path) -> str:
        digest = digest_of(file)
        self._sources[digest] = file
        return digest

    def _pack_runtime_dir(self, folder: Path) -> str:
        if folder not in self._runtime_dirs:
            self._folder.mkdir(parents=True, exist_ok=True)
            archive = self._folder / f"{len(self._runtime_dirs)}.archive"
            pack_folder(folder, archive)
            self._runtime_dirs[folder] = self._register(archive)
        return self._runtime_dirs[folder]


def unpack(parcel: ProbeParcel, home: Home, directory: Path) -> tuple[Stack, ProbeRequest]:
    """Return the stack and the request with paths of this host, which has the whole parcel.

    `directory` is the host's folder for the logs and the build directory of the run.

    Raises:
        UserError: the host lacks a program, or has another version of this tool.
        OSError: there is no room.
    """
    _check_host(parcel)
    request, objects = parcel.request, Objects(home.objects)
    golden = None if request.golden is None else _assemble_golden(request.golden, home)
    case, options = request.case, request.options
    if parcel.runtime_dir is not None:
        folder = home.objects / f"{parcel.runtime_dir}.folder"
        if not folder.is_dir():
            with tempfile.TemporaryDirectory(dir=home.objects) as temporary:
                unpack_folder(objects.path(parcel.runtime_dir), Path(temporary) / "folder")
                _move_unless_present(Path(temporary) / "folder", folder)
        options = replace(options, runtime_dir=folder)
        if case is not None and case.path.is_absolute():
            case = frozen_build_case(folder)
    if golden is not None and options.golden_data is not None:
        options = replace(options, golden_data=golden.directory)
    moved = replace(request, golden=golden, options=options, case=case, directory=directory)
    return _relocate_stack(parcel, home, objects), moved


def _check_host(parcel: ProbeParcel) -> None:
    installed = version("precision-bisect")
    if installed != parcel.version:
        raise UserError(
            f"expected precision-bisect {parcel.version}, as the driver has, found {installed}; install it here"
        )
    for path in parcel.programs:
        if not Path(path).exists():
            raise UserError(
                f"{path}: expected the program that the case's command names, found none; install it here"
            )


def _assemble_golden(golden: FrozenGolden, home: Home) -> FrozenGolden:
    """Return frozen data whose folder consists of hard links to objects. Like these, it is removed after a while."""
    folder = home.objects / f"{golden.digest}.golden"
    if not folder.is_dir():
        with tempfile.TemporaryDirectory(dir=home.objects) as temporary:
            partial = Path(temporary) / golden.digest
            for name, digest in golden.files.items():
                target = partial / name
                target.parent.mkdir(parents=True, exist_ok=True)
                source = Objects(home.objects).path(digest)
                source.chmod(0o444)
                target.hardlink_to(source)
            _move_unless_present(partial, folder)
    return FrozenGolden(digest=golden.digest, directory=folder, files=golden.files)


def _move_unless_present(folder: Path, target: Path) -> None:
    """Move a folder to `target`, unless another probe of this host has just done so."""
    try:
        folder.rename(target)
    except OSError:
        if not target.is_dir():
            raise


def _relocate_stack(parcel: ProbeParcel, home: Home, objects: Objects) -> Stack:
    """Return a parcel's stack with the paths of mirrors and scripts at this host."""
    stack = parcel.stack
    repositories = {
        name: repository.model_copy(update={"path": Mirror(home, parcel.commits[name]).path})
        for name, repository in stack.repositories.items()
    }
    command: list[str] = []
    for word in stack.case.command:
        if word in parcel.scripts:
            script = objects.path(parcel.scripts[word])
            script.chmod(0o555)
            command.append(escape_braces(str(script)))
        else:
            command.append(word)
    case = stack.case.model_copy(update={"command": tuple(command)})
    return stack.model_copy(update={"repositories": repositories, "case": case})


def _local_files(stack: Stack) -> Iterator[tuple[str, Path]]:
    """Yield the words of the case's command that are full paths of files on this machine, and the paths."""
    for word in stack.case.command:
        if placeholders(word):
            continue
        text = fill(word, {})
        if Path(text).is_absolute() and Path(text).is_file():
            yield word, Path(text)


def _is_script(file: Path) -> bool:
    """Return whether a file is a script, which runs on any host. A program may need the libraries of this host."""
    with file.open("rb") as stream:
        start = stream.read(len(_ELF_MAGIC))
    return start != _ELF_MAGIC and file.stat().st_size <= _MAX_SCRIPT_BYTES


@dataclass(frozen=True)
class MissingContent:
    """The contents of a parcel that a host lacks. It is false where the host lacks nothing."""

    commits: Mapping[str, MissingCommits]
    """The commits, by repository."""
    objects: tuple[str, ...]
    """The digests of the objects."""

    def __bool__(self) -> bool:
        return bool(self.commits or self.objects)


def find_missing(home: Home, parcel: ProbeParcel) -> MissingContent:
    """Return the contents of a parcel that a host lacks."""
    missing = {name: Mirror(home, needed).missing_commits() for name, needed in parcel.commits.items()}
    objects = Objects(home.objects)
    return MissingContent(
        commits={name: commits for name, commits in missing.items() if commits is not None},
        objects=tuple(sorted(digest for digest in parcel.objects if not objects.has(digest))),
    )


def receive(home: Home, digest: str, sender: str, offset: int, piece: bytes) -> None:
    """Receive a piece of an object. Raises `UserError`, also where there is no room."""
    objects = Objects(home.objects)
    try:
        objects.receive(digest, sender, offset, piece)
    except OSError as error:
        objects.abandon(digest, sender)
        raise _no_room_error(home, error) from error


def seal(home: Home, digest: str, sender: str) -> None:
    """Make an object of a sender's pieces, once all have been received. Raises `UserError`."""
    Objects(home.objects).seal(digest, sender)


def take_pack(home: Home, digest: str, sender: str, needed: NeededCommits) -> bool:
    """Add a received pack to the mirror, and return whether the needed commits are complete then.

    Raises `UserError`.
    """
    # Workers of one host may get the same pack at once, so the pack is used as this sender's file, and not sealed.
    objects = Objects(home.objects)
    try:
        return Mirror(home, needed).add_pack(objects.check_received(digest, sender))
    except OSError as error:
        raise _no_room_error(home, error) from error
    finally:
        objects.abandon(digest, sender)


def result_archive(home: Home, key: str) -> Path:
    """Return the file of an archived result."""
    return home.probe_results / key / "kept"


def read_piece(home: Home, key: str, offset: int) -> bytes:
    """Return one piece of an archived result, from an offset on; empty at its end. Raises `OSError`."""
    with result_archive(home, key).open("rb") as file:
        file.seek(offset)
        return file.read(PIECE_BYTES)


def forget(home: Home, key: str) -> None:
    """Remove the result of a probe, after the driver has fetched it or if it is not wanted."""
    try_remove_tree(home.probe_results / key)


def _no_room_error(home: Home, error: OSError) -> UserError:
    return UserError(f"{error.filename or home.cache}: expected room to write here: {reason(error)}")


_SEND_TIMEOUT = 900.0
"""A driver has this many seconds to send the missing contents. In this time, a driver that died may come back."""
_REPEAT_INTERVAL = 5.0
"""A host reports once in this many seconds that contents are missing, because a report may be lost."""

OnSlotActivity = Callable[[int, str], None]
"""Is called with the number of a slot and the current activity in it."""


@dataclass(frozen=True, kw_only=True)
class HostProbeResult:
    """The result of a probe at a host."""

    key: str
    """The key of the task."""
    result: ProbeResult
    """The result, with paths of the host."""
    directory: Path
    """The host's folder that had the files of the result."""
    archive_digest: str
    """The SHA-256 of the archive of that folder."""


def attempt(make: Callable[[], HostProbeResult]) -> HostProbeResult | Exception | None:
    """Make a probe; return its result, None where it was stopped, or an error that can travel to the driver."""
    try:
        return make()
    except InterruptedWorkError:
        return None
    except UserError as error:
        return error
    except Exception:
        return RuntimeError(traceback.format_exc())


@dataclass(frozen=True, kw_only=True)
class HostMachine:
    """A machine that makes probes for a driver."""

    home: Home
    variables: Mapping[str, str]
    """The variables that commands inherit."""
    max_probes: int
    """The greatest number of probes that divide the machine's cores."""

    def make(
        self,
        key: str,
        parcel: ProbeParcel,
        *,
        on_missing: Callable[[], None],
        on_activity: OnSlotActivity,
        interrupt: Interrupt,
    ) -> HostProbeResult:
        """Make a probe, after its contents have arrived. `on_missing` is called while they have not.

        Raises:
            UserError: the probe cannot be made here.
            InterruptedWorkError: a stop is asked for.
        """
        directory = self.home.probe_results / key / "run"
        try:
            with ExitStack() as locks:
                directory.mkdir(parents=True, exist_ok=True)
                locks.enter_context(hold_entries([directory.parent]))
                try:
                    self._await_contents(parcel, on_missing, interrupt, locks)
                    # The limit of the build cache also bounds what is kept for drivers.
                    max_bytes = int(parcel.stack.limits.build_cache_gib * (1 << 30))
                    for folder in (self.home.objects, self.home.probe_results):
                        trim(folder, max_bytes=max_bytes)
                    result = self._make(parcel, directory, on_activity, interrupt)
                    archive = result_archive(self.home, key)
                    pack_folder(directory, archive)
                    return HostProbeResult(
                        key=key, result=result, directory=directory, archive_digest=digest_of(archive)
                    )
                except BaseException:
                    forget(self.home, key)
                    raise
                finally:
                    try_remove_tree(directory)
        except OSError as error:
            raise UserError(
                f"{error.filename or self.home.cache}: expected to be able to write here: {reason(error)}"
            ) from error

    def _await_contents(
        self, parcel: ProbeParcel, on_missing: Callable[[], None], interrupt: Interrupt, locks: ExitStack
    ) -> None:
        """Wait until the contents of a parcel have arrived, and hold its objects until `locks` is closed."""
        begun = time.monotonic()
        next_report = 0.0

        def has_arrived() -> bool:
            nonlocal next_report
            if not find_missing(self.home, parcel):
                objects = Objects(self.home.objects)
                # Another probe may have removed an object since it was found.
                with contextlib.suppress(FileNotFoundError):
                    locks.enter_context(
                        hold_entries(objects.path(digest) for digest in sorted(parcel.objects))
                    )
                    return True
            elapsed = time.monotonic() - begun
            if elapsed > _SEND_TIMEOUT:
                raise UserError(
                    "expected the driver to send what this host lacks, found it silent; resume there"
                )
            if elapsed >= next_report:
                next_report = elapsed + _REPEAT_INTERVAL
                on_missing()
            return False

        interrupt.wait(has_arrived)

    def _make(
        self, parcel: ProbeParcel, directory: Path, on_activity: OnSlotActivity, interrupt: Interrupt
    ) -> ProbeResult:
        stack, request = unpack(parcel, self.home, directory)
        workspace = Workspace(stack, self.home)

        def report(text: str) -> None:
            on_activity(prober.slot.index, text)

        frozen = [request.options.runtime_dir, request.golden and request.golden.directory]
        with (
            hold_entries(filter(None, frozen)),
            Prober(
                workspace,
                StackContent(stack, workspace),
                self.home,
                on_activity=report,
                variables=self.variables,
                max_probes=self.max_probes,
                interrupt=interrupt,
                build_store=parcel.build_store,
            ) as prober,
        ):
            return prober.probe(request)
