"""The cache of build outputs: its bound, what is in use, and what killed processes leave."""

import shutil
import subprocess
from pathlib import Path

from precision_bisect.runner.probe.build_cache import BuildCache


def entry(cache: BuildCache, tmp_path: Path, key: str, *, size: int = 1000) -> None:
    output = tmp_path / "output"
    output.write_bytes(b"x" * size)
    with cache.claim(key):
        cache.save(key, [output])


def test_the_cache_is_bounded_and_keeps_what_was_used_last(tmp_path: Path) -> None:
    cache = BuildCache(tmp_path / "cache", limit=3500, interrupt=None)
    for key in "abc":
        entry(cache, tmp_path, key)
    restored = tmp_path / "restored"
    assert cache.restore("a", [restored])
    entry(cache, tmp_path, "d")
    assert [key for key in "abcd" if cache.restore(key, [restored])] == ["a", "c", "d"]
    entry(cache, tmp_path, "huge", size=10_000)
    assert [key for key in ("a", "c", "d", "huge") if cache.restore(key, [restored])] == ["huge"]


def test_an_entry_in_use_is_not_removed(tmp_path: Path) -> None:
    cache = BuildCache(tmp_path / "cache", limit=1, interrupt=None)
    entry(cache, tmp_path, "a")
    with BuildCache(tmp_path / "cache", limit=1, interrupt=None).claim("a"):
        entry(cache, tmp_path, "b")
        assert cache.restore("a", [tmp_path / "restored"])
    entry(cache, tmp_path, "c")
    assert not cache.restore("a", [tmp_path / "restored"])


def test_what_killed_processes_left_in_the_cache_is_removed(tmp_path: Path) -> None:
    cache = BuildCache(tmp_path / "cache", limit=10_000, interrupt=None)
    entry(cache, tmp_path, "a")
    for left in ("b.incoming", "c.outgoing"):
        shutil.copytree(tmp_path / "cache" / "a", tmp_path / "cache" / left)
        (tmp_path / "cache" / left / "size").unlink()
    assert not cache.restore("c", [tmp_path / "restored"])
    entry(cache, tmp_path, "d")
    assert sorted(path.name for path in (tmp_path / "cache").iterdir()) == ["a", "d", "locks"]


def test_outputs_that_nest_deeper_than_calls_are_not_kept(tmp_path: Path) -> None:
    cache = BuildCache(tmp_path / "cache", limit=10_000, interrupt=None)
    output = tmp_path / "output"
    subprocess.run(["mkdir", "-p", output.joinpath(*["n"] * 1200)], check=True)
    with cache.claim("deep"):
        cache.save("deep", [output])
    subprocess.run(["rm", "-rf", output], check=True)
    assert not cache.restore("deep", [tmp_path / "restored"])
    assert [path.name for path in (tmp_path / "cache").iterdir()] == ["locks"]


def test_entries_in_use_make_the_others_go(tmp_path: Path) -> None:
    cache = BuildCache(tmp_path / "cache", limit=2500, interrupt=None)
    for key in "ab":
        entry(cache, tmp_path, key)
    with BuildCache(tmp_path / "cache", limit=1, interrupt=None).claim("a"):
        entry(cache, tmp_path, "c")
    assert sorted(path.name for path in (tmp_path / "cache").iterdir()) == ["a", "c", "locks"]
