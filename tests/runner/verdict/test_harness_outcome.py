"""The outcome file comes from a process that runs code under test: everything wrong with it is one clear error."""

import json
import os
from pathlib import Path
from typing import Any

import pytest

from precision_bisect.runner.verdict.classify import MAX_BYTES, HarnessOutcomeError, read_harness_outcome


def document(**call: Any) -> dict[str, Any]:
    return {
        "schema_version": 1,
        "interpreter": {"executable": "/usr/bin/python3", "version": "3.11.7", "implementation": "CPython"},
        "calls": [
            {
                "function": "run",
                "finished": True,
                "passed": True,
                "validated": True,
                "error": None,
                "work_dir": "/b",
                "execution_time": 1.5,
                "exception": None,
                "applied": {"golden_data": "/d", "dump_args": 2, "save_data": True},
                "replaced": {},
                "not_applied": {},
                **call,
            }
        ],
    }


def read(path: Path, content: str | bytes) -> Any:
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return read_harness_outcome(path)


def test_a_good_file_is_read(tmp_path: Path) -> None:
    outcome = read(tmp_path / "o.json", json.dumps(document()))
    (call,) = outcome.calls
    assert call.applied == {"golden_data": "/d", "dump_args": 2, "save_data": True}
    assert call.applied["save_data"] is True
    assert call.execution_time == 1.5


def test_no_file_is_no_outcome(tmp_path: Path) -> None:
    assert read_harness_outcome(tmp_path / "none.json") is None


@pytest.mark.parametrize(
    "content",
    [
        "",
        "nonsense",
        "[]",
        "null",
        "{}",
        b"\xff\xfe\x00",
        "[" * 100_000,
        '{"a":' * 100_000,
        json.dumps({**document(), "schema_version": 2}),
        json.dumps({**document(), "extra": 1}),
        json.dumps({**document(), "calls": {}}),
        json.dumps(document(function="eval")),
        json.dumps(document(passed="yes")),
        json.dumps(document(passed=1)),
        json.dumps(document(finished=None)),
        json.dumps(document(execution_time=float("nan"))),
        json.dumps(document(execution_time=float("inf"))),
        json.dumps(document(execution_time="1")),
        json.dumps(document(error=["x"])),
        json.dumps(document(error="x" * 100_000)),
        json.dumps(document(applied={"x": [1]})),
        json.dumps(document(applied={str(i): 1 for i in range(100)})),
        json.dumps(document(not_applied={"x" * 1000: "y"})),
        json.dumps(document(exception={"type": "E"})),
        json.dumps({**document(), "calls": document()["calls"] * 10_001}),
    ],
    ids=lambda content: repr(content[-40:]),
)
def test_hostile_content_is_one_clear_error(tmp_path: Path, content: str | bytes) -> None:
    with pytest.raises(HarnessOutcomeError) as caught:
        read(tmp_path / "o.json", content)
    message = str(caught.value)
    assert str(tmp_path / "o.json") in message
    assert "\n" not in message
    assert len(message) < 1000
    assert message.isprintable()


def test_hostile_names_do_not_reach_the_message(tmp_path: Path) -> None:
    with pytest.raises(HarnessOutcomeError) as caught:
        read(tmp_path / "o.json", json.dumps({**document(), "\x1b[31m\n" + "x" * 5000: 1}))
    assert "\x1b" not in str(caught.value)
    assert len(str(caught.value)) < 1000


def test_a_file_over_the_limit_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "o.json"
    with path.open("wb") as file:
        file.truncate(MAX_BYTES + 1)
    with pytest.raises(HarnessOutcomeError, match=f"more than {MAX_BYTES} bytes"):
        read_harness_outcome(path)


def test_only_a_regular_file_is_opened(tmp_path: Path) -> None:
    (tmp_path / "real.json").write_text(json.dumps(document()))
    (tmp_path / "link.json").symlink_to("real.json")
    os.mkfifo(tmp_path / "pipe.json")
    (tmp_path / "folder.json").mkdir()
    for name in ("link.json", "pipe.json", "folder.json"):
        with pytest.raises(HarnessOutcomeError, match=name):
            read_harness_outcome(tmp_path / name)
