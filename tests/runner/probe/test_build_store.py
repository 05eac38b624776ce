"""Builds that machines leave for each other: in a folder, on S3, by HTTP; what they do not trust."""

from pathlib import Path

import pytest

from precision_bisect.runner.errors import UsageError
from precision_bisect.runner.probe.build_cache import BuildStore, BuildStoreError, check_build_store
from precision_bisect.runner.process.run import InterruptedWorkError
from tests.runner.probe.servers import ALL, SERVERS

LARGE = 12 << 20
"""Bytes that travel in several pieces, to S3 in parts."""


def opened(url: str) -> BuildStore:
    return BuildStore(url, check=lambda: None)


@pytest.mark.parametrize("kind", ALL)
@pytest.mark.parametrize("content", [b"", b"built", bytes(range(256)) * (LARGE // 256)], ids=len)
def test_what_one_machine_leaves_another_takes(
    kind: str, content: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_bytes(content)
    with SERVERS[kind](tmp_path, monkeypatch) as (written, read):
        assert not opened(written).has("key")
        assert not opened(read).get("key", tmp_path / "taken", max_bytes=LARGE)
        opened(written).put("key", tmp_path / "file")
        assert opened(written).has("key")
        assert opened(read).has("key")
        assert opened(read).get("key", tmp_path / "taken", max_bytes=LARGE)
        assert (tmp_path / "taken").read_bytes() == content
        assert not opened(read).has("other")


@pytest.mark.parametrize("kind", ALL)
def test_more_bytes_than_are_wanted_are_not_taken(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_bytes(b"x" * 1000)
    with SERVERS[kind](tmp_path, monkeypatch) as (written, read):
        opened(written).put("key", tmp_path / "file")
        with pytest.raises(BuildStoreError, match="expected at most 999 bytes, found 1000"):
            opened(read).get("key", tmp_path / "taken", max_bytes=999)


def the_object(root: Path) -> Path:
    (found,) = (root / "objects").iterdir()
    return found


@pytest.mark.parametrize("kind", ["folder", "web"])
@pytest.mark.parametrize("changed", [b"evil", b"", b"much longer than it was, and so on"])
def test_what_is_not_what_it_is_called_is_refused(
    kind: str, changed: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_bytes(b"good")
    with SERVERS[kind](tmp_path, monkeypatch) as (written, read):
        opened(written).put("key", tmp_path / "file")
        the_object(Path(written)).write_bytes(changed)
        with pytest.raises(BuildStoreError, match="expected"):
            opened(read).get("key", tmp_path / "taken", max_bytes=1000)


def test_what_was_tidied_away_is_not_there_and_is_left_again(tmp_path: Path) -> None:
    store = opened(str(tmp_path / "shared"))
    (tmp_path / "file").write_bytes(b"good")
    store.put("key", tmp_path / "file")
    the_object(tmp_path / "shared").unlink()
    assert not store.has("key")
    assert not store.get("key", tmp_path / "taken", max_bytes=1000)
    store.put("key", tmp_path / "file")
    assert store.get("key", tmp_path / "taken", max_bytes=1000)


def test_a_note_that_is_none_is_told(tmp_path: Path) -> None:
    (tmp_path / "shared" / "keys").mkdir(parents=True)
    for text in ("nonsense", '{"sha256": "../../etc/passwd", "bytes": 1}'):
        (tmp_path / "shared" / "keys" / "key").write_text(text)
        with pytest.raises(BuildStoreError):
            opened(str(tmp_path / "shared")).get("key", tmp_path / "taken", max_bytes=1000)


def test_a_folder_never_shows_the_half_of_a_file(tmp_path: Path) -> None:
    store = opened(str(tmp_path / "shared"))
    (tmp_path / "file").write_bytes(b"good")
    (tmp_path / "shared").mkdir()
    (tmp_path / "shared" / "objects").write_text("no folder")
    with pytest.raises(BuildStoreError):
        store.put("key", tmp_path / "file")
    assert [*(tmp_path / "shared").iterdir()] == [tmp_path / "shared" / "objects"]


@pytest.mark.parametrize("kind", ALL[1:])
def test_a_transfer_stops_where_it_is_not_wanted_any_more(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def stop() -> None:
        raise InterruptedWorkError

    (tmp_path / "file").write_bytes(b"x" * LARGE)
    with SERVERS[kind](tmp_path, monkeypatch) as (written, read):
        opened(written).put("key", tmp_path / "file")
        with pytest.raises(InterruptedWorkError):
            BuildStore(read, check=stop).get("key", tmp_path / "taken", max_bytes=LARGE)


def test_a_server_that_does_not_answer_is_told(tmp_path: Path) -> None:
    pytest.importorskip("aiohttp", reason="aiohttp is not installed")
    with pytest.raises(BuildStoreError, match=r"http://127\.0\.0\.1:9"):
        opened("http://127.0.0.1:9").has("key")


@pytest.mark.parametrize(
    ("url", "says"),
    [
        ("builds", "expected a full path"),
        ("gopher://host/builds", "unknown protocol gopher"),
        ("https://me:secret@host/builds", "without a name or password"),
    ],
)
def test_urls_that_are_refused(url: str, says: str) -> None:
    with pytest.raises(UsageError, match=says) as error:
        check_build_store(url)
    assert "secret@" not in str(error.value)


@pytest.mark.parametrize(
    "url", ["/shared/builds", "file:///shared", "s3://team/builds", "https://host/builds"]
)
def test_urls_that_are_taken(url: str) -> None:
    assert check_build_store(url) in ("file", "s3", "https")
