"""Pairs of folders drawn by seed, and what a comparison may say of each file in them.

The plan knows the answer: what is written to both sides, and what is done to one of them. Where a byte of a file is
changed at random, numpy, torch and json say what is left of it. Nothing of the product is used.
"""

from __future__ import annotations

import io
import json
import os
import random
import warnings
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import Any, cast

import numpy as np
import torch

EQUAL, DIFFERENT, UNKNOWN, LEFT_OUT = "equal", "different", "not compared", "left out"

TENSOR_FORMATS = ("tensor.pt", "list.pt", "state.pt", "tensor.pth", "array.npy", "arrays.npz", "packed.npz")
OTHER_FORMATS = ("text.txt", "run.log", "plain.json", "raw.bin", "weights.safetensors", "noext")
NUMPY_DTYPES = ("float32", "float64", "float16", "int8", "int32", "int64", "uint8", "bool", "complex64")
TORCH_DTYPES = (*NUMPY_DTYPES, "bfloat16", "float8_e4m3fn")
_SINGLE = ("tensor.pt", "tensor.pth", "array.npy")


@dataclass(frozen=True, kw_only=True)
class Expectation:
    """What may be said of the records whose names begin with one of `prefixes`: the worst of them is in `allowed`.

    `lacking`: one side has none; where nothing else is common, the two need not be compared at all.
    """

    what: str
    prefixes: tuple[str, ...]
    allowed: frozenset[str]
    lacking: bool = False


@dataclass
class FolderPair:
    """Two folders, `actual` and `expected`, and what is true of them. Calm ones hold the same, or what is ignored."""

    place: Path
    is_calm: bool = False
    expectations: list[Expectation] = field(default_factory=list[Expectation])
    ignored: list[str] = field(default_factory=list[str])
    has_lost_records: bool = False
    has_common_tensor: bool = False
    has_tensors: tuple[bool, bool] = (False, False)

    @property
    def actual(self) -> Path:
        return self.place / "actual"

    @property
    def expected(self) -> Path:
        return self.place / "expected"

    def expect(self, what: str, *prefixes: str, allowed: set[str], lacking: bool = False) -> None:
        """Notes what is true of one thing in the folders."""
        told = Expectation(what=what, prefixes=prefixes, allowed=frozenset(allowed), lacking=lacking)
        self.expectations.append(told)


def draw_folder_pair(seed: int, place: Path) -> FolderPair:
    """The pair of one seed, written below `place`."""
    chance = random.Random(seed)
    pair = FolderPair(place, is_calm=chance.random() < 0.25)
    pair.actual.mkdir(parents=True)
    pair.expected.mkdir()
    (place / "elsewhere").mkdir()
    draw = _Draw(chance, pair)
    parts: tuple[tuple[float, Callable[[], None]], ...] = (
        (0.85, draw.common_tensor),
        *[(0.5, draw.tensor_file)] * 7,
        *[(0.4, draw.other_file)] * 2,
        (0.35, draw.dump),
        (0.15, draw.old_dump),
        (0.2, draw.golden),
        (0.2, draw.build),
        (0.2, draw.linked_folder),
        (0 if pair.is_calm else 0.15, draw.loop),
        (0 if pair.is_calm else 0.15, draw.pipe),
        (0.15, draw.empty_folder),
        (0.25, draw.ignored_folder),
    )
    for share, add in parts:
        if chance.random() < share:
            add()
    return pair


class _Draw:
    """Adds one thing after the other to a pair."""

    def __init__(self, chance: random.Random, pair: FolderPair) -> None:
        self._chance = chance
        self._pair = pair
        self._number = 0
        self._folders = [""]

    def folder(self, name: str) -> str:
        """A new folder of this name, at the top or deeper."""
        self._number += 1
        if self._chance.random() < 0.3 and not (self._pair.expected / name).exists():
            return name
        return str(PurePosixPath(self._chance.choice(self._folders), f"{self._number}g", name))

    def _path(self, file: str) -> str:
        """A new path; its name is like no other's."""
        self._number += 1
        if self._chance.random() < 0.3:
            name = f"{self._number}{self._chance.choice(('sub', 'deep er', 'ünï', 'x.pt', 'a[1]'))}"
            self._folders.append(str(PurePosixPath(self._chance.choice(self._folders), name)))
        stem, dot, suffix = file.partition(".")
        return str(PurePosixPath(self._chance.choice(self._folders), f"{stem}{self._number}{dot}{suffix}"))

    def common_tensor(self) -> None:
        """One that is the same on both sides."""
        path = self._path("tensor.pt")
        self._write(path, _encode("tensor.pt", [self._array("float32")]))
        self._tell(path, "the same", EQUAL)
        self._hold(True, True)

    def tensor_file(self) -> None:
        """A file of tensors, and what is done to it."""
        kind = self._chance.choice(TENSOR_FORMATS)
        count = 1 if kind in _SINGLE else self._chance.randint(1, 3)
        dtypes = NUMPY_DTYPES if ".np" in kind else TORCH_DTYPES
        arrays = [self._array(self._chance.choice(dtypes)) for _ in range(count)]
        fate = self._chance.choice(_FATES[:_CALM_FATES] if self._pair.is_calm else _FATES)
        fate(self, kind, self._path(kind), arrays, _encode(kind, arrays))

    # What can be done to a file of tensors.

    def _same(self, kind: str, path: str, arrays: list[torch.Tensor], content: bytes) -> None:
        self._write(path, content)
        self._tell(path, f"{kind}, the same", EQUAL)
        self._hold(True, True)

    def _saved_again(self, kind: str, path: str, arrays: list[torch.Tensor], content: bytes) -> None:
        """Other bytes of the same values: the archive has other names in it, or another order of elements."""
        again = _encode(kind, arrays, again=True)
        self._write(path, content, again)
        self._tell(path, f"{kind}, saved again", EQUAL)
        self._hold(True, True)

    def _value(self, kind: str, path: str, arrays: list[torch.Tensor], content: bytes) -> None:
        changed = list(arrays)
        index = self._chance.randrange(len(arrays))
        changed[index] = self._with_another_value(arrays[index])
        self._write(path, _encode(kind, changed), content)
        self._tell(path, f"{kind}, another value", DIFFERENT)
        self._hold(True, True)

    def _shape(self, kind: str, path: str, arrays: list[torch.Tensor], content: bytes) -> None:
        changed = [_wide(array).reshape(-1).repeat(2).to(array.dtype) for array in arrays]
        self._write(path, _encode(kind, changed), content)
        self._tell(path, f"{kind}, another shape", DIFFERENT)
        self._hold(True, True)

    def _type(self, kind: str, path: str, arrays: list[torch.Tensor], content: bytes) -> None:
        changed = [
            _wide(array).real.to(torch.int16 if array.dtype == torch.int32 else torch.int32)
            for array in arrays
        ]
        self._write(path, _encode(kind, changed), content)
        self._tell(path, f"{kind}, another type", DIFFERENT)
        self._hold(True, True)

    def _one_more(self, kind: str, path: str, arrays: list[torch.Tensor], content: bytes) -> None:
        if kind in _SINGLE:
            self._value(kind, path, arrays, content)
            return
        sides = [_encode(kind, [*arrays, arrays[0]]), content]
        self._chance.shuffle(sides)
        self._write(path, *sides)
        self._tell(path, f"{kind}, a tensor more", DIFFERENT)
        self._hold(True, True)

    def _byte(self, kind: str, path: str, arrays: list[torch.Tensor], content: bytes) -> None:
        spoiled = self._spoil(content)
        self._write(path, spoiled, content)
        left = _decode(kind, spoiled)
        if not left:
            allowed = {UNKNOWN}
        elif _are_same(left, _decode(kind, content)):
            allowed = {EQUAL, UNKNOWN}
        else:
            allowed = {DIFFERENT, UNKNOWN}
        self._tell(path, f"{kind}, a byte changed", *allowed)
        self._hold(False, True)

    def _cut(self, kind: str, path: str, arrays: list[torch.Tensor], content: bytes) -> None:
        self._write(path, content[: self._chance.randrange(1, len(content))], content)
        self._tell(path, f"{kind}, cut short", UNKNOWN)
        self._hold(False, True)

    def _empty(self, kind: str, path: str, arrays: list[torch.Tensor], content: bytes) -> None:
        both = self._chance.random() < 0.5
        self._write(path, b"", b"" if both else content)
        self._tell(path, f"{kind}, empty", UNKNOWN)
        self._hold(False, not both)

    def _of_one_side(self, kind: str, path: str, arrays: list[torch.Tensor], content: bytes) -> None:
        ours = self._chance.random() < 0.5
        self._write(path, content if ours else None, None if ours else content)
        self._tell(path, f"{kind}, on one side", DIFFERENT, lacking=True)
        self._hold(ours, not ours)

    def _link_out(self, kind: str, path: str, arrays: list[torch.Tensor], content: bytes) -> None:
        target = self._pair.place / "elsewhere" / path.replace("/", "_")
        target.write_bytes(content)
        sides = [self._pair.actual, self._pair.expected]
        self._chance.shuffle(sides)
        self._write(path, content)
        for side in sides[: self._chance.choice((1, 1, 2))]:
            (side / path).unlink()
            (side / path).symlink_to(target)
        self._tell(path, f"{kind}, a link out of the folder", UNKNOWN)
        self._hold(not (self._pair.actual / path).is_symlink(), not (self._pair.expected / path).is_symlink())

    def _link_to_nothing(self, kind: str, path: str, arrays: list[torch.Tensor], content: bytes) -> None:
        self._write(path, None, content if self._chance.random() < 0.7 else None)
        (self._pair.actual / path).parent.mkdir(parents=True, exist_ok=True)
        (self._pair.actual / path).symlink_to(
            self._chance.choice(("gone.pt", "../../gone", path.rpartition("/")[2]))
        )
        self._tell(path, f"{kind}, a link to nothing", UNKNOWN)
        self._hold(False, (self._pair.expected / path).exists())

    def _link_inside(self, kind: str, path: str, arrays: list[torch.Tensor], content: bytes) -> None:
        """On one side the file is a link to another one of the folder, which the other side has too."""
        other = str(PurePosixPath(path).with_name(f"target_{PurePosixPath(path).name}"))
        differs = self._chance.random() < 0.5
        changed = _encode(kind, [self._with_another_value(array) for array in arrays]) if differs else content
        self._write(other, content)
        self._write(path, None, changed)
        (self._pair.actual / path).symlink_to(PurePosixPath(other).name)
        self._tell(other, f"{kind}, the target of a link", EQUAL)
        self._tell(path, f"{kind}, a link inside", DIFFERENT if differs else EQUAL)
        self._hold(True, True)

    def _folder_in_its_place(self, kind: str, path: str, arrays: list[torch.Tensor], content: bytes) -> None:
        inner = f"{path}/inner.npy"
        self._write(path, None, content)
        self._write(inner, _encode("array.npy", [torch.zeros(2)]), None)
        self._tell(path, f"{kind}, a folder in its place", DIFFERENT, lacking=True)
        self._hold(True, True, common=False)

    def other_file(self) -> None:
        """A file that holds no tensors that are read."""
        kind = self._chance.choice(OTHER_FORMATS)
        path = self._path(kind)
        content = _OTHERS[kind](self._chance)
        match self._chance.choice((0, 5) if self._pair.is_calm else range(6)):
            case 0:
                self._write(path, content)
                self._tell(path, f"{kind}, the same bytes", EQUAL)
            case 1:
                spoiled = self._spoil(content)
                self._write(path, spoiled, content)
                self._tell(path, f"{kind}, a byte changed", UNKNOWN)
            case 2:
                sides = [content, None]
                self._chance.shuffle(sides)
                self._write(path, *sides)
                self._tell(path, f"{kind}, on one side", UNKNOWN)
            case 3:
                both = self._chance.random() < 0.5
                self._write(path, b"", b"" if both else content)
                self._tell(path, f"{kind}, empty", EQUAL if both else UNKNOWN)
            case 4:
                self._write(path, content + b"\n", content)
                self._tell(path, f"{kind}, longer", UNKNOWN)
            case _:
                self._write(path, content, self._spoil(content))
                self._pair.ignored.append(path.replace("[", "[[]"))
                self._tell(path, f"{kind}, ignored", LEFT_OUT)

    def dump(self) -> None:
        """An argument dump."""
        self._dump(self.folder("args_dump"))

    def old_dump(self) -> None:
        """An argument dump whose files are named after the time of the run."""
        self._dump(self.folder("tensor_dump_20260415_101112"))

    def _dump(self, place: str) -> None:
        """An argument dump, and what is done to it."""
        self._number += 1
        first_task = (self._number << 32) + 1
        sizes = [self._chance.randint(1, 6) for _ in range(self._chance.randint(1, 3))]
        values = [np.array([self._chance.uniform(1, 2) for _ in range(size)], "<f4") for size in sizes]
        bare = place.rpartition("/")[2]
        names = ("args_dump.json", "args.bin") if bare == "args_dump" else (f"{bare}.json", f"{bare}.bin")
        manifest = _manifest(first_task, sizes, names[1])
        payload = b"".join(value.tobytes() for value in values)
        tasks = tuple(f"0x{first_task + number:016x}" for number in range(len(sizes)))
        written = json.loads(json.dumps(manifest))
        spoiled, allowed, readable = payload, {EQUAL}, True
        text = None
        fate = self._chance.choice(("same",) if self._pair.is_calm else _DUMP_FATES)
        match fate:
            case "payload":
                at = self._chance.randrange(len(payload))
                spoiled = (
                    payload[:at] + bytes([payload[at] ^ 1 << self._chance.randrange(8)]) + payload[at + 1 :]
                )
                same = np.array_equal(np.frombuffer(spoiled, "<f4"), np.frombuffer(payload, "<f4"))
                allowed = {EQUAL if same else DIFFERENT}
            case "cut":
                spoiled, allowed = payload[:-1], {UNKNOWN}
            case "flag":
                written["args"][-2]["overwritten"] = True
                allowed = {UNKNOWN}
            case "scalar":
                written["args"][-1]["value"] = 4
                allowed = {DIFFERENT}
            case "dropped":
                written["dropped_records"] = 1
                allowed = {UNKNOWN}
                self._pair.has_lost_records = True
            case "shape":
                written["args"][0] |= {"shape": [1, sizes[0]], "strides": [sizes[0], 1]}
                allowed = {DIFFERENT}
            case "byte":
                text = self._spoil(json.dumps(manifest).encode())
                allowed, readable = _allowed_of_manifest(manifest, text), False
            case _:
                pass
        manifest_path, payload_path = (str(PurePosixPath(place, name)) for name in names)
        gone = fate in ("missing", "no manifest")
        text = text or json.dumps(written).encode()
        self._write(manifest_path, None if gone else text, json.dumps(manifest).encode())
        self._write(payload_path, None if fate == "missing" else spoiled, payload)
        if gone:
            allowed = {DIFFERENT}
        told = (*tasks, *(f"{place} {task}" for task in tasks), manifest_path)
        if fate == "no manifest":
            self._pair.expect("payloads without a manifest", payload_path, allowed={UNKNOWN})
        self._pair.expect(f"{place}: a dump, {fate}", *told, allowed=allowed, lacking=gone)
        self._hold(readable and not gone, True)

    def golden(self) -> None:
        """Golden data, sometimes without its outputs."""
        self._number += 1
        name = f"in/x{self._number}.pt"
        self._write(name, _encode("tensor.pt", [self._array("float32")]))
        self._tell(name, "an input, the same", EQUAL)
        self._hold(True, True)
        if self._chance.random() < 0.25 and not self._pair.is_calm:
            for side in (self._pair.actual, self._pair.expected):
                (side / "out").mkdir()
            self._pair.expect("golden data without outputs", "out", allowed={UNKNOWN})
            return
        for _ in range(self._chance.randint(1, 2)):
            self._number += 1
            name = f"out/y{self._number}.pt"
            array = self._array("bfloat16")
            differs = self._chance.random() < 0.5 and not self._pair.is_calm
            changed = self._with_another_value(array) if differs else array
            self._write(name, _encode("tensor.pt", [changed]), _encode("tensor.pt", [array]))
            self._tell(name, "an output", DIFFERENT if differs else EQUAL)

    def build(self) -> None:
        """A build directory: its code and its records of a run say nothing of its tensors."""
        place = self._chance.choice(("", self.folder("build")))
        self._folders.append(place)
        data = str(PurePosixPath(place, "data"))
        self._number += 1
        for half in ("in", "out"):
            name = f"{data}/{half}/b{self._number}.pt"
            self._write(name, _encode("tensor.pt", [self._array("float32")]))
            self._tell(name, "data of a build", EQUAL)
        self._hold(True, True)
        self._dump(str(PurePosixPath(place, "dfx_outputs", "args_dump")))
        files = {
            "kernel_config.py": b"KERNELS = []\n",
            "kernels/aiv/square.cpp": b"void square() {}\n",
            "orchestration/sums.cpp": b"void sums() {}\n",
            "dfx_outputs/deps.json": b'{"version": 1, "edges": []}',
            "passes_dump/00_frontend.py": b"x = 1\n",
        }
        for file, content in files.items():
            path = str(PurePosixPath(place, file))
            self._write(path, content if self._chance.random() < 0.5 else self._spoil(content), content)
            self._tell(path, "a part of a build", LEFT_OUT)
        stamped = str(PurePosixPath(place, "dfx_outputs", f"name_map_{self._chance.randrange(10**6)}.json"))
        self._write(stamped, b'{"callable_id_to_name": {"0": "square"}}', None)
        self._tell(stamped, "names of kernels, on one side", LEFT_OUT)

    def linked_folder(self) -> None:
        """A folder that on one side is a link to another one of it, or leads out of it."""
        self._number += 1
        link, target = f"link{self._number}", f"linked{self._number}"
        content = _encode("tensor.pt", [self._array("float32")])
        if self._chance.random() < 0.5 or self._pair.is_calm:
            self._write(f"{target}/t{self._number}.pt", content)
            self._write(f"{link}/t{self._number}.pt", None, content)
            (self._pair.actual / link).symlink_to(target)
            for folder in (link, target):
                self._tell(f"{folder}/t{self._number}.pt", "below a link inside", EQUAL)
            self._hold(True, True)
            return
        self._write(f"{link}/t{self._number}.pt", None, content)
        outside = self._pair.place / "elsewhere" / target
        outside.mkdir()
        (outside / f"t{self._number}.pt").write_bytes(content)
        (self._pair.actual / link).symlink_to(outside)
        self._pair.expect("a link out of the folder", link, allowed={UNKNOWN})
        self._hold(False, True)

    def loop(self) -> None:
        """A link to a folder that it lies in."""
        self._number += 1
        name = f"loop{self._number}"
        for side in (self._pair.actual, self._pair.expected)[: self._chance.choice((1, 2))]:
            (side / name).symlink_to(".")
        self._pair.expect("a loop", name, allowed={UNKNOWN})

    def pipe(self) -> None:
        """Whoever opens it waits for ever."""
        path = self._path("pipe.pt")
        (self._pair.actual / path).parent.mkdir(parents=True, exist_ok=True)
        os.mkfifo(self._pair.actual / path)
        self._tell(path, "a pipe", UNKNOWN)

    def empty_folder(self) -> None:
        """Nobody has a file in it."""
        (self._pair.actual / "nothing" / "in_here").mkdir(parents=True)

    def ignored_folder(self) -> None:
        """A folder that is ignored as a whole, or every file of one suffix in it."""
        self._number += 1
        place = f"tmp{self._number}"
        whole = self._chance.random() < 0.5 or self._pair.is_calm
        self._pair.ignored.append(place if whole else f"{place}/*.npy")
        content = _encode("array.npy", [self._array("int32")])
        self._write(f"{place}/deep/a.npy", content, None)
        self._write(f"{place}/b.npy", content, self._spoil(content))
        self._write(f"{place}/c.txt", b"one", b"two")
        if whole:
            self._pair.expect("an ignored folder", place, allowed={LEFT_OUT})
            return
        for file in ("deep/a.npy", "b.npy"):
            self._tell(f"{place}/{file}", "ignored", LEFT_OUT)
        self._tell(f"{place}/c.txt", "beside what is ignored", UNKNOWN)

    def _array(self, dtype: str) -> torch.Tensor:
        shape = self._chance.choice(((), (3,), (2, 4), (1, 2, 3)))
        count = int(np.prod(shape, dtype=int))
        numbers = torch.tensor(
            [self._chance.choice((0, 1, 2, 3, 5, -4)) for _ in range(count)], dtype=torch.float32
        )
        if dtype == "uint8":
            numbers = numbers.abs()
        return numbers.to(getattr(torch, dtype)).reshape(shape)

    def _with_another_value(self, array: torch.Tensor) -> torch.Tensor:
        """One element is another number."""
        flat = _wide(array).reshape(-1).clone()
        at = self._chance.randrange(len(flat))
        flat[at] = 1 - flat[at] if array.dtype == torch.bool else 6
        return flat.to(array.dtype).reshape(array.shape)

    def _spoil(self, content: bytes) -> bytes:
        at = self._chance.randrange(len(content))
        return content[:at] + bytes([content[at] ^ 1 << self._chance.randrange(8)]) + content[at + 1 :]

    def _write(self, path: str, actual: bytes | None, *expected: bytes | None) -> None:
        """A file on both sides; None where one of them has none. Without `expected` both are the same."""
        for side, content in ((self._pair.actual, actual), (self._pair.expected, (*expected, actual)[0])):
            if content is not None:
                (side / path).parent.mkdir(parents=True, exist_ok=True)
                (side / path).write_bytes(content)

    def _tell(self, path: str, what: str, *allowed: str, lacking: bool = False) -> None:
        """What may be said of the file `path`."""
        names = (path, path.removesuffix(".pt"))
        self._pair.expect(f"{path}: {what}", *names, allowed=set(allowed), lacking=lacking)

    def _hold(self, actual: bool, expected: bool, *, common: bool = True) -> None:
        """Notes which sides have a tensor that can be read."""
        ours, theirs = self._pair.has_tensors
        self._pair.has_tensors = (ours or actual, theirs or expected)
        self._pair.has_common_tensor |= actual and expected and common


_CALM_FATES = 3
_DUMP_FATES = (
    "same",
    "payload",
    "cut",
    "flag",
    "scalar",
    "dropped",
    "byte",
    "no manifest",
    "missing",
    "shape",
)
_Fate = Callable[[_Draw, str, str, list[torch.Tensor], bytes], None]
_FATES: tuple[_Fate, ...] = (
    _Draw._same,
    _Draw._saved_again,
    _Draw._same,
    _Draw._value,
    _Draw._value,
    _Draw._shape,
    _Draw._type,
    _Draw._one_more,
    _Draw._byte,
    _Draw._byte,
    _Draw._byte,
    _Draw._cut,
    _Draw._empty,
    _Draw._of_one_side,
    _Draw._link_out,
    _Draw._link_to_nothing,
    _Draw._link_inside,
    _Draw._folder_in_its_place,
)


def _wide(array: torch.Tensor) -> torch.Tensor:
    """The same numbers in a type that torch computes with."""
    return array.to(torch.complex64 if array.is_complex() else torch.float64)


def _encode(kind: str, arrays: list[torch.Tensor], *, again: bool = False) -> bytes:
    """The bytes of a file; `again` writes other bytes of the same values."""
    file = io.BytesIO()
    if ".np" in kind:
        plain = [array.numpy() for array in arrays]
        if again:
            plain = [np.asarray(array, order="F") for array in plain]
        named = {f"part{number}": array for number, array in enumerate(plain)}
        if again:
            named = dict(reversed(named.items()))
        if kind == "array.npy":
            np.save(file, plain[0])
        elif (kind == "packed.npz") != again:
            np.savez_compressed(file, allow_pickle=False, **named)
        else:
            np.savez(file, allow_pickle=False, **named)
        return file.getvalue()
    if again:
        # A part of a larger storage, behind another tensor.
        arrays = [torch.stack([_wide(array) + 1, _wide(array)]).to(array.dtype)[1] for array in arrays]
    named = {f"w{number}": array for number, array in enumerate(arrays)}
    state = {"layer": named, "step": 3, "note": "text"}
    saved = {"list.pt": arrays, "state.pt": dict(reversed(state.items())) if again else state}
    torch.save(saved.get(kind, arrays[0]), file)
    return file.getvalue()


def _decode(kind: str, content: bytes) -> Mapping[str, Any]:
    """What numpy or torch reads of a file, by name; nothing where it cannot be read."""
    file = io.BytesIO(content)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            if ".np" not in kind:
                return dict(_leaves("", torch.load(file, map_location="cpu", weights_only=True)))
            read = np.load(file, allow_pickle=False)
            return {"": read} if isinstance(read, np.ndarray) else {name: read[name] for name in read.files}
        except Exception:
            return {}


def _leaves(name: str, value: Any) -> Iterator[tuple[str, Any]]:
    if isinstance(value, dict | list):
        entries = value.items() if isinstance(value, dict) else enumerate(value)
        for key, entry in cast(Any, entries):
            yield from _leaves(f"{name}/{key}", entry)
    else:
        yield name, value


def _are_same(one: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
    """Whether both hold the same: names, types, shapes and numbers, a NaN being another NaN."""
    return one.keys() == other.keys() and all(_is_same(one[name], other[name]) for name in one)


def _is_same(one: Any, other: Any) -> bool:
    if type(one) is not type(other):
        return False
    if isinstance(one, torch.Tensor):
        if one.dtype != other.dtype:
            return False
        one, other = _wide(one).numpy(), _wide(other).numpy()
    if isinstance(one, np.ndarray):
        if one.dtype != other.dtype or one.shape != other.shape:
            return False
        parts = ((one.real, other.real), (one.imag, other.imag)) if one.dtype.kind == "c" else ((one, other),)
        return all(np.array_equal(*part, equal_nan=one.dtype.kind in "fc") for part in parts)
    return bool(one == other)


def _manifest(first_task: int, sizes: list[int], payloads: str) -> dict[str, Any]:
    """The manifest of a dump of one float32 output a task, and a scalar."""
    records: list[dict[str, Any]] = []
    offset = 0
    for number, size in enumerate(sizes):
        records.append(_record(first_task + number, 0, shape=[size], strides=[1], numel=size))
        records[-1] |= {"kind": "tensor", "bin_offset": offset, "bin_size": 4 * size}
        offset += 4 * size
    records.append(_record(first_task, 1, shape=[], strides=[], numel=1))
    records[-1] |= {"kind": "scalar", "value": 3, "bin_offset": 0, "bin_size": 0}
    return {
        "run_dir": "args_dump",
        "bin_format": {"type": "logical_contiguous", "byte_order": "little_endian"},
        "total_args": len(records),
        "before_dispatch": 0,
        "after_completion": len(records),
        "input_args": 0,
        "output_args": len(records),
        "inout_args": 0,
        "truncated_args": 0,
        "dropped_records": 0,
        "dropped_overwrite": 0,
        "bin_file": payloads,
        "args": records,
    }


def _record(task: int, argument: int, **fields: Any) -> dict[str, Any]:
    return {
        "task_id": f"0x{task:016x}",
        "func_id": [0],
        "arg_index": argument,
        "role": "output",
        "stage": "after_completion",
        "dtype": "FLOAT32",
        "is_contiguous": True,
        "start_offset": 0,
        "truncated": False,
        "overwritten": False,
        **fields,
    }


_COUNTS = ("total_args", "input_args", "output_args", "inout_args")
"""Fields that a manifest need not have."""
_SILENT = (
    "run_dir",
    "func_id",
    "is_contiguous",
    "strides",
    "start_offset",
    "truncated_args",
    "dropped_overwrite",
)
"""Fields of a manifest that say nothing of the values."""
_FIELDS = frozenset(
    (
        *_manifest(0, [], ""),
        *_record(0, 0),
        *("type", "byte_order", "shape", "numel", "kind", "value", "bin_offset", "bin_size"),
    )
)


def _allowed_of_manifest(manifest: Mapping[str, Any], text: bytes) -> set[str]:
    """What may be said where a byte of a manifest was changed to `text`."""
    try:
        left = json.loads(text.decode("utf-8", "replace"))
    except ValueError:
        return {UNKNOWN}
    if isinstance(left, dict):
        left = {name: manifest[name] for name in _COUNTS} | cast(dict[str, Any], left)
    return {EQUAL, UNKNOWN} if _spoken(left) == _spoken(manifest) else {DIFFERENT, UNKNOWN}


def _spoken(manifest: Any) -> Any:
    if isinstance(manifest, dict):
        named = cast(dict[str, Any], manifest)
        known = {key: _spoken(value) for key, value in named.items() if key not in _SILENT and key in _FIELDS}
        return {"truncated": False, "overwritten": False} | known
    return [_spoken(value) for value in cast(list[Any], manifest)] if isinstance(manifest, list) else manifest


def _letters(chance: random.Random) -> bytes:
    return "".join(chance.choice("abc äß\n") for _ in range(chance.randint(1, 40))).encode()


def _safetensors(chance: random.Random) -> bytes:
    head = json.dumps({"w": {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]}}).encode()
    return len(head).to_bytes(8, "little") + head + chance.randbytes(8)


_OTHERS: dict[str, Callable[[random.Random], bytes]] = {
    "text.txt": _letters,
    "run.log": _letters,
    "plain.json": lambda chance: json.dumps({"loss": chance.random()}).encode(),
    "raw.bin": lambda chance: chance.randbytes(chance.randint(1, 3000)),
    "weights.safetensors": _safetensors,
    "noext": _letters,
}
