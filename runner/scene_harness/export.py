"""Exports one case of a scene test: its sources, a description of them (`scene.json`), and its data.

    python export.py SCRIPT -p PLATFORM --output DIR [--case [CLASS::]NAME]
    python export.py --run SCRIPT [ARGUMENT ...]

The second line runs the script as `python SCRIPT ...` would, with every random number generator started from one seed.
So two revisions of a script that draw the same numbers get the same ones.

This file runs under the stack's own interpreter. Inputs and expected outputs are saved as `data/in/I.pt` and
`data/out/I.pt`, where I counts tensors, then scalars, in the order of the case's arguments. Sources, and the headers
that they include by a relative path, are copied to `kernels/` and keep their places relative to each other.
"""

from __future__ import annotations

import argparse
import importlib
import importlib.util
import json
import os
import random
import re
import runpy
import shutil
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

_INCLUDE = re.compile(r'^\s*#\s*include\s*"([^"]+)"', re.MULTILINE)


def main() -> None:
    """Write one case of the script as a build directory, or run the script with `--run`."""
    if sys.argv[1:2] == ["--run"]:
        _run_seeded(sys.argv[2:])
        return
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("script", type=Path)
    parser.add_argument("-p", "--platform", required=True)
    parser.add_argument("--output", type=Path, required=True)
    parser.add_argument("--case")
    options = parser.parse_args()
    scene_class, case = _select(_load(options.script.resolve()), options.case, options.platform)
    options.output.mkdir(parents=True)
    _write_sources(scene_class, case, options.output)
    _write_data(scene_class, case, options.output / "data")


def _run_seeded(argv: list[str]) -> None:
    """Run a script with its arguments."""
    script = Path(argv[0]).resolve()
    sys.argv = argv
    sys.path[0] = str(script.parent)
    _seed_generators()
    runpy.run_path(str(script), run_name="__main__")


def _seed_generators() -> None:
    """Seed the random numbers of torch, numpy and Python."""
    importlib.import_module("torch").manual_seed(0)
    importlib.import_module("numpy").random.seed(0)
    random.seed(0)


def _load(script: Path) -> Any:
    """Import the script under its own name, so that it does not run its cases."""
    sys.path.insert(0, str(script.parent))
    spec = importlib.util.spec_from_file_location(script.stem, script)
    if spec is None or spec.loader is None:
        raise SystemExit(f"{script}: expected a scene test, found no Python file")
    module = importlib.util.module_from_spec(spec)
    sys.modules[script.stem] = module
    spec.loader.exec_module(module)
    return module


def _select(module: Any, wanted: str | None, platform: str) -> tuple[Any, Any]:
    """Return the class and the case that is wanted, or the only case for the platform. Exits where there is none."""
    base: Any = importlib.import_module("simpler_setup").SceneTestCase
    names: list[str] = dir(module)
    classes: list[Any] = [each for name in names if isinstance(each := getattr(module, name), type)]
    cases: dict[str, tuple[Any, Any]] = {
        f"{each.__name__}::{case['name']}": (each, case)
        for each in classes
        if issubclass(each, base) and each.__module__ == module.__name__
        for case in each.CASES
        if platform in case["platforms"]
    }
    chosen = [name for name in cases if wanted is None or wanted in (name, name.partition("::")[2])]
    if len(chosen) != 1:
        raise SystemExit(
            f"{module.__file__}: expected one case for {platform}{f' called {wanted}' if wanted else ''}, "
            f"found {', '.join(chosen) or 'none'} among {', '.join(cases) or 'none'}; name it with --scene-case"
        )
    scene_class, case = cases[chosen[0]]
    if scene_class._st_level != 2:
        raise SystemExit(f"{module.__file__}: expected a case for one chip, found {chosen[0]} for several")
    if scene_class.RUNTIME_ENV:
        raise SystemExit(f"{module.__file__}: expected a case without RUNTIME_ENV, found {chosen[0]} with it")
    if case.get("skip_golden", getattr(scene_class, "SKIP_GOLDEN", False)):
        raise SystemExit(
            f"{module.__file__}: expected a case with a golden result, found {chosen[0]} without"
        )
    return scene_class, case


def _write_sources(scene_class: Any, case: Any, output: Path) -> None:
    """Copy a case's sources with their headers, and describe its orchestration and kernels in `scene.json`."""
    orchestration, kernels = scene_class.CALLABLE["orchestration"], scene_class.CALLABLE["incores"]
    files = _collect_sources(Path(each["source"]).resolve() for each in (orchestration, *kernels))
    root = Path(os.path.commonpath([file.parent for file in files]))
    for file in files:
        target = output / "kernels" / file.relative_to(root)
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(file, target)

    def describe_source(part: Any) -> dict[str, Any]:
        return {
            "source": str(Path("kernels") / Path(part["source"]).resolve().relative_to(root)),
            "signature": [direction.name for direction in part.get("signature", [])],
        }

    names: list[str] = []
    for kernel in kernels:
        name = str(kernel.get("name") or Path(kernel["source"]).stem)
        names.append(name if name not in names else f"{name}_{kernel['func_id']}")
    description = {
        "runtime_config": {"runtime": scene_class._st_runtime, **case.get("config", {})},
        "orchestration": {**describe_source(orchestration), "function_name": orchestration["function_name"]},
        "kernels": [
            {
                **describe_source(kernel),
                "func_id": kernel["func_id"],
                "name": name,
                "core_type": kernel["core_type"],
                "extra_include_dirs": _include_dirs(kernel),
            }
            for name, kernel in zip(names, kernels, strict=True)
        ],
    }
    (output / "scene.json").write_text(json.dumps(description), encoding="utf-8")


def _include_dirs(kernel: Any) -> list[str]:
    folders: Iterable[Any] = kernel.get("extra_include_dirs") or []
    return [os.path.expandvars(str(folder)) for folder in folders]


def _collect_sources(sources: Iterable[Path]) -> list[Path]:
    """Return the sources, and the headers that they include by a path from their own folder."""
    todo, files = list(sources), dict[Path, None]()
    while todo:
        file = todo.pop()
        if file in files:
            continue
        files[file] = None
        included = _INCLUDE.findall(file.read_text(encoding="utf-8", errors="replace"))
        todo += [header for name in included if (header := (file.parent / name).resolve()).is_file()]
    return list(files)


def _write_data(scene_class: Any, case: Any, folder: Path) -> None:
    """Draw the case's inputs from a fixed seed, and save them and the expected outputs."""
    torch: Any = importlib.import_module("torch")
    _seed_generators()
    scene = scene_class()
    given = scene.generate_args(case.get("params", {}))
    expected = given.clone()
    scene.compute_golden(expected, case.get("params", {}))
    signature = scene_class.CALLABLE["orchestration"]["signature"]
    (folder / "in").mkdir(parents=True)
    (folder / "out").mkdir()
    for position, argument in enumerate(given.specs):
        is_tensor = isinstance(argument.value, torch.Tensor)
        direction = signature[position].name if is_tensor else "IN"
        if direction != "OUT":
            # A scalar may be a number of ctypes, whose value is an attribute.
            value = getattr(argument.value, "value", argument.value)
            saved = argument.value if is_tensor else torch.tensor(value)
            torch.save(saved.contiguous().clone(), folder / "in" / f"{position}.pt")
        if direction != "IN":
            result = getattr(expected, argument.name)
            torch.save(result.contiguous().clone(), folder / "out" / f"{position}.pt")


if __name__ == "__main__":
    main()
