"""Compilation: run the passes, generate code, write a build directory."""

from __future__ import annotations

import time
from pathlib import Path

from .codegen import generate
from .ir import Program
from .passes import PASSES
from .printer import print_program
from .types import CompileError


def compile(program: Program, *, work_dir: Path | None = None, dump_passes: bool = False) -> Path:
    """Write the build directory of `program` and return it.

    `work_dir` None makes a new `build_output/_jit_<name>_<time>` under the current directory. With `dump_passes`,
    `passes_dump/` gets the program before and after each pass. Raises CompileError; its message is also in
    `report/codegen_errors.txt`.
    """
    build_dir = work_dir or _new_build_dir(program.name)
    try:
        files = _lower(program, build_dir / "passes_dump" if dump_passes else None)
    except CompileError as error:
        _write(build_dir / "report" / "codegen_errors.txt", f"{program.name}: {error}\n")
        raise
    for name, text in files.items():
        _write(build_dir / name, text)
    return build_dir


def _lower(program: Program, dump_dir: Path | None) -> dict[str, str]:
    dumps = {"frontend": print_program(program)}
    for name, run in PASSES:
        program = run(program)
        dumps[f"after_{name}"] = print_program(program)
    files = generate(program)
    if dump_dir is not None:
        for position, (name, text) in enumerate(dumps.items()):
            _write(dump_dir / f"{position:02}_{name}.py", text)
        sources = "".join(f"==== {name}\n{text}\n" for name, text in sorted(files.items()))
        _write(dump_dir / f"{len(dumps):02}_after_GenerateCode.txt", sources)
    return files


def _write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def _new_build_dir(name: str) -> Path:
    stem = Path.cwd() / "build_output" / f"_jit_{name}_{time.strftime('%Y%m%d_%H%M%S')}"
    path, count = stem, 1
    while True:
        try:
            path.mkdir(parents=True)
        except FileExistsError:  # two builds of one program in one second
            count += 1
            path = stem.with_name(f"{stem.name}_{count}")
        else:
            return path
