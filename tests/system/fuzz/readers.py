"""The readers of what others wrote: what each reads, sound inputs, and the errors that it is documented to raise."""

from __future__ import annotations

import io
import json
import socket
import sys
import threading
import warnings
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from functools import partial
from http import HTTPStatus
from pathlib import Path
from typing import Any

import numpy as np
import torch

from precision_bisect.bisect.ask.question import BisectLog
from precision_bisect.bisect.nightly.matrix import load_config
from precision_bisect.bisect.pages.serve import QueueWriter, SiteServer
from precision_bisect.bisect.queue_client import check_remote_submission
from precision_bisect.meaning.dump_reader import read_dump
from precision_bisect.meaning.execution import Execution
from precision_bisect.meaning.ir import CAPACITIES_910B, MeaningError
from precision_bisect.meaning.memory import MemoryExecution
from precision_bisect.runner.build_output.args_dump import ArgsDump
from precision_bisect.runner.build_output.directory import KernelConfig, TensorFolder, read_name_map
from precision_bisect.runner.build_output.files import BuildOutputError, Folder
from precision_bisect.runner.build_output.orchestration import Orchestration
from precision_bisect.runner.build_output.task_graph import TaskGraph
from precision_bisect.runner.build_output.tensor_files import load_tensors
from precision_bisect.runner.errors import UserError
from precision_bisect.runner.settings import OWN_FILE, load_stack, read_settings
from precision_bisect.store.database import open_read_only, open_store, sqlite_url
from precision_bisect.store.queue import TokenJournal
from tests.meaning.dumps import dump, kernel, load, tensor, tile
from tests.runner.build_output.build_files import KERNEL_CONFIG, ORCHESTRATION, graph, manifest, record


@dataclass(frozen=True)
class Reader:
    """Reads the file `file_name` of a folder."""

    file_name: str
    read: Callable[[Path], object]
    sound: Sequence[bytes]
    errors: tuple[type[Exception], ...] = (BuildOutputError,)


class RefusedSubmissionError(Exception):
    """A submission was refused with a sentence."""


class WrongAnswerError(Exception):
    """A server answered as none should."""


def _args_dump(folder: Path) -> Reader:
    (folder / "args.bin").write_bytes(bytes(64))
    scalar = record(
        1, 2, kind="scalar", dtype="FLOAT32", value="$Inf", shape=[], strides=[], numel=1, bin_size=0
    )
    old = record(1, 0, func_id=3, raw_shape=[4, 8], offsets=[1, 2])
    del old["strides"]
    dumps = [
        manifest([record(1, 0), scalar, record(2**63, 1, start_offset=4)]),
        manifest([old], bin_file=None),
    ]

    def read(folder: Path) -> None:
        dump = ArgsDump.open(folder)
        for index in range(len(dump)):
            one = dump.record(index)
            if one.flaw is None and one.dtype is not None and one.value is None:
                assert dump.tensor(one).contiguous().shape == dump.comparable_layout(one).shape

    return Reader("args_dump.json", read, [json.dumps(dump).encode() for dump in dumps])


def _task_graph(_folder: Path) -> Reader:
    def read(folder: Path) -> None:
        found = TaskGraph.open(folder / "deps.json")
        for task in list(found.tasks)[:4]:
            found.ancestors(task)
            found.descendants(task)

    pairs = {"version": 1, "edges": [[4294967297, 4294967298], [4294967298, 8589934592]]}
    return Reader("deps.json", read, [json.dumps(one).encode() for one in (graph(), pairs)])


def _name_map(_folder: Path) -> Reader:
    names = {"level": 2, "orchestrator_name": None, "callable_id_to_name": {"0": "square", "1": "sum"}}
    return Reader("map.json", lambda folder: read_name_map(folder / "map.json"), [json.dumps(names).encode()])


def _kernel_config(_folder: Path) -> Reader:
    return Reader("kernel_config.py", KernelConfig.open, [KERNEL_CONFIG.encode()])


def _orchestration(_folder: Path) -> Reader:
    return Reader(
        "sums.cpp",
        lambda folder: Orchestration.open(Folder.open(folder, expected="a build"), "sums.cpp"),
        [ORCHESTRATION.encode()],
    )


def _passes_dump(_folder: Path) -> Reader:
    loop = kernel(
        f"x: {tensor(4, 8)}, y: pl.Out[{tensor(4, 8)}]",
        "for i in pl.range(0, 4, 1):",
        f"    t: {tile(1, 8)} = pl.tile.load(x, [i, 0], [1, 8], [1, 8], target_memory=pl.Mem.Vec)",
        f"    s: {tile(1, 8)} = pl.tile.exp(t)",
        "    y = pl.tile.store(s, [i, 0], y)",
        "return y",
    )
    memory = kernel(
        f"x: {tensor(4, 8)}, y: pl.Out[{tensor(4, 8)}]",
        f"t: {tile(4, 8, at=('mem_vec_0', 0, 128))} = {load('x', [4, 8])}",
        f"s: {tile(4, 8, at=('mem_vec_0', 128, 128))} = pl.tile.mul(t, t)",
        "r = pl.tile.store(s, [0, 0], y)",
        "return r",
    )

    def read(folder: Path) -> None:
        program = read_dump(folder / "00_frontend.py")
        run = MemoryExecution(program, addresses_assigned=True, capacities=CAPACITIES_910B)
        for execution in (Execution(program), run):
            execution.run({"x": torch.ones(4, 8), "y": torch.zeros(4, 8)})

    return Reader("00_frontend.py", read, [dump(each).encode() for each in (loop, memory)], (MeaningError,))


_TENSORS = (torch.arange(24.0).reshape(4, 6)[1:, ::2], torch.tensor(True), torch.ones(3).bfloat16())


def _saved(save: Callable[[io.BytesIO], object]) -> bytes:
    buffer = io.BytesIO()
    save(buffer)
    return buffer.getvalue()


def _torch_file(_folder: Path) -> Reader:
    return Reader(
        "t.pt",
        lambda folder: TensorFolder.open(folder).tensor("t").contiguous(),
        [_saved(partial(torch.save, tensor)) for tensor in _TENSORS],
    )


def _tensors(name: str, sound: Sequence[bytes]) -> Reader:
    """Files as `diff-tensors` takes them."""

    def read(folder: Path) -> None:
        whole = Folder.open(folder, expected="a folder")
        for mapped in (True, False):
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                for stored in load_tensors(whole, name, mapped=mapped).tensors.values():
                    assert stored.geometry().shape == stored.open().contiguous().shape

    return Reader(name, read, sound)


def _state_dict(_folder: Path) -> Reader:
    dictionary = {"a": {"w": torch.ones(2), "n": 3}, "c": [torch.ones(2, dtype=torch.complex64)]}
    return _tensors("t.pth", [_saved(partial(torch.save, each)) for each in (dictionary, *_TENSORS)])


def _npy(_folder: Path) -> Reader:
    arrays = (np.arange(6.0).reshape(2, 3), np.asfortranarray(np.ones((2, 3), np.complex64)), np.array(True))
    return _tensors("t.npy", [_saved(lambda file, array=array: np.save(file, array)) for array in arrays])


def _npz(_folder: Path) -> Reader:
    arrays: dict[str, Any] = {"x": np.arange(50), "y": np.ones((2, 2), np.complex64)}
    return _tensors(
        "t.npz",
        [_saved(lambda file, save=save: save(file, **arrays)) for save in (np.savez, np.savez_compressed)],
    )


_STACK = b"""extends = "pypto"
searched = "pypto"

[repositories.pypto]
path = "."
ignore = ["docs/", "*.md"]

[case]
command = ["{python}", "{case}", "-p", "{platform}"]
variables = { SEED = "1" }

[limits]
memory_gib = 4
"""
_SETTINGS = b"""store = "sqlite:////tmp/store.sqlite"
confidence = 0.95
timeout = 600
jobs = 2
repository = { pypto = "." }
"""
_NIGHTLY = b"""job = "night"
stack = "pypto"
cases = ["examples/hello.py --rows 8"]
timeout = "20m"
window = { start = 22:00:00, end = 06:00:00 }

[platforms.a2a3sim]
runs = 20

[tolerances]
default = []
"""


def _stack_file(_folder: Path) -> Reader:
    return Reader("s.toml", lambda folder: load_stack(str(folder / "s.toml")), [_STACK], (UserError,))


def _settings(_folder: Path) -> Reader:
    return Reader(
        OWN_FILE,
        lambda folder: read_settings(folder / OWN_FILE).option_values(),
        [_SETTINGS],
        (UserError,),
    )


def _nightly_file(_folder: Path) -> Reader:
    return Reader("n.toml", lambda folder: load_config(folder / "n.toml"), [_NIGHTLY], (UserError,))


def _bisect_log(_folder: Path) -> Reader:
    log = f"# bad: [x] y\ngit bisect start 'main' '{'a' * 40}' -- 'src dir'\ngit bisect skip {'b' * 40}\n"
    return Reader("log", lambda folder: BisectLog.read(folder / "log"), [log.encode()], (UserError,))


_SUBMISSION: Mapping[str, object] = {
    "bisection": "mine",
    "user": "ada",
    "words": ["--good", "HEAD~3", "--bad", "HEAD", "--", "sh", "-c", "exit 0"],
    "folder": "/tmp",
    "priority": 3,
    "board": "a2a3",
    "device": 1,
}


def _submission(folder: Path) -> Reader:
    writing = QueueWriter(
        sessions=open_store(sqlite_url(folder / "store.sqlite")), check=check_remote_submission
    )
    sound = json.dumps(_SUBMISSION).encode()

    def read(folder: Path) -> None:
        answer = writing.submit("ada", (folder / "body").read_bytes())
        assert b"\n" not in answer.body[:-1]
        if answer.status is HTTPStatus.BAD_REQUEST:
            raise RefusedSubmissionError(answer.body)
        if answer.status is not HTTPStatus.CREATED:
            raise WrongAnswerError(answer.body)

    return Reader("body", read, [sound], (RefusedSubmissionError,))


class _Server(SiteServer):
    """Keeps what kept it from an answer."""

    failures: list[BaseException]

    def handle_error(self, request: Any, client_address: Any) -> None:
        error = sys.exception()
        if error is not None and not isinstance(error, OSError):
            self.failures.append(error)

    def has_left(self, connection: socket.socket) -> bool:
        """Clients here say that no more of the request comes, and wait for the answer."""
        return False


@contextmanager
def _http(folder: Path) -> Generator[Reader]:
    url = sqlite_url(folder / "store.sqlite")
    sessions = open_store(url)
    token = TokenJournal(sessions).new("ada")
    writing = QueueWriter(sessions=sessions, check=check_remote_submission)
    body = json.dumps(_SUBMISSION)
    head = "Host: localhost\r\nConnection: close\r\n"
    sound = [
        f"GET / HTTP/1.1\r\n{head}\r\n",
        f"GET /queue.json?x=1#y HTTP/1.1\r\n{head}\r\n",
        f"HEAD /queue/1.json HTTP/1.0\r\n{head}\r\n",
        f"POST /queue HTTP/1.1\r\n{head}Authorization: Bearer {token}\r\nContent-Length: {len(body)}\r\n\r\n{body}",
        f"POST /queue/1/cancel HTTP/1.1\r\n{head}Authorization: Bearer {token}\r\n\r\n",
    ]
    with _Server(open_read_only(url), "127.0.0.1", 0, writing=writing) as server:
        server.failures = []
        thread = threading.Thread(target=server.serve_forever)
        thread.start()

        def read(folder: Path) -> None:
            with socket.create_connection(("127.0.0.1", server.server_port)) as connection:
                answer = _answer(connection, (folder / "request").read_bytes())
            if server.failures:
                raise WrongAnswerError(answer) from server.failures.pop()
            if b" 500 " in answer.partition(b"\r\n")[0]:
                raise WrongAnswerError(answer)

        yield Reader("request", read, [each.encode() for each in sound], ())
        server.shutdown()
        thread.join()


def _answer(connection: socket.socket, request: bytes) -> bytes:
    """What comes back until the server has no more to say; it may stop reading before it has the whole request."""
    answer = b""
    try:
        connection.sendall(request)
        connection.shutdown(socket.SHUT_WR)
        while piece := connection.recv(1 << 16):
            answer += piece
    except (BrokenPipeError, ConnectionResetError, OSError):
        pass
    return answer


Opening = Callable[[Path], AbstractContextManager[Reader]]


def _without_end(make: Callable[[Path], Reader]) -> Opening:
    @contextmanager
    def opened(folder: Path) -> Generator[Reader]:
        yield make(folder)

    return opened


READERS: Mapping[str, Opening] = {
    **{
        name: _without_end(make)
        for name, make in {
            "args_dump": _args_dump,
            "task_graph": _task_graph,
            "name_map": _name_map,
            "kernel_config": _kernel_config,
            "orchestration": _orchestration,
            "passes_dump": _passes_dump,
            "torch_file": _torch_file,
            "state_dict": _state_dict,
            "npy": _npy,
            "npz": _npz,
            "stack_file": _stack_file,
            "settings": _settings,
            "nightly_file": _nightly_file,
            "bisect_log": _bisect_log,
            "submission": _submission,
        }.items()
    },
    "http_request": _http,
}
