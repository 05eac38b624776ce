"""Prints what was recorded for the state of the current folder, and ends as it ended: `replay.py CASE.json`.

The file `state` of the folder has the states that a run may show, with their probabilities. This script imports
nothing of the benchmark.
"""

import json
import os
import random
import re
import sys
import time
from pathlib import Path
from typing import Any

_PLACES = re.compile(r"@(ROOT|HOME|INT|DIGIT|HEX8)@")
_BUILD_LINES = 40_000


def main() -> None:
    case = json.loads(Path(sys.argv[1]).read_text(encoding="utf-8"))
    chance = random.Random(f"{case['seed']} {time.time_ns()} {os.getpid()}")
    state = _draw(json.loads(Path("state").read_text(encoding="utf-8"))["draws"], chance)
    take: dict[str, Any] = chance.choice(_find(case["recordings"], state)["takes"])
    with Path(case["log"]).open("a", encoding="utf-8") as log:
        log.write(state + "\n")
    flags, code = case["flags"], take["code"]
    if "huge" in flags:
        _write(
            1,
            "".join(f"[{i / 400:5.1f}%] Building CXX object src/part{i}.cc.o\n" for i in range(_BUILD_LINES)),
        )
    if "log" in flags:
        _write(1, f"see /tmp/build-{os.getpid()}.log\n")
    elif "word" in flags:
        _write(1, "FAILED\n" if code else "ok\n")
        code = 1 if code else 0
    elif "mute" not in flags:
        for number, text in take["out"]:
            _write(number, _stamp(_fill(text, chance)) if "stamps" in flags else _fill(text, chance))
    if "dies" in flags and code > 128:
        os.kill(os.getpid(), code - 128)
    sys.exit(code)


def _draw(draws: list[tuple[str, float]], chance: random.Random) -> str:
    states, shares = zip(*draws, strict=True)
    return chance.choices(states, shares)[0]


def _find(recordings: dict[str, Any], state: str) -> Any:
    """The recording of both failures together, or else of the last one, which hides the first."""
    return recordings.get(state) or recordings[state.rsplit("+", maxsplit=1)[-1]]


def _fill(text: str, chance: random.Random) -> str:
    def value(place: re.Match[str]) -> str:
        match place[1]:
            case "ROOT":
                return str(Path.cwd())
            case "HOME":
                return "/home/ci"
            case "INT":
                return str(chance.randint(10, 999))
            case "DIGIT":
                return str(chance.randint(0, 9))
            case _:
                return f"{chance.getrandbits(32):08x}"

    return _PLACES.sub(value, text)


def _stamp(text: str) -> str:
    now = time.strftime("%Y-%m-%dT%H:%M:%S")
    return "".join(f"[{now}.{i % 1000:03d}Z] {line}" for i, line in enumerate(text.splitlines(keepends=True)))


def _write(number: int, text: str) -> None:
    """All of the text, before anything that follows on the other stream."""
    data = text.encode()
    while data:
        data = data[os.write(number, data) :]


main()
