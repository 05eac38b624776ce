"""Frozen golden data: what comes in, what is refused, and what is noticed later."""

import os
import pickle
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from precision_bisect.runner.case.case import FrozenGolden, freeze, load_frozen
from precision_bisect.runner.errors import UserError


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """A sound golden folder, with files in it that are none of ours."""
    folder = tmp_path / "data"
    for name in ("in/x", "in/scalar", "out/y"):
        file = folder / f"{name}.pt"
        file.parent.mkdir(parents=True, exist_ok=True)
        torch.save(torch.arange(6.0).reshape(2, 3), file)
    (folder / "in" / "notes.txt").write_text("x")
    (folder / "in" / "more").mkdir()
    (folder / "other").mkdir()
    return folder


@pytest.fixture
def store(tmp_path: Path) -> Path:
    """Where frozen data are kept."""
    return tmp_path / "store"


def test_freeze_and_thaw(data: Path, store: Path) -> None:
    frozen = freeze(data, store)
    assert sorted(frozen.files) == ["in/scalar.pt", "in/x.pt", "out/y.pt"]
    assert sorted(path.name for path in frozen.directory.rglob("*.*")) == ["scalar.pt", "x.pt", "y.pt"]
    for name in frozen.files:
        assert (frozen.directory / name).read_bytes() == (data / name).read_bytes()
        assert (frozen.directory / name).stat().st_mode & 0o222 == 0
    assert load_frozen(frozen.digest, store) == frozen
    frozen.verify()
    shutil.rmtree(data)
    frozen.verify()


def test_equal_data_are_frozen_once(data: Path, store: Path, tmp_path: Path) -> None:
    first = freeze(data, store)
    shutil.copytree(data, tmp_path / "copy")
    (tmp_path / "copy" / "in" / "notes.txt").write_text("other notes")
    assert freeze(tmp_path / "copy", store) == first
    torch.save(torch.zeros(1), data / "in" / "x.pt")
    assert freeze(data, store).digest != first.digest
    first.verify()


def test_a_kill_in_the_middle_leaves_nothing_in_the_way(data: Path, store: Path) -> None:
    (store / "incoming" / "in").mkdir(parents=True)
    (store / "incoming" / "in" / "old.pt").write_text("half")
    assert "in/old.pt" not in freeze(data, store).files


@pytest.mark.parametrize(
    "name", ["with space", "ünï✓", "new\nline", "-rf", "a" * 200, "..", ".hidden", "x.pt", "%s{0}"]
)
def test_odd_names(data: Path, store: Path, name: str) -> None:
    torch.save(torch.ones(2), data / "out" / f"{name}.pt")
    frozen = freeze(data, store)
    assert f"out/{name}.pt" in frozen.files
    assert load_frozen(frozen.digest, store) == frozen


def test_a_name_that_torch_cannot_open_is_refused(data: Path, store: Path) -> None:
    odd = os.fsdecode(b"\xff.pt")
    torch.save(torch.ones(2), data / "in" / "a.pt")
    (data / "in" / "a.pt").rename(data / "in" / odd)
    with pytest.raises(UserError, match="golden data"):
        freeze(data, store)


class Trap:
    """Unpickled by a careless reader, it makes a file."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[Callable[..., object], tuple[str, str]]:
        return open, (str(self.path), "w")


def missing_folder(data: Path) -> str:
    shutil.rmtree(data / "out")
    return "out"


def empty_folder(data: Path) -> str:
    (data / "out" / "y.pt").unlink()
    return "none"


def truncated(data: Path) -> str:
    file = data / "in" / "x.pt"
    file.write_bytes(file.read_bytes()[:-100])
    return "x.pt"


def empty_file(data: Path) -> str:
    (data / "in" / "x.pt").write_bytes(b"")
    return "x.pt"


def pickled(data: Path) -> str:
    (data / "in" / "x.pt").write_bytes(pickle.dumps(Trap(data / "executed")))
    return "x.pt"


def linked_pickle(data: Path) -> str:
    """Outside of the folder, where no check of the folder's own files would see it."""
    outside = data.parent / "evil.pt"
    outside.write_bytes(pickle.dumps(Trap(data / "executed")))
    (data / "in" / "linked.pt").symlink_to(outside)
    return "linked.pt"


def linked_tensor(data: Path) -> str:
    outside = data.parent / "outside.pt"
    torch.save(torch.ones(1), outside)
    (data / "in" / "linked.pt").symlink_to(outside)
    return "linked.pt"


def linked_folder(data: Path) -> str:
    (data / "out").rename(data.parent / "out")
    (data / "out").symlink_to(data.parent / "out")
    return "out"


def dangling_link(data: Path) -> str:
    (data / "in" / "gone.pt").symlink_to("nowhere.pt")
    return "nowhere.pt"


def looping_link(data: Path) -> str:
    (data / "in" / "loop.pt").symlink_to("loop.pt")
    return "loop.pt"


def a_pipe(data: Path) -> str:
    os.mkfifo(data / "in" / "pipe.pt")
    return "pipe.pt"


def a_folder(data: Path) -> str:
    (data / "in" / "folder.pt").mkdir()
    return "folder.pt"


@pytest.mark.parametrize(
    "spoil",
    [
        missing_folder,
        empty_folder,
        truncated,
        empty_file,
        pickled,
        linked_pickle,
        linked_tensor,
        linked_folder,
        dangling_link,
        looping_link,
        a_pipe,
        a_folder,
    ],
)
def test_what_cannot_be_read_safely_is_refused(data: Path, store: Path, spoil: Callable[[Path], str]) -> None:
    says = spoil(data)
    with pytest.raises(UserError) as raised:
        freeze(data, store)
    assert says in str(raised.value)
    assert "\n" not in str(raised.value)
    assert not (data / "executed").exists()
    assert not store.exists()


def test_a_link_inside_of_the_folder_is_the_file_it_names(data: Path, store: Path) -> None:
    (data / "out" / "inout.pt").symlink_to("../in/x.pt")
    frozen = freeze(data, store)
    assert not (frozen.directory / "out" / "inout.pt").is_symlink()
    assert frozen.files["out/inout.pt"] == frozen.files["in/x.pt"]


def change(frozen: FrozenGolden) -> None:
    file = frozen.directory / "in" / "x.pt"
    file.chmod(0o644)
    file.write_bytes(file.read_bytes()[:-1] + b"!")


def replace_by_link(frozen: FrozenGolden) -> None:
    """The content is the same now, and may be another one at the next run."""
    file = frozen.directory / "in" / "x.pt"
    moved = frozen.directory.parent / "moved.pt"
    file.rename(moved)
    file.symlink_to(moved)


def replace_by_pipe(frozen: FrozenGolden) -> None:
    file = frozen.directory / "in" / "x.pt"
    file.unlink()
    os.mkfifo(file)


def remove_one(frozen: FrozenGolden) -> None:
    (frozen.directory / "out" / "y.pt").unlink()


def remove_folder(frozen: FrozenGolden) -> None:
    shutil.rmtree(frozen.directory / "out")


def add_one(frozen: FrozenGolden) -> None:
    shutil.copyfile(frozen.directory / "in" / "x.pt", frozen.directory / "in" / "z.pt")


def add_folder(frozen: FrozenGolden) -> None:
    (frozen.directory / "in" / "__pycache__").mkdir()


@pytest.mark.parametrize(
    "spoil",
    [change, replace_by_link, replace_by_pipe, remove_one, remove_folder, add_one, add_folder],
)
def test_a_change_of_frozen_data_is_noticed(
    data: Path, store: Path, spoil: Callable[[FrozenGolden], None]
) -> None:
    frozen = freeze(data, store)
    spoil(frozen)
    for look in (frozen.verify, lambda: load_frozen(frozen.digest, store), lambda: freeze(data, store)):
        with pytest.raises(UserError) as raised:
            look()
        assert str(frozen.directory) in str(raised.value)
        assert "remove" in str(raised.value)


def test_frozen_data_that_are_gone(data: Path, store: Path) -> None:
    frozen = freeze(data, store)
    shutil.rmtree(frozen.directory)
    with pytest.raises(UserError, match="start a new one"):
        load_frozen(frozen.digest, store)
    with pytest.raises(UserError):
        frozen.verify()


def test_a_store_without_room(data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("precision_bisect.runner.case.case.shutil.copyfile", full)
    with pytest.raises(UserError, match="No space left"):
        freeze(data, tmp_path / "store")
    assert not [path for path in (tmp_path / "store").iterdir() if path.is_dir()]
