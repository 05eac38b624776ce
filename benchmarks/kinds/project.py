"""Small projects in the states that a commit of a case can have, and what their tools printed in each of them.

`projects/NAME.toml` holds the sources that pass, and each other state as edits of them. `recordings/NAME.json` holds
what the project's command printed in each state. A state is named `fault`, or `fault+import` where the sources have
both edits.
"""

import json
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parent
RECORDINGS = FOLDER / "recordings"


@dataclass(frozen=True)
class State:
    """How sources and command differ from those that pass. `written` is the output of a tool that is not here."""

    edits: Sequence[tuple[str, str, str]] = ()
    remove: Sequence[str] = ()
    run: str | None = None
    written: Sequence[Mapping[str, Any]] = ()


@dataclass(frozen=True)
class Project:
    name: str
    tool: str
    run: str
    files: Mapping[str, str]
    states: Mapping[str, State] = field(default_factory=dict[str, State])

    def sources(self, name: str) -> dict[str, str]:
        """The files of a state. Raises `ValueError` where an edit finds nothing to replace."""
        files = dict(self.files)
        for part in name.split("+"):
            state = self.states[part]
            for path, old, new in state.edits:
                if old and old not in files.get(path, ""):
                    raise ValueError(
                        f"{self.name}, state {name}: expected {old!r} in {path}: mend the state's edits"
                    )
                files[path] = files[path].replace(old, new) if old else new.lstrip("\n")
            for path in state.remove:
                del files[path]
        return files

    def tree(self, name: str) -> dict[str, str]:
        """The files of a commit in this state: of the last part alone, where its edits and the first one's collide."""
        try:
            return self.sources(name)
        except ValueError:
            return self.sources(name.rsplit("+", maxsplit=1)[-1])


def read_project(name: str) -> Project:
    data = tomllib.loads((FOLDER / "projects" / f"{name}.toml").read_text(encoding="utf-8"))
    states = {
        key: State(
            edits=[tuple(edit) for edit in state.get("edits", [])],
            remove=state.get("remove", []),
            run=state.get("run"),
            written=state.get("written", []),
        )
        for key, state in data["states"].items()
    }
    return Project(name, data["tool"], data["run"], data["files"], states)


def read_projects() -> dict[str, Project]:
    names = sorted(path.stem for path in (FOLDER / "projects").glob("*.toml"))
    return {name: read_project(name) for name in names}


def read_recordings(name: str) -> dict[str, Any]:
    return json.loads((RECORDINGS / f"{name}.json").read_text(encoding="utf-8"))["states"]
