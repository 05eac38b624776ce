"""What two machines' caches share by way of a store: which builds travel, and which do not."""

import io
import tarfile
from pathlib import Path

import pytest

from precision_bisect.runner.probe import build_cache
from precision_bisect.runner.probe.build_cache import (
    ArchiveError,
    BuildCache,
    BuildStore,
    SharedBuilds,
    unpack_whole,
)

LIMIT = 1 << 20


class Machine:
    """A cache in a folder of its own, and a slot."""

    def __init__(self, folder: Path, url: str, *, limit: int = LIMIT) -> None:
        self.folder = folder
        self.output = folder / "slots" / "0" / "output"
        self.output.parent.mkdir(parents=True, exist_ok=True)
        shared = SharedBuilds(BuildStore(url, check=lambda: None), own=folder, max_bytes=limit)
        self.cache = BuildCache(folder / "builds", limit=limit, interrupt=None, shared=shared)

    def build(self, key: str = "key") -> None:
        with self.cache.claim(key):
            self.cache.save(key, [self.output])

    def takes(self, key: str = "key") -> bool:
        self.cache.begin()
        with self.cache.claim(key):
            return self.cache.restore(key, [self.output])


@pytest.fixture(name="pair")
def make_pair(tmp_path: Path) -> tuple[Machine, Machine]:
    url = str(tmp_path / "shared")
    return Machine(tmp_path / "a", url), Machine(tmp_path / "b", url)


def test_a_build_of_one_machine_serves_another(pair: tuple[Machine, Machine]) -> None:
    a, b = pair
    (a.output / "lib").mkdir(parents=True)
    (a.output / "lib" / "tool").write_text("#!/bin/sh\necho built\n")
    (a.output / "lib" / "tool").chmod(0o755)
    (a.output / "tool").symlink_to("lib/tool")
    a.build()
    assert b.takes()
    assert (b.output / "tool").readlink() == Path("lib/tool")
    assert (b.output / "tool").read_text() == "#!/bin/sh\necho built\n"
    assert (b.output / "lib" / "tool").stat().st_mode & 0o777 == 0o755
    assert b.cache.trouble is None
    assert not b.takes("other")


def test_what_was_taken_stays_in_the_cache(pair: tuple[Machine, Machine], tmp_path: Path) -> None:
    a, b = pair
    a.output.write_text("built")
    a.build()
    assert b.takes()
    (tmp_path / "shared").rename(tmp_path / "gone")
    b.output.unlink()
    assert b.takes()
    assert b.output.read_text() == "built"


def test_a_build_on_its_way_is_not_removed(
    pair: tuple[Machine, Machine], monkeypatch: pytest.MonkeyPatch
) -> None:
    a, b = pair
    a.output.write_text("built")
    a.build()
    other = Machine(b.folder, str(b.folder.parent / "shared"))
    other.output = b.folder / "other"
    other.output.write_text("another build")
    pack, unpack = build_cache.pack_folder, build_cache.unpack_whole

    def build_meanwhile(key: str) -> None:
        monkeypatch.undo()
        other.build(key)

    def slow_unpack(archive: Path, folder: Path, *, max_bytes: int) -> None:
        build_meanwhile("while b fetches")
        unpack(archive, folder, max_bytes=max_bytes)

    def slow_pack(folder: Path, archive: Path) -> None:
        build_meanwhile("while b offers")
        pack(folder, archive)

    monkeypatch.setattr(build_cache, "unpack_whole", slow_unpack)
    assert b.takes()
    monkeypatch.setattr(build_cache, "pack_folder", slow_pack)
    b.build("offered")
    assert b.cache.trouble is None
    assert a.takes("offered")


@pytest.mark.parametrize("at", [0, (1 << 20) - 3, (1 << 20) + 5])
def test_outputs_that_name_their_machine_s_folders_stay_where_these_are_the_same(
    pair: tuple[Machine, Machine], at: int, tmp_path: Path
) -> None:
    a, b = pair
    a.output.write_bytes(b"x" * at + bytes(a.folder) + b"/slots/0/lib" + b"y" * 100)
    a.build()
    assert not b.takes()
    a.folder.rename(tmp_path / "was a")
    again = Machine(a.folder, str(tmp_path / "shared"), limit=2 << 20)
    assert again.takes()


@pytest.mark.parametrize("target", ["/usr/bin/env", "../outside", "../../1/output"])
def test_a_link_that_leads_out_keeps_a_build_here(pair: tuple[Machine, Machine], target: str) -> None:
    a, b = pair
    a.output.mkdir()
    (a.output / "link").symlink_to(target)
    a.build()
    assert not b.takes()
    assert a.takes()


def test_a_store_that_is_of_no_use_is_told_and_costs_nothing_else(tmp_path: Path) -> None:
    (tmp_path / "shared").write_text("no folder")
    machine = Machine(tmp_path / "a", str(tmp_path / "shared"))
    machine.output.write_text("built")
    machine.build()
    assert machine.cache.trouble is not None
    assert "NotADirectoryError" in machine.cache.trouble
    machine.output.unlink()
    assert machine.takes()
    assert machine.cache.trouble is None


def archive_of(file: Path, *members: tuple[tarfile.TarInfo, bytes]) -> Path:
    with tarfile.open(file, "w:gz") as tar:
        for member, content in members:
            member.size = len(content)
            tar.addfile(member, io.BytesIO(content))
    return file


def link(name: str, target: str) -> tarfile.TarInfo:
    member = tarfile.TarInfo(name)
    member.type, member.linkname = tarfile.SYMTYPE, target
    return member


def device(name: str) -> tarfile.TarInfo:
    member = tarfile.TarInfo(name)
    member.type = tarfile.CHRTYPE
    return member


def with_header(name: str, value: str) -> tarfile.TarInfo:
    member = tarfile.TarInfo("0")
    member.pax_headers = {name: value}
    return member


def hard_link(name: str, target: str) -> tarfile.TarInfo:
    member = tarfile.TarInfo(name)
    member.type, member.linkname = tarfile.LNKTYPE, target
    return member


HOSTILE = {
    "above": [(tarfile.TarInfo("../evil"), b"evil")],
    "link": [(link("0", ".."), b""), (tarfile.TarInfo("0/evil"), b"evil")],
    "absolute": [(link("0", "/etc/passwd"), b"")],
    "device": [(device("0"), b"")],
    "large": [(tarfile.TarInfo("0"), b"0" * 2 * LIMIT)],
    "nul": [(with_header("path", "0\0"), b"")],
    "time": [(with_header("mtime", "1e400"), b"")],
    "map": [(with_header("GNU.sparse.map", "a,b"), b"x")],
    "hard link": [(hard_link("0", "1"), b"")],
    "deep": [(tarfile.TarInfo("0/" * 1500 + "0"), b"")],
}


@pytest.mark.parametrize("kind", HOSTILE)
def test_a_hostile_build_is_not_taken(kind: str, pair: tuple[Machine, Machine], tmp_path: Path) -> None:
    file = archive_of(tmp_path / "archive", *HOSTILE[kind])
    _, b = pair
    BuildStore(str(tmp_path / "shared"), check=lambda: None).put("key", file)
    assert not b.takes()
    assert b.cache.trouble is not None
    assert not [*tmp_path.rglob("evil")]
    assert sorted(path.name for path in (b.folder / "builds").iterdir()) == ["locks"]


def test_a_build_of_other_outputs_is_not_taken(pair: tuple[Machine, Machine], tmp_path: Path) -> None:
    _, b = pair
    file = archive_of(tmp_path / "archive", (tarfile.TarInfo("1"), b"x"), (tarfile.TarInfo("size"), b"1"))
    BuildStore(str(tmp_path / "shared"), check=lambda: None).put("key", file)
    assert not b.takes()
    assert b.cache.trouble is not None


@pytest.mark.parametrize("content", [b"no archive", b"\x1f\x8b\x08\x00 cut", b""])
def test_what_is_no_archive(content: bytes, tmp_path: Path) -> None:
    (tmp_path / "archive").write_bytes(content)
    with pytest.raises(ArchiveError):
        unpack_whole(tmp_path / "archive", tmp_path / "folder", max_bytes=1000)
