"""Makes a probe at a host of a farm, in the host's own slot, from what the driver has sent.

`ProbeParcel` is a probe as it travels: its contents are named by content, and no path of the driver counts at a host.
`Objects` keeps files by their SHA-256. `Mirror` holds the commits of one of the driver's repositories. It keeps the
whole history, because a build may ask git about it; after the first pack only new commits travel. The functions whose
first argument is the host's home answer the driver: what is missing there, and how to send and fetch data.

`trim` bounds what hosts keep: it removes the oldest entries of a folder. A user of an entry holds a shared kernel lock
on it, which ends with its process. A young entry may still be on its way here.
"""

import contextlib
import fcntl
import hashlib
import os
import shutil
import tempfile
import time
import traceback
from collections.abc import Callable, Collection, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from importlib.metadata import version
from pathlib import Path

from filelock import FileLock

from ...store.durable_files import write_whole
from ..case.case import FrozenGolden
from ..case.preflight import frozen_build_case
from ..errors import UsageError, UserError, reason
from ..git import GitError, GitRepository
from ..overlays import list_patches
from ..pins import MissingSubmoduleError, is_initialized, list_submodules
from ..probe.build_cache import digest_of, pack_folder, unpack_folder
from ..probe.probe import Prober, ProbeRequest, ProbeResult
from ..process.run import Interrupt, InterruptedWorkError
from ..stack import Stack, fill, literal, placeholders
from ..workspace.content import StackContent
from ..workspace.home import Home
from ..workspace.slot import Workspace

_MIN_AGE = 3600.0
"""An entry that is younger than this many seconds is not removed, because a probe may be about to use it."""


@contextlib.contextmanager
def hold_entries(paths: Iterable[Path]) -> Generator[None]:
    """Keep `trim` from removing these paths. Raises `FileNotFoundError` where one has just been removed."""
    with contextlib.ExitStack() as held:
        for path in paths:
            descriptor = _open(path, held)
            fcntl.flock(descriptor, fcntl.LOCK_SH)
            # A file that was removed while the lock was awaited is now another file, or none.
            if not os.path.samestat(os.fstat(descriptor), path.stat()):
                raise FileNotFoundError(path)
            os.utime(path)
        yield


def trim(folder: Path, *, most_bytes: int) -> None:
    """Remove the oldest entries of a folder until the others have `most_bytes`, but none in use or young."""
    if not folder.is_dir():
        return
    entries = sorted((path.stat().st_mtime_ns, path) for path in folder.iterdir() if path.exists())
    sizes = {path: _size(path) for _, path in entries}
    total = sum(sizes.values())
    young = time.time_ns() - int(_MIN_AGE * 1e9)
    for touched, path in entries:
        if total <= most_bytes or touched > young:
            return
        if _try_remove(path):
            total -= sizes[path]


def _try_remove(path: Path) -> bool:
    with contextlib.ExitStack() as held:
        try:
            fcntl.flock(_open(path, held), fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            return False  # Somebody uses the entry, or has removed it.
        if path.is_dir():
            shutil.rmtree(path, ignore_errors=True)
        else:
            path.unlink(missing_ok=True)
    return not path.exists()


def _open(path: Path, stack: contextlib.ExitStack) -> int:
    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW)
    stack.callback(os.close, descriptor)
    return descriptor


def _size(path: Path) -> int:
    """Return the bytes of an entry. A file with several names counts in part for each."""
    files = path.rglob("*") if path.is_dir() else (path,)
    total = 0
    for file in files:
        with contextlib.suppress(OSError):
            status = file.lstat()
            total += status.st_size // status.st_nlink
    return total


_MAX_LISTED_COMMITS = 20
"""A host lists this number of commits as present. New packs usually build on one of the latest."""


@dataclass(frozen=True)
class NeededCommits:
    """The commits that a probe needs of one repository.

    `mirror` names the repository at hosts. `boundary` are the commits at which a shallow clone ends. `lost` are objects
    of the commits that the driver lacks, and cannot fetch.
    """

    mirror: str
    boundary: tuple[str, ...]
    hashes: str
    """The kind of commit ids, `sha1` or `sha256`."""
    commits: tuple[str, ...]
    lost: frozenset[str] = frozenset()

    @classmethod
    def from_clone(
        cls, clone: GitRepository, commits: Collection[str], *, lost: Collection[str], stack: str, name: str
    ) -> "NeededCommits":
        """Make the value from a driver's private clone of the repository `name`."""
        boundary = tuple(sorted(clone.shallow_commits))
        hashes = clone.run("rev-parse", "--show-object-format")
        # Histories that end at different commits stay separate: a mixture would be cut where one of them ends.
        end = f"-{hashlib.sha256(' '.join(boundary).encode()).hexdigest()[:12]}" if boundary else ""
        mirror = f"{stack}-{name}-{hashes}{end}"
        return cls(mirror, boundary, hashes, tuple(dict.fromkeys(commits)), frozenset(lost))


@dataclass(frozen=True)
class MissingCommits:
    """The needed commits that a host lacks, and some commits that it has."""

    commits: tuple[str, ...]
    has: tuple[str, ...]


class Mirror:
    """One repository at a host.

    A commit counts as present once all its objects are, but for those that the driver has lost.
    """

    def __init__(self, home: Home, needed: NeededCommits) -> None:
        self._needed = needed
        self.path = home.mirrors / needed.mirror
        self._whole = self.path / ".git" / "whole"

    def missing_commits(self) -> MissingCommits | None:
        """Return the needed commits that are missing; None where all are present."""
        commits = tuple(sha for sha in self._needed.commits if not self._is_complete(sha))
        return MissingCommits(commits, self._newest()) if commits else None

    def _is_complete(self, sha: str) -> bool:
        if (self._whole / sha).is_file():
            return True
        if not self._needed.lost:
            return False
        try:
            return self._needed.lost.issuperset(GitRepository(self.path).missing_objects("--no-walk", sha))
        except GitError:
            return False

    def _newest(self) -> tuple[str, ...]:
        if not self._whole.is_dir():
            return ()
        marks = sorted(self._whole.iterdir(), key=lambda mark: mark.stat().st_mtime_ns, reverse=True)
        return tuple(mark.name for mark in marks[:_MAX_LISTED_COMMITS])

    def add_pack(self, pack: Path) -> bool:
        """Add a pack, and return whether it completes the needed commits. Raises `OSError` and `GitError`."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with FileLock(self.path.with_name(f"{self.path.name}.lock")):
            repository = self._repository()
            repository.add_pack(pack)
            self._whole.mkdir(exist_ok=True)
            for sha in self._needed.commits:
                if not repository.missing_objects("--no-walk", sha):
                    (self._whole / sha).touch()
        return self.missing_commits() is None

    def _repository(self) -> GitRepository:
        repository = GitRepository(self.path)
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
    """Write a pack of what a host lacks, from a driver's clone. Raises `UserError`."""
    has: Sequence[str] = [sha for sha in missing.has if clone.has_commit(sha)]
    clone.write_pack(target, wanted=missing.commits, without=has)


PIECE_BYTES = 4 << 20
"""One message carries at most this many bytes. A scheduler holds whole messages in memory."""

_INCOMING_SUFFIX = ".incoming"


class Objects:
    """A folder of files, named by their SHA-256.

    Files come in pieces, and are present once their contents match their name.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def path(self, digest: str) -> Path:
        """Return the path of an object, present or not."""
        return self._folder / digest

    def has(self, digest: str) -> bool:
        """Return whether the whole object is present."""
        return self.path(digest).is_file()

    def receive(self, digest: str, sender: str, offset: int, piece: bytes) -> None:
        """Write a piece of an object that a sender began at offset 0.

        Raises:
            OSError: there is no room for it.
            UserError: pieces before it are missing.
        """
        self._folder.mkdir(parents=True, exist_ok=True)
        incoming = self._incoming_file(digest, sender)
        with incoming.open("wb" if offset == 0 else "ab") as file:
            if file.tell() != offset:
                raise UserError(f"{incoming}: expected {offset} bytes, found {file.tell()}; send it again")
            file.write(piece)

    def seal(self, digest: str, sender: str) -> None:
        """Add an object whose last piece has come.

        Raises:
            UserError: its contents do not match its name.
        """
        self.check_received(digest, sender).replace(self.path(digest))

    def check_received(self, digest: str, sender: str) -> Path:
        """Return the file of all pieces of a sender, which no other process uses.

        Raises:
            UserError: its contents do not match its name.
        """
        incoming = self._incoming_file(digest, sender)
        found = digest_of(incoming)
        if found != digest:
            incoming.unlink()
            raise UserError(f"{incoming}: expected the SHA-256 {digest}, found {found}; send it again")
        return incoming

    def abandon(self, digest: str, sender: str) -> None:
        """Remove the pieces of an object that will not become whole."""
        with contextlib.suppress(OSError):
            self._incoming_file(digest, sender).unlink()

    def take(self, file: Path) -> str:
        """Move a file in, and return its digest. Raises `OSError`."""
        digest = digest_of(file)
        self._folder.mkdir(parents=True, exist_ok=True)
        # The file may lie on another disk, so it is moved to a name beside the object first.
        incoming = self._incoming_file(digest, "own")
        shutil.move(file, incoming)
        incoming.replace(self.path(digest))
        return digest

    def _incoming_file(self, digest: str, sender: str) -> Path:
        return self._folder / f"{digest}.{sender}{_INCOMING_SUFFIX}"


_MAX_SCRIPT_BYTES = 1 << 20
"""A larger file of the command, in bytes, counts as a program and is not sent to other hosts."""
_PROGRAM = b"\x7fELF"


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
    """The object that holds the build directory of `--runtime-dir`."""
    scripts: Mapping[str, str]
    """Objects that hold the user's own scripts, by word of the case's command."""
    expected: tuple[str, ...]
    """Programs that the case's command names by their full path. A host must have them."""
    build_store: str | None
    """The URL of the builds that hosts share."""

    @property
    def objects(self) -> frozenset[str]:
        """Return all objects that the parcel needs."""
        golden = self.request.golden.files.values() if self.request.golden else ()
        folders = () if self.runtime_dir is None else (self.runtime_dir,)
        return frozenset((*golden, *folders, *self.scripts.values()))


class ParcelMaker:
    """Makes parcels at a driver, and knows where their objects lie there. It writes to `folder`."""

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
        portable = {word: file for word, file in words.items() if _is_script(file)}
        self._scripts = {word: self._register(file) for word, file in portable.items()}
        self._expected = tuple(str(file) for word, file in words.items() if word not in portable)

    def source(self, digest: str) -> Path:
        """Return the file that holds an object of a parcel."""
        return self._sources[digest]

    def clone(self, repository: str) -> GitRepository:
        """Return the repository that holds the commits of parcels."""
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
            expected=self._expected,
            build_store=self._build_store,
        )

    def _commits(self, name: str, request: ProbeRequest) -> NeededCommits:
        overlays = [overlay.commit for overlay in self._stack.repositories[name].overlays]
        there = [request.revisions[name]] if name in request.revisions else []
        own = [*there, *list_patches(request.revisions, name)]
        commits = [*own, *overlays]
        for sha in commits:
            self._workspace.ensure_commit(name, sha)
        if self._stack.repositories[name].submodules:
            commits += self._submodules(name, own)
        lost = self._workspace.fetch_missing(name, "--no-walk", *commits).missing if commits else ()
        return NeededCommits.from_clone(
            self.clone(name), commits, lost=lost, stack=self._stack.name, name=name
        )

    def _submodules(self, name: str, commits: Sequence[str]) -> list[str]:
        """Return the commits of submodules that commits of a repository pin.

        Raises `MissingSubmoduleError` where the checkout lacks one. A host could not distinguish such a submodule from
        one that the checkout never had.
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
            with tempfile.TemporaryDirectory() as temporary:
                archive = Path(temporary) / "archive"
                pack_folder(folder, archive)
                digest = self._packed.take(archive)
            self._sources[digest] = self._packed.path(digest)
            self._runtime_dirs[folder] = digest
        return self._runtime_dirs[folder]


def unpack(parcel: ProbeParcel, home: Home, directory: Path) -> tuple[Stack, ProbeRequest]:
    """Return the stack and the request as they are at a host that has the whole parcel.

    `directory` is for logs and for what is kept of the run.

    Raises:
        UserError: the host lacks a program, or has another version of this tool.
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
            case = frozen_build_case(folder)
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
    """Assemble frozen data from its objects."""
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
    """Move a folder into place, unless another probe of this host has just done so."""
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
    """Yield the words of the case's command that name files of this machine, outside any commit."""
    for word in stack.case.command:
        if placeholders(word):
            continue
        text = fill(word, {})
        if Path(text).is_absolute() and Path(text).is_file():
            yield word, Path(text)


def _is_script(file: Path) -> bool:
    """Return whether a file is text that runs anywhere, and no program of this machine."""
    with file.open("rb") as stream:
        start = stream.read(len(_PROGRAM))
    return start != _PROGRAM and file.stat().st_size <= _MAX_SCRIPT_BYTES


@dataclass(frozen=True)
class MissingContent:
    """The contents of a parcel that a host lacks."""

    commits: Mapping[str, MissingCommits]
    """The lacked commits, by repository."""
    objects: tuple[str, ...]

    def __bool__(self) -> bool:
        return bool(self.commits or self.objects)


def find_missing(home: Home, parcel: ProbeParcel) -> MissingContent:
    """Return what a host lacks for a probe."""
    lacked = {name: Mirror(home, needed).missing_commits() for name, needed in parcel.commits.items()}
    objects = Objects(home.objects)
    return MissingContent(
        commits={name: commits for name, commits in lacked.items() if commits is not None},
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
    """Add an object whose last piece has come. Raises `UserError`."""
    Objects(home.objects).seal(digest, sender)


def take_pack(home: Home, digest: str, sender: str, needed: NeededCommits) -> bool:
    """Add the commits of a pack whose last piece has come to their mirror, and return whether they are complete then.

    Raises `UserError`.

    Workers of one host may be sent the same pack at once. Each of these is a file of its own.
    """
    objects = Objects(home.objects)
    try:
        return Mirror(home, needed).add_pack(objects.check_received(digest, sender))
    except OSError as error:
        raise _no_room_error(home, error) from error
    finally:
        objects.abandon(digest, sender)


def result_archive(home: Home, key: str) -> Path:
    """Return the file that holds the result of a probe."""
    return home.probe_results / key / "kept"


def read_piece(home: Home, key: str, offset: int) -> bytes:
    """Return one message of a probe's result, from an offset on; empty at its end. Raises `OSError`."""
    with result_archive(home, key).open("rb") as file:
        file.seek(offset)
        return file.read(PIECE_BYTES)


def forget(home: Home, key: str) -> None:
    """Remove the result of a probe, which the driver has or does not want."""
    shutil.rmtree(home.probe_results / key, ignore_errors=True)


def _no_room_error(home: Home, error: OSError) -> UserError:
    return UserError(f"{error.filename or home.cache}: expected room to write here: {reason(error)}")


_SEND_TIMEOUT = 900.0
"""A driver has this many seconds to send what is missing. A driver that died may come back."""
_REPEAT_INTERVAL = 5.0
"""A host reports again after this many seconds that something is missing, because a report may be lost."""

OnSlot = Callable[[int, str], None]
"""Such a function is called with the number of a slot and its activity."""


@dataclass(frozen=True, kw_only=True)
class HostProbeResult:
    """The result of a probe at a host.

    Paths in `result` are the host's, below `directory`. The file whose digest is `kept` holds the whole directory.
    """

    key: str
    result: ProbeResult
    directory: Path
    kept: str


def attempt(make: Callable[[], HostProbeResult]) -> HostProbeResult | Exception | None:
    """Return an attempt to make a probe at a host as an engine carries it.

    That is the probe, None where it was stopped, or the reason why it cannot be made there.
    """
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
    """A host: its home, the variables that commands inherit there, and how many probes at most divide its cores."""

    home: Home
    variables: Mapping[str, str]
    max_probes: int

    def make(
        self,
        key: str,
        parcel: ProbeParcel,
        *,
        on_lack: Callable[[], None],
        on_activity: OnSlot,
        interrupt: Interrupt,
    ) -> HostProbeResult:
        """Make a probe, once all that it needs has come.

        Raises:
            UserError: it cannot be made here.
            InterruptedWorkError: a stop is asked for.
        """
        directory = self.home.probe_results / key / "run"
        try:
            with ExitStack() as held:
                directory.mkdir(parents=True, exist_ok=True)
                held.enter_context(hold_entries([directory.parent]))
                try:
                    self._await_contents(parcel, on_lack, interrupt, held)
                    self._trim(parcel.stack)
                    result = self._make(parcel, directory, on_activity, interrupt)
                    kept = result_archive(self.home, key)
                    pack_folder(directory, kept)
                    return HostProbeResult(key=key, result=result, directory=directory, kept=digest_of(kept))
                except BaseException:
                    forget(self.home, key)
                    raise
                finally:
                    shutil.rmtree(directory, ignore_errors=True)
        except OSError as error:
            raise UserError(
                f"{error.filename or self.home.cache}: expected to be able to write here: {reason(error)}"
            ) from error

    def _trim(self, stack: Stack) -> None:
        """Bound what is kept for drivers by the limit of the build cache."""
        for folder in (self.home.objects, self.home.probe_results):
            trim(folder, most_bytes=int(stack.limits.build_cache_gib * (1 << 30)))

    def _await_contents(
        self, parcel: ProbeParcel, on_lack: Callable[[], None], interrupt: Interrupt, held: ExitStack
    ) -> None:
        """Wait until the whole parcel has come, and hold its objects until `held` ends."""
        begun = time.monotonic()
        said = -_REPEAT_INTERVAL

        def has_come() -> bool:
            nonlocal said
            if not find_missing(self.home, parcel):
                objects = Objects(self.home.objects)
                # Without the lock another probe could have removed one just now.
                with contextlib.suppress(FileNotFoundError):
                    held.enter_context(
                        hold_entries(objects.path(digest) for digest in sorted(parcel.objects))
                    )
                    return True
            passed = time.monotonic() - begun
            if passed > _SEND_TIMEOUT:
                raise UserError(
                    "expected the driver to send what this host lacks, found it silent; resume there"
                )
            if passed - said >= _REPEAT_INTERVAL:
                said = passed
                on_lack()
            return False

        interrupt.wait(has_come)

    def _make(
        self, parcel: ProbeParcel, directory: Path, on_activity: OnSlot, interrupt: Interrupt
    ) -> ProbeResult:
        stack, request = unpack(parcel, self.home, directory)
        workspace = Workspace(stack, self.home)

        def tell(text: str) -> None:
            on_activity(prober.slot.index, text)

        frozen = request.options.runtime_dir
        with (
            hold_entries([] if frozen is None else [frozen]),
            Prober(
                workspace,
                StackContent(stack, workspace),
                self.home,
                on_activity=tell,
                variables=self.variables,
                max_probes=self.max_probes,
                interrupt=interrupt,
                build_store=parcel.build_store,
            ) as prober,
        ):
            return prober.probe(request)
