"""Reads a build directory's kernel_config.py without executing it."""

from __future__ import annotations

import ast
from dataclasses import dataclass
from pathlib import Path
from typing import Any


class KernelConfigError(ValueError):
    """The file is not the plain data that a compiler writes."""


@dataclass(frozen=True)
class KernelSource:
    """`binary` lies in the build directory even where `source` (an external kernel) does not."""

    func_id: int
    name: str
    source: Path
    binary: Path


@dataclass(frozen=True)
class KernelConfig:
    orchestration_source: Path
    function_name: str
    kernels: tuple[KernelSource, ...]

    @property
    def orchestration_binary(self) -> Path:
        return self.orchestration_source.with_suffix(".so")

    def binaries(self) -> dict[Path, Path]:
        """Binary by source, the orchestration first."""
        pairs = {self.orchestration_source: self.orchestration_binary}
        return pairs | {kernel.source: kernel.binary for kernel in self.kernels}


def read_kernel_config(build_dir: Path) -> KernelConfig:
    """Raises KernelConfigError for anything but assignments of plain data, or a source outside the folder."""
    path = build_dir / "kernel_config.py"
    values = _Values(path)
    orchestration = values.get("ORCHESTRATION")
    source = _inside(build_dir, orchestration["source"], path)
    kernels = [_kernel(build_dir, entry, path) for entry in values.get("KERNELS")]
    func_ids = [kernel.func_id for kernel in kernels]
    if len(set(func_ids)) != len(func_ids):
        raise KernelConfigError(f"{path}: expected distinct func_ids, found {func_ids}")
    return KernelConfig(source, orchestration["function_name"], tuple(kernels))


def _kernel(build_dir: Path, entry: dict[str, Any], path: Path) -> KernelSource:
    if entry.get("external", False):
        source = Path(entry["source"])
        binary = build_dir / "kernels" / entry["core_type"] / f"{source.stem}.so"
    else:
        source = _inside(build_dir, entry["source"], path)
        binary = source.with_suffix(".so")
    return KernelSource(entry["func_id"], entry.get("name", source.stem), source, binary)


def _inside(build_dir: Path, source: str, path: Path) -> Path:
    if not Path(source).resolve().is_relative_to(build_dir.resolve()):
        raise KernelConfigError(f"{path}: expected a source inside the build directory, found {source}")
    return Path(source)


class _Values:
    """Evaluates top-level names: literals, `Path(__file__).parent`, `path / "name"`, `str(path)`, `_D.IN`."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._nodes: dict[str, ast.expr] = {}
        for statement in ast.parse(path.read_text(), str(path)).body:
            if isinstance(statement, ast.Assign) and isinstance(statement.targets[0], ast.Name):
                self._nodes[statement.targets[0].id] = statement.value

    def get(self, name: str) -> Any:
        if name not in self._nodes:
            raise KernelConfigError(f"{self._path}: expected an assignment to {name}, found none")
        return self._evaluate(self._nodes[name])

    def _evaluate(self, node: ast.expr) -> Any:
        match node:
            case ast.Constant(value):
                return value
            case ast.List(elements) | ast.Tuple(elements):
                return [self._evaluate(element) for element in elements]
            case ast.Dict(keys, values) if None not in keys:
                return {
                    self._evaluate(key): self._evaluate(value)
                    for key, value in zip(keys, values, strict=True)
                }
            case ast.Attribute(ast.Call(ast.Name("Path"), [ast.Name("__file__")], []), "parent"):
                return self._path.parent
            case ast.Attribute(ast.Name("_D" | "ArgDirection"), direction):
                return direction
            case ast.Call(ast.Name("str"), [argument], []):
                return str(self._evaluate(argument))
            case ast.BinOp(left, ast.Div(), right):
                return Path(self._evaluate(left)) / self._evaluate(right)
            case ast.Name(name):
                return self.get(name)
        raise KernelConfigError(f"{self._path}:{node.lineno}: expected plain data, found {ast.unparse(node)}")
