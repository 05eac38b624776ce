"""What the compiler made differently, told from what differs in every build."""

from __future__ import annotations

from pathlib import Path

from precision_bisect.runner.build_output.directory import BuildDirectory, compare_generated


def build(folder: Path, files: dict[str, str]) -> BuildDirectory:
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text.replace("@ROOT@", str(folder)))
    return BuildDirectory.open(folder)


def test_times_addresses_and_own_paths_do_not_count(tmp_path: Path) -> None:
    text = "// made in @ROOT@ at 2026-08-0{0} 10:00:00, _jit_x_2026080{0}_100000, <Node at 0x7f{0}>\n"
    ours = build(tmp_path / "a", {"kernel_config.py": "", "kernels/aiv/x.cpp": text.format(1)})
    theirs = build(tmp_path / "b", {"kernel_config.py": "", "kernels/aiv/x.cpp": text.format(2)})
    found = compare_generated(ours, theirs)
    assert found.is_empty
    assert found.first_pass is None


def test_sources_that_differ_and_the_first_pass(tmp_path: Path) -> None:
    shared = {"kernel_config.py": "KERNELS = []\n", "passes_dump/00_frontend.py": "a\n"}
    ours = build(
        tmp_path / "a",
        {
            **shared,
            "kernels/aiv/x.cpp": "1\n",
            "kernels/aic/new.cpp": "",
            "passes_dump/01_after_Fuse.py": "a\nb\n",
            "passes_dump/02_after_Tile.py": "x\n",
        },
    )
    theirs = build(
        tmp_path / "b",
        {
            **shared,
            "kernels/aiv/x.cpp": "2\n",
            "orchestration/old.cpp": "",
            "passes_dump/01_after_Fuse.py": "a\nc\n",
            "passes_dump/02_after_Tile.py": "y\n",
        },
    )
    found = compare_generated(ours, theirs)
    assert found.differing == ("kernels/aiv/x.cpp",)
    assert found.only_failing == ("kernels/aic/new.cpp",)
    assert found.only_reference == ("orchestration/old.cpp",)
    assert found.first_pass is not None
    assert (found.first_pass.number, found.first_pass.name) == (1, "Fuse")
    assert "-c\n+b" in found.first_pass.diff


def test_a_link_that_leads_in_a_circle_ends(tmp_path: Path) -> None:
    ours = build(tmp_path / "a", {"kernel_config.py": "", "kernels/aiv/x.cpp": "1\n"})
    (tmp_path / "a" / "kernels" / "again").symlink_to(tmp_path / "a" / "kernels")
    assert compare_generated(ours, ours).is_empty
