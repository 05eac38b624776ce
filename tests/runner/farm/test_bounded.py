"""Bounds on what hosts keep: the oldest go, what is in use stays."""

import os
import time
from pathlib import Path

import pytest

from precision_bisect.runner.farm.host import hold_entries, trim


def entry(folder: Path, name: str, *, hours: float, size: int = 100) -> Path:
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"x" * size)
    when = time.time() - hours * 3600
    for each in (path, *[parent for parent in path.parents if folder in parent.parents]):
        os.utime(each, (when, when))
    return path


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_the_oldest_go_until_the_others_fit(tmp_path: Path) -> None:
    for hours, name in enumerate("abcd", 2):
        entry(tmp_path, name, hours=hours)
    trim(tmp_path, max_bytes=250)
    assert names(tmp_path) == ["a", "b"]
    trim(tmp_path, max_bytes=250)
    assert names(tmp_path) == ["a", "b"]


def test_a_folder_is_an_entry(tmp_path: Path) -> None:
    entry(tmp_path, "probe/kept", hours=3, size=1000)
    entry(tmp_path, "other/kept", hours=2, size=1000)
    trim(tmp_path, max_bytes=1000)
    assert names(tmp_path) == ["other"]


def test_what_is_young_or_in_use_stays(tmp_path: Path) -> None:
    used, young = entry(tmp_path, "used", hours=5), entry(tmp_path, "young", hours=0.1)
    entry(tmp_path, "idle", hours=4)
    with hold_entries([used]):
        os.utime(used, (0, 0))
        trim(tmp_path, max_bytes=0)
        assert names(tmp_path) == ["used", "young"]
    trim(tmp_path, max_bytes=0)
    assert names(tmp_path) == [young.name]


def test_use_makes_young(tmp_path: Path) -> None:
    used = entry(tmp_path, "used", hours=5)
    with hold_entries([used]):
        pass
    trim(tmp_path, max_bytes=0)
    assert names(tmp_path) == ["used"]


def test_what_is_gone_cannot_be_held(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError), hold_entries([tmp_path / "gone"]):
        pass


def test_a_folder_that_is_not_there_has_nothing(tmp_path: Path) -> None:
    trim(tmp_path / "none", max_bytes=0)
    assert names(tmp_path) == []
