"""python -m benchmarks.meaning --name NAME --pypto PYTHON --pypto-source DIR --pypto-lib DIR: how much is executed.

PYTHON is the interpreter of a virtual environment with a built pypto; DIR its checkout, whose examples are compiled,
and a checkout of pypto-lib of the same month. Each example is compiled with its passes dumped, which needs no
assembler and no simulator; of pypto-lib's models the shortest scripts that need one chip. Each dump is then run by
`meaning` on values and bytes, and by pypto's own `torch_codegen` on values. Both are judged by the example's own
expected outputs and tolerance. Where an example checks nothing, meaning is judged by the exact execution of its
frontend, and torch_codegen's outputs by nothing. A kernel that does not end in time counts in no share.

    results/coverage-NAME.json    one row a kernel
    results/coverage-NAME.md      the table
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
from functools import partial
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
COMPILE_SECONDS, CLIMB_SECONDS = 240, 150
"""A script and a climb may take so much of a core."""
MAX_SECONDS = 1200
"""They may take so long, whatever else the machine does."""
MAX_BYTES = 14 << 30
"""The addresses that they may use: a larger model would take the memory of all others on the machine."""
MODELS = 60
SEVERAL_CHIPS = ("distributed", "allreduce.py", "explicit_dispatch.py")
"""Examples whose path holds one of these run on several chips."""


def scripts(source: Path, library: Path) -> list[Path]:
    """The examples of both repositories, and the shortest models."""
    examples = [
        path
        for path in (
            *sorted((source / "examples").glob("*.py")),
            *sorted((source / "examples").glob("*/*.py")),
            *sorted((library / "examples").glob("*/*.py")),
        )
        if path.name != "__init__.py"
        and not any(word in str(path.relative_to(source.parent)) for word in SEVERAL_CHIPS)
    ]
    models = {path: path.read_text() for path in (library / "models").rglob("*.py")}
    runnable = [
        path
        for path, text in models.items()
        if "run_jit(" in text
        and "__main__" in text
        and "device_ids" not in text
        and "pl.distributed" not in text
    ]
    runnable.sort(key=lambda path: (models[path].count("\n"), str(path)))
    return examples + runnable[:MODELS]


def limit_core(seconds: int) -> None:
    """Let this process have so much of a core, and be killed then; it gets no memory beyond `MAX_BYTES`."""
    resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds))
    resource.setrlimit(resource.RLIMIT_AS, (MAX_BYTES, MAX_BYTES))


def compile_script(
    python: Path, script: Path, folder: Path, paths: list[Path]
) -> tuple[list[Path], list[str]]:
    """The builds of a script's kernels, and what went wrong."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(map(str, [*paths, script.parent]))}
    try:
        run = subprocess.run(
            [python, HERE / "dump_cases.py", script, folder],
            env=environment,
            capture_output=True,
            text=True,
            timeout=MAX_SECONDS,
            preexec_fn=partial(limit_core, COMPILE_SECONDS),
            check=False,
        )
        lines = run.stdout.splitlines()
    except subprocess.TimeoutExpired as error:
        lines = [*(error.stdout or b"").decode().splitlines(), f"SCRIPT did not end in {MAX_SECONDS} s"]
    builds = [Path(line.removeprefix("CASE ")) for line in lines if line.startswith("CASE ")]
    return builds, [line for line in lines if line.startswith(("COMPILE", "SCRIPT"))]


def climb_build(build: Path) -> dict[str, Any]:
    try:
        run = subprocess.run(
            [sys.executable, "-m", "benchmarks.meaning.climb_case", build],
            capture_output=True,
            text=True,
            timeout=MAX_SECONDS,
            preexec_fn=partial(limit_core, CLIMB_SECONDS),
            check=False,
        )
    except subprocess.TimeoutExpired:
        return {"problems": [f"did not end in {MAX_SECONDS} s"]}
    if run.returncode < 0:
        return {"problems": [f"did not end in {CLIMB_SECONDS} s of a core"]}
    if run.returncode:
        return {"problems": run.stderr.splitlines()[-1:]}
    return json.loads(run.stdout)


def kernel_name(build: Path) -> str:
    return build.name.removeprefix("_jit_").rsplit("_", 2)[0]


def table(rows: list[dict[str, Any]], revisions: str) -> str:
    """The rows as Markdown, with the shares of all (kernel, pass) pairs above."""
    measured = [row for row in rows if "passes" in row]
    pairs = sum(row["passes"] for row in measured)
    ours = sum(row["right"] + row["wrong"] for row in measured)
    right = sum(row["right"] for row in measured)
    theirs = sum(row["torch_codegen"]["right"] + row["torch_codegen"]["wrong"] for row in measured)
    their_right = sum(row["torch_codegen"]["right"] for row in measured)
    scripts = len({row["script"] for row in measured})
    late = sum(
        each.startswith("did not end") for row in rows if "passes" not in row for each in row["problems"]
    )
    lines = [
        f"# Dumps executed, {revisions}\n",
        f"Made by `python -m benchmarks.meaning`. {scripts} scripts, {len(measured)} kernels, {pairs} pairs of a",
        f"kernel and a pass. {late} kernels did not end in {CLIMB_SECONDS} s of a core, and count in no share.\n",
        "| | executed | right |",
        "| --- | ---: | ---: |",
        f"| meaning (values and bytes) | {ours / (pairs or 1):.1%} | {right / (pairs or 1):.1%} |",
        f"| torch_codegen (values) | {theirs / (pairs or 1):.1%} | {their_right / (pairs or 1):.1%} |",
        "",
        "| script | kernel | passes | executed | right | torch_codegen right | seconds | MiB | first bad pass |",
        "| --- | --- | ---: | ---: | ---: | ---: | ---: | ---: | --- |",
    ]
    for row in rows:
        if "passes" not in row:
            lines.append(
                f"| {row['script']} | {row['kernel']} | | | | | | | {'; '.join(row['problems'])[:120]} |"
            )
            continue
        bad = "wrong from the start" if row["starts_wrong"] else row["first_bad"] or ""
        lines.append(
            f"| {row['script']} | {row['kernel']} | {row['passes']} | {row['right'] + row['wrong']} | {row['right']} "
            f"| {row['torch_codegen']['right']} | {row['seconds']} | {row['peak_mib']} | {bad} |"
        )
    notes = [
        f"- {row['script']}, {row['kernel']}: {text}"
        for row in measured
        for text in (*row["findings"][:1], *row["problems"][:1])
    ]
    return "\n".join([*lines, "", *notes, ""])


def revision(checkout: Path) -> str:
    run = subprocess.run(
        ["git", "-C", checkout, "log", "-1", "--format=%h of %cs"],
        capture_output=True,
        text=True,
        check=False,
    )
    return run.stdout.strip() or "unknown"


def publish(name: str, rows: list[dict[str, Any]], revisions: str) -> None:
    (HERE / "results" / f"coverage-{name}.json").write_text(json.dumps(rows, indent=1) + "\n")
    (HERE / "results" / f"coverage-{name}.md").write_text(table(rows, revisions))


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--name", required=True, help="of the results")
    parser.add_argument("--pypto", type=Path, required=True, metavar="PYTHON")
    parser.add_argument("--pypto-source", type=Path, required=True, metavar="DIR")
    parser.add_argument("--pypto-lib", type=Path, required=True, metavar="DIR")
    parser.add_argument(
        "--builds",
        type=Path,
        metavar="DIR",
        help="keep the builds there, and go on with those that are there",
    )
    parser.add_argument("--only", default="", metavar="TEXT", help="scripts whose path holds it")
    arguments = parser.parse_args()
    source, library = arguments.pypto_source.resolve(), arguments.pypto_lib.resolve()
    paths = [source / "python", source / "runtime" / "python", source / "runtime", source, library]
    rows: list[dict[str, Any]] = []
    revisions = f"pypto {revision(source)}, pypto-lib {revision(library)}"
    written = HERE / "results" / f"coverage-{arguments.name}.json"
    known: list[dict[str, Any]] = (
        json.loads(written.read_text()) if arguments.builds and written.exists() else []
    )
    with tempfile.TemporaryDirectory() as temporary:
        root = (arguments.builds or Path(temporary)).resolve()
        for script in scripts(source, library):
            top = library if script.is_relative_to(library) else source
            name = f"{'pypto-lib' if top is library else 'pypto'}/{script.relative_to(top)}"
            again = [row for row in known if row["script"] == name]
            if any("passes" in row for row in again) or arguments.only not in name:
                rows += again
                continue
            folder = root / name.replace("/", "_").removesuffix(".py")
            builds = sorted(path.parent for path in folder.glob("builds/*/torch_codegen.json"))
            problems: list[str] = []
            if not builds:
                builds, problems = compile_script(arguments.pypto, script, folder, paths)
            rows += [{"script": name, "kernel": kernel_name(build), **climb_build(build)} for build in builds]
            if not builds:
                rows.append(
                    {"script": name, "kernel": "", "problems": problems or ["no kernel was compared"]}
                )
            print(name, len(builds), *problems, flush=True)
            publish(arguments.name, rows, revisions)
        publish(arguments.name, rows, revisions)


if __name__ == "__main__":
    main()
