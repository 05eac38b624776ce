"""Writes down one case of a scene test: its sources, what it says of them (`scene.json`), and its data, drawn once.

    python export.py SCRIPT -p PLATFORM --output DIR [--case [CLASS::]NAME]

Runs under the stack's own interpreter. Inputs and expected outputs are saved as `data/in/I.pt` and `data/out/I.pt`,
where I counts tensors, then scalars, in the order of the case's arguments. Sources keep their places relative to each
other below `kernels/`, with the headers that they include by a relative path.
"""

from __future__ import annotations

import argparse
import importlib
import importlib.util
import json
import os
import random
import re
import shutil
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

_INCLUDE = re.compile(r'^\s*#\s*include\s*"([^"]+)"', re.MULTILINE)


def main() -> None:
    """Write one case of the script as a build directory."""
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
    base: Any = importlib.import_module("simpler_setup").SceneTestCase
    names: list[str] = dir(module)
    defined: list[Any] = [one for name in names if isinstance(one := getattr(module, name), type)]
    cases: dict[str, tuple[Any, Any]] = {
        f"{one.__name__}::{case['name']}": (one, case)
        for one in defined
        if issubclass(one, base) and one.__module__ == module.__name__
        for case in one.CASES
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
    """Copy a case's sources with their headers, and write which of them are its entry and kernels."""
    entry, incores = scene_class.CALLABLE["orchestration"], scene_class.CALLABLE["incores"]
    files = _add_headers(Path(one["source"]).resolve() for one in (entry, *incores))
    root = Path(os.path.commonpath([file.parent for file in files]))
    for file in files:
        target = output / "kernels" / file.relative_to(root)
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(file, target)

    def describe_source(one: Any) -> dict[str, Any]:
        return {
            "source": str(Path("kernels") / Path(one["source"]).resolve().relative_to(root)),
            "signature": [direction.name for direction in one.get("signature", [])],
        }

    names: list[str] = []
    for one in incores:
        name = str(one.get("name") or Path(one["source"]).stem)
        names.append(name if name not in names else f"{name}_{one['func_id']}")
    described_case = {
        "runtime_config": {"runtime": scene_class._st_runtime, **case.get("config", {})},
        "orchestration": {**describe_source(entry), "function_name": entry["function_name"]},
        "kernels": [
            {
                **describe_source(one),
                "func_id": one["func_id"],
                "name": name,
                "core_type": one["core_type"],
                "extra_include_dirs": _include_dirs(one),
            }
            for name, one in zip(names, incores, strict=True)
        ],
    }
    (output / "scene.json").write_text(json.dumps(described_case), encoding="utf-8")


def _include_dirs(one: Any) -> list[str]:
    folders: Iterable[Any] = one.get("extra_include_dirs") or []
    return [os.path.expandvars(str(folder)) for folder in folders]


def _add_headers(sources: Iterable[Path]) -> list[Path]:
    """Return the files, and the headers that they include by a path from their own folder."""
    waiting, found = list(sources), dict[Path, None]()
    while waiting:
        file = waiting.pop()
        if file in found:
            continue
        found[file] = None
        included = _INCLUDE.findall(file.read_text(encoding="utf-8", errors="replace"))
        waiting += [header for name in included if (header := (file.parent / name).resolve()).is_file()]
    return list(found)


def _write_data(scene_class: Any, case: Any, folder: Path) -> None:
    torch: Any = importlib.import_module("torch")
    torch.manual_seed(0)
    random.seed(0)
    importlib.import_module("numpy").random.seed(0)
    scene = scene_class()
    given = scene.generate_args(case.get("params", {}))
    expected = given.clone()
    scene.compute_golden(expected, case.get("params", {}))
    signature = scene_class.CALLABLE["orchestration"]["signature"]
    (folder / "in").mkdir(parents=True)
    (folder / "out").mkdir()
    for position, one in enumerate(given.specs):
        is_tensor = isinstance(one.value, torch.Tensor)
        direction = signature[position].name if is_tensor else "IN"
        if direction != "OUT":
            value = one.value if is_tensor else torch.tensor(getattr(one.value, "value", one.value))
            torch.save(value.contiguous().clone(), folder / "in" / f"{position}.pt")
        if direction != "IN":
            result = getattr(expected, one.name)
            torch.save(result.contiguous().clone(), folder / "out" / f"{position}.pt")


if __name__ == "__main__":
    main()
