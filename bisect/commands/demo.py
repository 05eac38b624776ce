"""`bisect-precision demo`: the only place outside `demo/` that knows it exists."""

import json
import shlex
from pathlib import Path

from ...demo.make import Truth, make_demo
from ...demo.scenarios import Scenario
from ...runner.errors import UsageError
from ...runner.workspace.home import command_line, to_be_found
from ..report.folder import check_place
from .command_line.options import DemoOptions
from .errors import run_command


def make_demo_stack(options: DemoOptions) -> int:
    """Make a demo stack and print how to bisect it; the exit code."""

    def body() -> int:
        directory, scenario = options.directory, options.scenario
        if scenario not in list(Scenario):
            raise UsageError(f"--scenario {scenario}: expected one of {', '.join(Scenario)}")
        check_place(directory, what="the stack", mend="name another folder")
        try:
            truth = make_demo(
                directory, scenario=Scenario(scenario), commits=options.commits, seed=options.seed
            )
        except ValueError as error:
            raise UsageError(f"demo {directory}: {error}") from error
        words = _bisect_words(directory, truth)
        script = directory / "find.sh"
        script.write_text(f'#!/bin/sh\nexec {shlex.join(to_be_found(words))} "$@"\n')
        script.chmod(0o755)
        if options.as_json:
            print(json.dumps({"directory": str(directory.absolute()), "command": words}))
            return 0
        print(
            f"made {directory}: minipto, minirt, minilib, stack.toml; the truth is in truth.json. To find it:"
        )
        print(f"  {command_line(words)}")
        return 0

    return run_command(body)


def _bisect_words(directory: Path, truth: Truth) -> list[str]:
    words = ["bisect-precision", "--stack", str(directory.absolute() / "stack.toml"), "--case", truth.case]
    words += ["--good", truth.good[:12], "--bad", truth.bad[:12]]
    if truth.bad_when != "mismatch":
        words += ["--bad-when", truth.bad_when]
    return words
