"""Nothing outside of a folder is read."""

import os

import pytest

from precision_bisect.runner.build_output.files.errors import (
    FileTooLargeError,
    MalformedFileError,
    MissingFileError,
    UnsafePathError,
)
from precision_bisect.runner.build_output.files.folder import Folder


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
    "path", ["../secret", "out", "outdir/secret", "/etc/passwd", "sub/../../secret", "a\0b"]
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


def test_refuses_what_is_no_regular_file(folder):
    os.mkfifo(folder.root / "pipe")
    for name in ("pipe", "sub"):
        with pytest.raises(UnsafePathError, match="regular file"):
            folder.read(name, expected="x", limit=9)
    with pytest.raises((UnsafePathError, MissingFileError)):
        folder.read("loop", expected="x", limit=9)


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
