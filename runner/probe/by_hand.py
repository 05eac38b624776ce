"""A case that is built and left to a person to run: a script does what the run would have done."""

import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from ...store.files import write_whole


@dataclass(frozen=True, kw_only=True)
class LeftToPerson:
    """What a person needs to run the case in the slot. `script` runs it, or the words behind it in its place."""

    directory: Path
    script: Path


def leave_to_person(
    command: tuple[str, ...],
    *,
    directory: Path,
    environment: Mapping[str, str],
    inherited: Mapping[str, str],
    script: Path,
) -> LeftToPerson:
    """Write the script that runs a command in a folder, with the variables that differ from those inherited."""
    lines = ["#!/bin/sh", "# Runs the case as it was built here; with words behind it, these in its place."]
    lines.append(f"cd {shlex.quote(str(directory))} || exit")
    lines += [f"unset {name}" for name in sorted(inherited.keys() - environment.keys())]
    own = {name: value for name, value in environment.items() if inherited.get(name) != value}
    lines += [f"export {name}={shlex.quote(value)}" for name, value in sorted(own.items())]
    lines += ['[ "$#" -gt 0 ] && exec "$@"', f"exec {shlex.join(command)}"]
    write_whole(script, "".join(f"{line}\n" for line in lines))
    return LeftToPerson(directory=directory, script=script)
