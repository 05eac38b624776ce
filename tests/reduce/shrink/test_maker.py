"""What the reference put out is kept once, whoever computes it."""

from __future__ import annotations

from pathlib import Path

from precision_bisect.reduce.shrink.oracle import copy_atomically


def test_what_two_runs_compute_at_once_is_kept_once(tmp_path: Path) -> None:
    for name in ("first", "second"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "y.pt").write_text(name)
        copy_atomically(tmp_path / name, tmp_path / "computed" / "digest")
    assert (tmp_path / "computed" / "digest" / "y.pt").read_text() == "first"
    assert [one.name for one in (tmp_path / "computed").iterdir()] == ["digest"]
