"""Nothing outside of a folder is read."""

import os

import pytest

from precision_bisect.runner.build_output import files as folder_module
from precision_bisect.runner.build_output.files import (
    FileTooLargeError,
    Folder,
    MalformedFileError,
    MissingFileError,
    UnsafePathError,
    file_format,
    first_difference,
    require_memory,
)


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "secret").write_text("secret")
    inside = tmp_path / "build"
    (inside / "sub").mkdir(parents=True)
    (inside / "a").write_bytes(b"abc")
    (inside / "sub" / "link").symlink_to("../a")
    (inside / "out").symlink_to(tmp_path / "secret")
    (inside / "outdir").symlink_to(tmp_path)
    (inside / "loop").symlink_to("loop")
    return Folder.open(inside, expected="a build")


def test_reads_files_and_links_inside(folder):
    assert folder.read("a", expected="a", limit=3) == b"abc"
    assert folder.read("sub/link", expected="a", limit=3) == b"abc"
    assert folder.read_part("sub/../a", start=1, size=2, expected="a").tobytes() == b"bc"
    assert folder.names() == ["a", "loop", "out", "outdir", "sub"]


@pytest.mark.parametrize(
    "path", ["../secret", "out", "outdir/secret", "/etc/passwd", "sub/../../secret", "a\0b", "a\ud800"]
)
def test_refuses_everything_outside(folder, path):
    for read in (
        folder.locate,
        lambda p: folder.read(p, expected="x", limit=9),
        lambda p: folder.read_part(p, start=0, size=1, expected="x"),
    ):
        with pytest.raises(UnsafePathError):
            read(path)
    assert not folder.has_file(path)


def test_a_tree_has_every_file_inside_and_names_what_it_does_not_follow(folder):
    os.mkfifo(folder.root / "sub" / "pipe")
    (folder.root / "sub" / "up").symlink_to("..")
    (folder.root / "twin").symlink_to("sub")
    (folder.root / "gone").symlink_to("nothing")
    tree = folder.tree(lambda path: "by name" if path == "twin/pipe" else "")
    assert tree.files == ["a", "sub/link", "twin/link"]
    assert tree.folders == ["", "sub", "twin"]
    assert {path: refusal.found.partition(" to /")[0] for path, refusal in tree.refused.items()} == {
        "gone": "a link to nothing",
        "loop": f"Symlink loop from '{folder.root / 'loop'}'",
        "out": "a link",
        "outdir": "a link",
        "sub/pipe": "a pipe",
        "sub/up": "a link to a folder that contains it",
        "twin/up": "a link to a folder that contains it",
    }
    assert tree.left_out == {"twin/pipe": "by name"}


def test_a_tree_does_not_grow_without_end(folder, monkeypatch):
    """Two folders full of links to each other have more paths than anyone can read."""
    for name in ("one", "two"):
        (folder.root / name).mkdir()
        for number in range(5):
            (folder.root / name / f"link{number}").symlink_to("../two" if name == "one" else "../one")
    monkeypatch.setattr(folder_module, "MAX_ENTRIES", 30)
    with pytest.raises(FileTooLargeError, match="at most 30 files and folders"):
        folder.tree(lambda _path: "")


def test_a_folder_that_cannot_be_listed_is_named(folder, monkeypatch):
    listed = os.scandir

    def list_all_but_one(path):
        if path.name == "sub":
            raise PermissionError(13, "Permission denied")
        return listed(path)

    monkeypatch.setattr(os, "scandir", list_all_but_one)
    assert folder.tree(lambda _path: "").refused["sub"].found == (
        "a folder that cannot be listed (Permission denied)"
    )


@pytest.mark.parametrize(
    ("content", "found"),
    [
        (b"", "an empty file"),
        (b"words", "a text file"),
        (b"\x93NUMPY\x01\x00", "an array of numpy.save"),
        (b"\x02\0\0\0\0\0\0\0{}", "a safetensors file"),
        (b"\xff\0\0\0\0\0\0\0{}", None),
        (b"PK\x03\x04rest", "a zip archive"),
        (b"\x80\x02\x8a\nl\xfc", "a pickle, as torch.save made before torch 1.6"),
        (b"\x80\x04\x95", "a pickle"),
        (b"\x00\x01\x02", None),
        (b"A\xff\xfe\x80" * 10_000, None),
        ("x" + "\N{EURO SIGN}" * 10_000, "a text file"),
        ("\N{EURO SIGN}".encode()[:2], None),
    ],
)
def test_formats_are_told_by_how_a_file_begins(tmp_path, content, found):
    (tmp_path / "file").write_bytes(content if isinstance(content, bytes) else content.encode())
    assert file_format(tmp_path / "file") == found


@pytest.mark.parametrize(
    ("one", "other", "place"),
    [
        (b"", b"", None),
        (b"same", b"same", None),
        (b"same", b"sAme", 1),
        (b"same", b"same and more", 4),
        (b"", b"x", 0),
        (bytes(2**20 + 7), bytes(2**20 + 6) + b"x", 2**20 + 6),
        (bytes(2**20), bytes(2**20 + 1), 2**20),
    ],
)
def test_the_first_byte_that_differs(tmp_path, one, other, place):
    (tmp_path / "one").write_bytes(one)
    (tmp_path / "other").write_bytes(other)
    assert first_difference(tmp_path / "one", tmp_path / "other") == place
    assert first_difference(tmp_path / "other", tmp_path / "one") == place


def test_refuses_what_is_no_regular_file(folder):
    os.mkfifo(folder.root / "pipe")
    for name in ("pipe", "sub"):
        with pytest.raises(UnsafePathError, match="regular file"):
            folder.read(name, expected="x", limit=9)
    with pytest.raises((UnsafePathError, MissingFileError)):
        folder.read("loop", expected="x", limit=9)


def test_a_file_that_grows_while_it_is_read_is_refused(folder, monkeypatch):
    found = Folder.find

    def find_and_grow(self, relative, *, expected):
        located = found(self, relative, expected=expected)
        located[0].write_bytes(b"abcd")
        return located

    monkeypatch.setattr(Folder, "find", find_and_grow)
    with pytest.raises(FileTooLargeError, match="the file has grown"):
        folder.read("a", expected="x", limit=3)


def test_a_link_that_cannot_be_followed_is_not_one_to_nothing(folder, monkeypatch):
    (folder.root / "far").symlink_to("sub")
    located = Folder.locate

    def refuse(self, relative):
        if str(relative) == "far":
            raise PermissionError(13, "Permission denied")
        return located(self, relative)

    monkeypatch.setattr(Folder, "locate", refuse)
    assert (
        folder.tree(lambda _path: "").refused["far"].found == "a file that cannot be read (Permission denied)"
    )


def test_memory_is_enough_where_the_kernel_does_not_tell_it(tmp_path, monkeypatch):
    (tmp_path / "meminfo").write_text("MemTotal: 9 kB\n")
    monkeypatch.setattr(folder_module, "Path", lambda _path: tmp_path / "meminfo")
    require_memory(tmp_path, 2**60)
    (tmp_path / "meminfo").write_text("MemTotal: 9 kB\nMemAvailable: 9 kB\n")
    with pytest.raises(FileTooLargeError, match="9216 left on this machine"):
        require_memory(tmp_path, 2**60)


def test_size_limit_and_missing_files(folder):
    with pytest.raises(FileTooLargeError, match="3 bytes"):
        folder.read("a", expected="x", limit=2)
    with pytest.raises(MissingFileError, match="a thing"):
        folder.read("none", expected="a thing", limit=2)
    with pytest.raises(MissingFileError):
        Folder.open(folder.root / "a", expected="a folder")


def test_a_part_behind_the_end_is_an_error(folder):
    with pytest.raises(MalformedFileError, match=r"3 bytes from byte 1 on, found 2: the file was cut short"):
        folder.read_part("a", start=1, size=3, expected="payloads")


def test_a_link_that_leads_out_is_called_a_link(folder, tmp_path):
    assert folder.is_link("out")
    with pytest.raises(UnsafePathError, match=f"found a link to {tmp_path / 'secret'}; put the file itself"):
        folder.locate("out")


def test_the_folder_itself_may_be_a_link(folder, tmp_path):
    (tmp_path / "alias").symlink_to("build")
    assert Folder.open(tmp_path / "alias", expected="a build").read("a", expected="x", limit=9) == b"abc"


def test_a_path_that_is_too_long_is_refused_as_any_other(folder):
    for path in ("../" * 2000 + "secret", "x" * 5000):
        assert not folder.has_file(path)
        with pytest.raises((UnsafePathError, MissingFileError)):
            folder.read(path, expected="x", limit=9)
