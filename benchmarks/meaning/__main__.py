"""python -m benchmarks.meaning --pypto PYTHON --pypto-source DIR --pypto-lib DIR: how much of real dumps is executed.

PYTHON is the interpreter of a virtual environment with a built pypto; DIR its checkout, whose examples are compiled,
and a checkout of pypto-lib of the same month. Each example is compiled with its passes dumped, which needs no
assembler and no simulator. Each dump is then run by `meaning` on values and bytes, and by pypto's own
`torch_codegen` on values. Both are judged by the example's own expected outputs and tolerance. Where an example checks
nothing, meaning is judged by the exact execution of its frontend, and torch_codegen's outputs by nothing.

    results/coverage.json    one row a kernel
    results/README.md        the table
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
COMPILE_SECONDS, CLIMB_SECONDS = 300, 240
MODELS = (
    "deepseek/v4/hc_head",
    "deepseek/v4/hc_post",
    "deepseek/v4/gate",
    "deepseek/v4/rmsnorm",
    "deepseek/v4/mtp_projection",
    "deepseek/v4/expert_shared",
    "deepseek/v4/qkv_proj_rope",
    "deepseek/v4/decode_indexer_compressor",
    "deepseek/v4/decode_compressor_ratio4",
    "deepseek/v4/decode_compressor_ratio128",
    "deepseek/v4/decode_indexer",
    "deepseek/v4/decode_sparse_attn_swa",
)
SKIPPED = {"allreduce.py"}
"""They run on several chips."""


def scripts(source: Path, library: Path) -> list[Path]:
    found = [
        *sorted((source / "examples").glob("kernels/[0-9]*.py")),
        *sorted((source / "examples").glob("models/[0-9]*.py")),
    ]
    found += sorted((library / "examples").glob("*/*.py"))
    found += [
        library / "models" / f"{name}.py" for name in MODELS if (library / "models" / f"{name}.py").exists()
    ]
    return [path for path in found if path.name not in SKIPPED]


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
            timeout=COMPILE_SECONDS,
            check=False,
        )
        lines = run.stdout.splitlines()
    except subprocess.TimeoutExpired as error:
        lines = [*(error.stdout or b"").decode().splitlines(), f"SCRIPT did not end in {COMPILE_SECONDS} s"]
    builds = [Path(line.removeprefix("CASE ")) for line in lines if line.startswith("CASE ")]
    return builds, [line for line in lines if line.startswith(("COMPILE", "SCRIPT"))]


def climb_build(build: Path) -> dict[str, Any]:
    try:
        run = subprocess.run(
            [sys.executable, "-m", "benchmarks.meaning.climb_case", build],
            capture_output=True,
            text=True,
            timeout=CLIMB_SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return {"problems": [f"did not end in {CLIMB_SECONDS} s"]}
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
    lines = [
        "# Dumps executed\n",
        f"Made by `python -m benchmarks.meaning` ({revisions}).",
        f"{len(measured)} kernels, {pairs} pairs of a kernel and a pass.\n",
        "| | executed | right |",
        "| --- | ---: | ---: |",
        f"| meaning (values and bytes) | {ours / pairs:.1%} | {right / pairs:.1%} |",
        f"| torch_codegen (values) | {theirs / pairs:.1%} | {their_right / pairs:.1%} |",
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


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--pypto", type=Path, required=True, metavar="PYTHON")
    parser.add_argument("--pypto-source", type=Path, required=True, metavar="DIR")
    parser.add_argument("--pypto-lib", type=Path, required=True, metavar="DIR")
    parser.add_argument(
        "--builds", type=Path, metavar="DIR", help="keep the builds there, and use those that are there"
    )
    parser.add_argument("--only", default="", metavar="TEXT", help="scripts whose path holds it")
    arguments = parser.parse_args()
    source, library = arguments.pypto_source.resolve(), arguments.pypto_lib.resolve()
    paths = [source / "python", source / "runtime" / "python", source, library]
    rows: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory() as temporary:
        root = (arguments.builds or Path(temporary)).resolve()
        for script in scripts(source, library):
            name = f"{'pypto-lib' if script.is_relative_to(library) else 'pypto'}/{script.parent.name}/{script.name}"
            if arguments.only not in name:
                continue
            folder = root / name.replace("/", "_").removesuffix(".py")
            builds = sorted(path.parent for path in folder.glob("builds/*/case.pt"))
            problems: list[str] = []
            if not builds:
                builds, problems = compile_script(arguments.pypto, script, folder, paths)
            rows += [{"script": name, "kernel": kernel_name(build), **climb_build(build)} for build in builds]
            if not builds:
                rows.append(
                    {"script": name, "kernel": "", "problems": problems or ["no kernel was compared"]}
                )
            print(name, len(builds), *problems, flush=True)
            results = HERE / "results"
            results.mkdir(exist_ok=True)
            (results / "coverage.json").write_text(json.dumps(rows, indent=1) + "\n")
            revisions = f"pypto {revision(source)}, pypto-lib {revision(library)}"
            (results / "README.md").write_text(table(rows, revisions))


if __name__ == "__main__":
    main()
