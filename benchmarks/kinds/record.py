"""Records what each project's command prints in each state: `python -m benchmarks.kinds.record [PROJECT ...]`.

README.md names the tools. A state whose output is `written` is not run. Each other one is run twice, as its output
may differ from run to run.
"""

import json
import os
import selectors
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from benchmarks.kinds.case import read_cases
from benchmarks.kinds.project import FOLDER, RECORDINGS, Project, State, read_projects

TOOLS = Path(os.environ.get("KINDS_TOOLS", FOLDER.parents[2] / "kinds-tools"))
_RUNS = 2


def _record(project: Project, name: str, run: str) -> dict[str, Any]:
    """One run: `code` is the exit code, or minus the signal; `out` has pieces of standard output (1) and error (2)."""
    with tempfile.TemporaryDirectory(prefix="kinds-") as folder:
        root = Path(folder) / project.name
        for path, text in project.sources(name).items():
            (root / path).parent.mkdir(parents=True, exist_ok=True)
            (root / path).write_text(text, encoding="utf-8")
        path = f"{TOOLS}/venv/bin:{TOOLS}/node_modules/.bin:{Path.home()}/.cargo/bin:/usr/local/bin:/usr/bin:/bin"
        process = subprocess.Popen(
            ["sh", "-c", run],
            cwd=root,
            env={
                "PATH": path,
                "HOME": str(Path.home()),
                "LC_ALL": "C.UTF-8",
                "PYTHONDONTWRITEBYTECODE": "1",
                "TMPDIR": folder,
            },
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        pieces = _read_pieces(process)
        code = process.wait()
    out: list[tuple[int, str]] = []
    for number, data in pieces:
        text = data.decode("utf-8", errors="replace")
        text = (
            text.replace(str(root), "@ROOT@").replace(folder, "/tmp/kinds").replace(str(TOOLS), "/opt/tools")
        )
        if out and out[-1][0] == number:
            out[-1] = (number, out[-1][1] + text)
        else:
            out.append((number, text))
    return {"code": code, "out": out}


def _read_pieces(process: subprocess.Popen[bytes]) -> list[tuple[int, bytes]]:
    """What the process prints, in the order in which it arrives."""
    pieces: list[tuple[int, bytes]] = []
    with selectors.DefaultSelector() as selector:
        for number, stream in ((1, process.stdout), (2, process.stderr)):
            assert stream is not None
            selector.register(stream, selectors.EVENT_READ, number)
        while selector.get_map():
            for key, _ in selector.select():
                data = os.read(key.fd, 1 << 16)
                if data:
                    pieces.append((key.data, data))
                else:
                    selector.unregister(key.fileobj)
    return pieces


def _written(state: State) -> list[dict[str, Any]]:
    takes: list[dict[str, Any]] = []
    for take in state.written:
        parts = ((2, take.get("err", "")), (1, take.get("out", "")))
        out = [(number, text.lstrip("\n")) for number, text in parts if text]
        takes.append({"code": take["exit"], "out": out})
    return takes


def record_project(project: Project, combined: set[str]) -> dict[str, Any]:
    """All states of the project, and those of `combined` whose edits do not collide."""
    states: dict[str, Any] = {}
    for name in [*project.states, *sorted(combined)]:
        parts = [project.states[part] for part in name.split("+")]
        if any(part.written for part in parts):
            if len(parts) == 1:
                states[name] = {"written": True, "takes": _written(parts[0])}
            continue
        try:
            project.sources(name)
        except ValueError:
            continue
        run = next((part.run for part in reversed(parts) if part.run), project.run)
        takes = [_record(project, name, run) for _ in range(_RUNS)]
        states[name] = {
            "written": False,
            "takes": [take for i, take in enumerate(takes) if take not in takes[:i]],
        }
        print(f"{project.name:16} {name:28} {sorted({take['code'] for take in takes})}", flush=True)
    _check(project, states)
    return states


def _check(project: Project, states: dict[str, Any]) -> None:
    """Raises `ValueError` where the good state fails or another one passes."""
    for name, state in states.items():
        passes = {take["code"] == 0 for take in state["takes"]}
        if passes != {name == "good"}:
            raise ValueError(
                f"{project.name}, state {name}: expected it to {'pass' if name == 'good' else 'fail'}"
            )


def main() -> None:
    combined: dict[str, set[str]] = {}
    for case in read_cases():
        names = {commit.state for commit in case.commits if commit.other and commit.base != "good"}
        combined.setdefault(case.project, set()).update(names)
    chosen = sys.argv[1:]
    for name, project in read_projects().items():
        if chosen and name not in chosen:
            continue
        states = record_project(project, combined.get(name, set()))
        text = json.dumps({"tool": project.tool, "run": project.run, "states": states}, indent=0)
        (RECORDINGS / f"{name}.json").write_text(text + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
