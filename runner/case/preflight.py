"""What is found out about a case, or its build directory, before anything is built or run.

- `CaseImports` finds the modules that a case imports and the environment lacks.
- `freeze_runtime_dir` copies a build directory (`--runtime-dir`) that replaces the compilation of the case, or the case
  itself. Then `entry_arguments` are the arguments of its orchestration.
- `exchange_checks` exchanges the checks of two versions of a script: tolerances, expected values and comparisons.
"""

from __future__ import annotations

import ast
import json
import os
import re
import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import cached_property
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING

from ...store.durable_files import create_folder
from ..errors import UsageError, UserError
from ..git import GitError, GitRepository
from ..overlays import covered_files, read_effective_text
from ..stack import CaseFlags, Stack, escape_braces
from ..workspace.environment import describe_base
from .case import CaseName

# Late imports: these modules are slow to import, and only a case that is a build directory needs them.
if TYPE_CHECKING:
    from ..build_output.directory import BuildDirectory, Direction, GoldenData
    from ..build_output.orchestration import Orchestration, TensorName

_IMPORT_ERRORS = {"ImportError", "ModuleNotFoundError", "Exception", "BaseException"}
"""A handler of one of these errors lets a file continue without a module."""


@dataclass(frozen=True)
class ImportedName:
    """An import statement of a file."""

    module: str
    """The dotted name, without leading dots."""
    line: int
    """The line, from 1."""
    level: int = 0
    """The number of leading dots."""
    members: tuple[str, ...] = ()
    """The names that are imported from the module."""


def certain_imports(source: str) -> tuple[ImportedName, ...]:
    """Return the imports that every run of a file makes; none where the text is no Python.

    Imports in functions, and imports whose failure the file handles, are left out.

    >>> [each.module for each in certain_imports("import os\\ntry:\\n import a\\nexcept ImportError: a = None\\n")]
    ['os']
    """
    try:
        return tuple(_body_imports(ast.parse(source).body))
    except (SyntaxError, ValueError, RecursionError):
        return ()


def _body_imports(body: Sequence[ast.stmt]) -> Iterator[ImportedName]:
    for statement in body:
        match statement:
            case ast.Import(names=names):
                yield from (ImportedName(alias.name, statement.lineno) for alias in names)
            case ast.ImportFrom(module=module, names=names, level=level):
                members = tuple(alias.name for alias in names)
                yield ImportedName(module or "", statement.lineno, level, members)
            case ast.If(test=test, body=inner) if _is_main(test):
                yield from _body_imports(inner)
            case ast.Try(body=inner, handlers=handlers) if not any(map(_handles_missing_module, handlers)):
                yield from _body_imports(inner)
            case ast.ClassDef(body=inner):
                yield from _body_imports(inner)
            case _:
                pass


def _is_main(test: ast.expr) -> bool:
    return isinstance(test, ast.Compare) and isinstance(test.left, ast.Name) and test.left.id == "__name__"


def _handles_missing_module(handler: ast.ExceptHandler) -> bool:
    if handler.type is None:
        return True
    return any(isinstance(node, ast.Name) and node.id in _IMPORT_ERRORS for node in ast.walk(handler.type))


_MAX_FILES = 400
"""The check follows the imports of a case through at most this many files. It has to be quicker than a run."""
_MODULE_SUFFIXES = (".py", ".pyi", ".so", ".pyx", ".pyd")
_SOURCE_FOLDERS = ("", "python", "src")
"""Python repositories usually have their packages in one of these folders."""
_FIND_SCRIPT = """
import importlib.util, json, site, sys
names, folders = json.loads(sys.argv[1])
sys.path += [*folders, site.getusersitepackages()]
foreign = [name for name in names if name not in sys.stdlib_module_names]
print(json.dumps([name for name in foreign if importlib.util.find_spec(name) is None]))
"""


@dataclass(frozen=True, kw_only=True)
class MissingModule:
    """A module that neither the interpreter nor a repository has, and the first import of it."""

    name: str
    file: str
    line: int

    def __str__(self) -> str:
        return f"{self.name} ({self.file}:{self.line})"


@dataclass(frozen=True)
class CaseImports:
    """The imports of a case at some commits. Files are read from git, and nothing is executed."""

    stack: Stack
    clones: Mapping[str, GitRepository]
    revisions: Mapping[str, str]
    _paths: dict[str, frozenset[str]] = field(default_factory=dict[str, frozenset[str]], compare=False)
    """The files of a commit and its overlays, by repository."""

    def missing(self, case: CaseName) -> tuple[MissingModule, ...]:
        """Return the modules that the case's run cannot import. Raises `UserError` where there is no interpreter."""
        foreign = {
            name: place for name, place in self._foreign(case).items() if name not in self._module_names
        }
        return tuple(
            MissingModule(name=name, file=foreign[name][0], line=foreign[name][1])
            for name in _find_missing_modules(foreign, self.stack)
            if not self._is_compiled(name)
        )

    def _foreign(self, case: CaseName) -> dict[str, tuple[str, int]]:
        """Return the top-level modules that the case, or a file that it imports, takes from outside the repositories.

        The values are the file and the line of the first import.
        """
        repository = self.stack.case.repository
        todo = [(repository, str(case.path))]
        seen = {*todo}
        roots = [(repository, str(case.path.parent)), *self._roots]
        foreign: dict[str, tuple[str, int]] = {}
        while todo and len(seen) < _MAX_FILES:
            importer, path = todo.pop()
            overlays = self.stack.repositories[importer].overlays
            text = read_effective_text(self.clones[importer], overlays, self.revisions[importer], path) or ""
            for imported in certain_imports(text):
                files = list(self._files(imported, importer, path, roots))
                todo += [file for file in files if file not in seen]
                seen.update(files)
                if not files and not imported.level:
                    foreign.setdefault(imported.module.partition(".")[0], (path, imported.line))
        return foreign

    @cached_property
    def _roots(self) -> list[tuple[str, str]]:
        """Return the repositories and folders in which modules are sought: first those on the stack's PYTHONPATH."""
        entries = self.stack.environment.variables.get("PYTHONPATH", "").split(os.pathsep)
        matches = (re.fullmatch(r"\{(\w[\w-]*)\}/?(.*)", entry) for entry in entries)
        on_path = [(match[1], match[2]) for match in matches if match and match[1] in self.revisions]
        return [*on_path, *((name, folder) for name in self.revisions for folder in _SOURCE_FOLDERS)]

    def _files(
        self, imported: ImportedName, importer: str, path: str, roots: Sequence[tuple[str, str]]
    ) -> Iterator[tuple[str, str]]:
        """Yield the repository and path of each file that an import reads, including those of its packages."""
        parts = [part for part in imported.module.split(".") if part]
        if imported.level:
            folder = PurePosixPath(path).parents[min(imported.level, len(PurePosixPath(path).parents)) - 1]
            roots = [(importer, str(folder))]
        for repository, folder in roots:
            stems = [PurePosixPath(folder, *parts[:count]) for count in range(1, len(parts) + 1)]
            module = PurePosixPath(folder, *parts)
            stems += [module / member for member in imported.members if member != "*"]
            candidates = (str(name) for stem in stems for name in (f"{stem}.py", stem / "__init__.py"))
            files = [name for name in candidates if name in self._tree(repository)]
            yield from ((repository, name) for name in files)
            if files:
                return

    def _tree(self, repository: str) -> frozenset[str]:
        if repository not in self._paths:
            listed = self.clones[repository].run(
                "ls-tree", "-r", "-z", "--name-only", self.revisions[repository]
            )
            overlaid = covered_files(self.clones[repository], self.stack.repositories[repository].overlays)
            self._paths[repository] = frozenset((*listed.split("\0"), *overlaid))
        return self._paths[repository]

    @cached_property
    def _module_names(self) -> frozenset[str]:
        """Return the names of all Python files and of their folders. A step may install any of them as a module."""
        return frozenset(
            part.partition(".")[0]
            for repository in self.revisions
            for path in self._tree(repository)
            if path.endswith(_MODULE_SUFFIXES)
            for part in PurePosixPath(path).parts
        )

    def _is_compiled(self, name: str) -> bool:
        """Return whether a repository has the source of an extension module of this name."""
        word = re.escape(name)
        pattern = rf"(MODULE\w*|add_module|add_library)[[:space:]]*\([[:space:]]*{word}\b|PyInit_{word}\b"
        for repository, sha in self.revisions.items():
            try:
                self.clones[repository].run("grep", "-q", "-E", "-e", pattern, sha)
            except GitError:
                continue
            return True
        return False


def may_install(stack: Stack) -> bool:
    """Return whether a step may install packages from outside the repositories."""
    for step in stack.steps.values():
        words = [word for word in step.command if word != "env" and not re.match(r"\w+=", word)]
        is_offline = words[:1] == ["{python}"] and ("pip" not in words or "--no-deps" in words)
        if not is_offline:
            return True
    return False


def _find_missing_modules(names: Mapping[str, object], stack: Stack) -> list[str]:
    """Return the modules that the base interpreter of the slots does not find. Raises `UserError`."""
    if not names:
        return []
    base = stack.environment.python or sys.executable
    entries = stack.environment.variables.get("PYTHONPATH", "").split(os.pathsep)
    folders = [entry for entry in entries if entry.startswith("/")]
    describe_base(base)
    try:
        printed = subprocess.run(
            [base, "-I", "-c", _FIND_SCRIPT, json.dumps([[*names], folders])],
            check=True,
            capture_output=True,
            text=True,
        ).stdout
        return json.loads(printed)
    except (OSError, ValueError, subprocess.CalledProcessError) as error:
        raise UserError(f"environment.python: expected {base} to look for modules, found: {error}") from error


_PREFIX = "ext_"
"""Generated code usually puts this before the names of arguments."""


@dataclass(frozen=True, kw_only=True)
class EntryTensor:
    """A tensor argument of the orchestration. `shape` is in elements, and `dtype` is torch's name."""

    name: str
    dtype: str
    shape: tuple[int, ...]
    is_output: bool
    has_input: bool
    kind: str = "tensor"


@dataclass(frozen=True, kw_only=True)
class EntryScalar:
    """A scalar argument of the orchestration, with its value in the frozen data."""

    name: str
    dtype: str
    value: float
    kind: str = "scalar"


EntryArgument = EntryTensor | EntryScalar


def entry_arguments(build: BuildDirectory, data: GoldenData) -> tuple[EntryArgument, ...]:
    """Return the arguments of the orchestration: tensors in the order of the signature, then scalars.

    Their types and shapes are those of the frozen data.

    Raises:
        UserError: the source does not give all arguments, or the data lacks one.
    """
    orchestration = build.orchestration()
    signature = build.kernel_config().orchestration.signature
    tensors = _sorted_tensors(build.folder.root, orchestration)
    scalars = sorted(orchestration.entry_scalars, key=lambda scalar: scalar.index)
    prefix = _find_prefix([argument.name for argument in (*tensors, *scalars)], data)
    arguments: list[EntryArgument] = []
    for position, tensor in enumerate(tensors):
        direction = signature[position] if signature and position < len(signature) else None
        arguments.append(_entry_tensor(_data_name(tensor.name, prefix, data, outputs=True), direction, data))
    for scalar in scalars:
        name = _data_name(scalar.name, prefix, data, outputs=False)
        view = data.inputs.tensor(name)
        arguments.append(
            EntryScalar(name=name, dtype=view.dtype.torch_name, value=float(view.torch().reshape(-1)[0]))
        )
    return tuple(arguments)


def argument_names(build: Path, orchestration: Orchestration) -> tuple[str, ...]:
    """Return the names of the arguments in the source, without prefix, in the order of `entry_arguments`.

    Raises:
        UserError: the source does not give all tensors.
    """
    scalars = sorted(orchestration.entry_scalars, key=lambda scalar: scalar.index)
    arguments = (*_sorted_tensors(build, orchestration), *scalars)
    return tuple(argument.name.removeprefix(_PREFIX) for argument in arguments)


def _sorted_tensors(build: Path, orchestration: Orchestration) -> list[TensorName]:
    """Return the tensor arguments by index. Raises `UserError` where one is missing or named twice."""
    tensors = sorted(orchestration.entry_tensors, key=lambda tensor: tensor.index or 0)
    if not tensors or [tensor.index for tensor in tensors] != list(range(len(tensors))):
        raise UserError(
            f"{build}: expected an orchestration that names each tensor argument once, found indices "
            f"{[tensor.index for tensor in tensors]}"
        )
    return tensors


def write_specs(arguments: Sequence[EntryArgument], path: Path) -> None:
    """Write the arguments as `replay_case.py` reads them."""
    path.write_text(json.dumps([asdict(argument) for argument in arguments]), encoding="utf-8")


def _entry_tensor(name: str, direction: Direction | None, data: GoldenData) -> EntryTensor:
    from ..build_output.directory import Direction

    is_output = name in data.outputs.names if direction is None else direction is not Direction.IN
    has_input = name in data.inputs.names
    view = (data.inputs if has_input else data.outputs).tensor(name)
    return EntryTensor(
        name=name, dtype=view.dtype.torch_name, shape=view.shape, is_output=is_output, has_input=has_input
    )


def _find_prefix(source_names: Sequence[str], data: GoldenData) -> str:
    """Return the prefix that generated code puts before each argument's name in the frozen data.

    It differs between compiler versions. Scalars may have none.
    """
    known = {*data.inputs.names, *data.outputs.names}
    first = source_names[0]
    others = (first.removesuffix(name) for name in sorted(known) if first.endswith(f"_{name}"))
    for prefix in (_PREFIX, *others):
        if all(name in known or name.removeprefix(prefix) in known for name in source_names):
            return prefix
    return _PREFIX


def _data_name(source_name: str, prefix: str, data: GoldenData, *, outputs: bool) -> str:
    """Return the name of an argument in the data. Raises `UserError` where the data lacks it."""
    known = {*data.inputs.names, *(data.outputs.names if outputs else ())}
    for name in (source_name, source_name.removeprefix(prefix)):
        if name in known:
            return name
    raise UserError(
        f"{data.inputs.folder.root.parent}: expected frozen data for the argument {source_name}, found "
        f"{sorted(known)}; name the data that the build was run on (--golden-data)"
    )


REPLAY_CASE = Path(__file__).with_name("replay_case.py")
"""This script runs a build directory without the script from which it was compiled."""
_SPECS = "specs.json"

COMPILED = frozenset({".so", ".o", ".bin"})
"""Runtimes compile files with these suffixes from a build's sources."""
_CACHES = frozenset({"cache", "build_cache"})
"""Runtimes keep compiled files in folders of these names."""
_RUN_FOLDERS = frozenset({"data", "dfx_outputs"})
"""A run writes its data and records to these folders of a build directory."""


def check_runtime_dir(path: Path) -> Path:
    """Return the absolute path of a build directory. Raises `UsageError` where it is none."""
    from ..build_output.directory import BuildDirectory
    from ..build_output.files import BuildOutputError

    try:
        BuildDirectory.open(path).kernel_config()
    except (BuildOutputError, OSError) as error:
        raise UsageError(
            f"--runtime-dir {path}: expected a build directory that a run of the case left: {error}"
        ) from error
    return path.resolve()


def bundled_data(path: Path) -> Path | None:
    """Return the golden data inside a build directory; None where it has none."""
    data = path / "data"
    return data if (data / "in").is_dir() and (data / "out").is_dir() else None


def check_replayable(path: Path, data: Path) -> None:
    """Check that a build directory can be run on golden data without its script. Raises `UserError`."""
    from ..build_output.directory import BuildDirectory, GoldenData
    from ..build_output.files import BuildOutputError

    try:
        entry_arguments(BuildDirectory.open(path), GoldenData.open(data))
    except (BuildOutputError, OSError) as error:
        raise UsageError(
            f"--runtime-dir {path}: expected a build directory that can be run on its data: {error}"
        ) from error


def freeze_runtime_dir(source: Path, target: Path, *, replayed_on: Path | None) -> Path:
    """Copy a build directory to `target`, unless that was done before. Links stay links.

    Compiled files are left out: they would hide changes of the headers in the tested revision of the runtime.
    `replayed_on` is the golden data on which the build directory runs if it is itself the case, else None.
    """
    from ..build_output.directory import BuildDirectory, GoldenData

    if not target.is_dir():
        with create_folder(target) as partial:
            shutil.copytree(source, partial, symlinks=True, ignore=_ignore_filter(source))
            if replayed_on is not None:
                arguments = entry_arguments(BuildDirectory.open(source), GoldenData.open(replayed_on))
                write_specs(arguments, partial / _SPECS)
    return target


def frozen_build_case(frozen: Path) -> CaseName:
    """Return the case that runs a frozen build directory without its script."""
    return CaseName(path=PurePosixPath(REPLAY_CASE), arguments=("--specs", str(frozen / _SPECS)))


def _ignore_filter(root: Path) -> Callable[[str, list[str]], Sequence[str]]:
    """Return a filter for `copytree` that leaves out what runs have added to a build directory."""

    def ignored_names(folder: str, names: list[str]) -> Sequence[str]:
        at_root = Path(folder) == root
        return [
            name
            for name in names
            if Path(name).suffix in COMPILED or name in _CACHES or (at_root and name in _RUN_FOLDERS)
        ]

    return ignored_names


_SCENE_HARNESS = Path(__file__).parents[1] / "scene_harness"
HARNESS = _SCENE_HARNESS / "golden.py"
"""This module replaces the golden harness for a runtime that has only scene tests."""
EXPORT = _SCENE_HARNESS / "export.py"
"""This script writes a case of a scene test as a build directory, or runs the test with fixed random numbers."""


def add_harness(stack: Stack) -> Stack:
    """Return the stack that replays build directories. A stack of scene tests gets the shim and `HARNESS`."""
    if not stack.case.scene_tests:
        return stack
    own_path = stack.environment.variables.get("PYTHONPATH")
    path = escape_braces(str(_SCENE_HARNESS)) + (f":{own_path}" if own_path else "")
    variables = {**stack.environment.variables, "PYTHONPATH": path}
    return stack.model_copy(
        update={
            "case": stack.case.model_copy(update={"harness": True, "flags": CaseFlags()}),
            "environment": stack.environment.model_copy(update={"variables": variables}),
        }
    )


_MAX_VALUE_LENGTH = 40
"""A change shows values of up to this many characters, if they are on one line."""

_Place = tuple[str, int]
"""The name of a check, and its index among the checks of that name."""


@dataclass(frozen=True, kw_only=True)
class _Check:
    """Decides in a script whether outputs pass. It is a value, such as that of `rtol`, or a function that compares."""

    name: str
    line: int
    begin: int
    """The first byte of the text in the script."""
    end: int
    """The byte behind the text."""
    text: str
    structure: str
    """The parsed text, which is equal where only the layout differs."""


@dataclass(frozen=True, kw_only=True)
class CheckExchange:
    """The checks of two versions of a script, exchanged."""

    changes: tuple[str, ...]
    """A phrase for each difference, with the line in the new version."""
    new_with_old: str
    """The new version with the checks of the old one."""
    old_with_new: str
    """The old version with the checks of the new one."""


def exchange_checks(old: str, new: str, names: Collection[str], path: PurePosixPath) -> CheckExchange | None:
    """Exchange the checks of two texts of the script at `path`.

    A check is a function with one of the `names`, or the value of an assignment, keyword argument or dictionary key
    with such a name. If such a value is the name of a function of the script, the function is a check too.
    Returns None where all checks are equal, or where one of the texts has none.
    """
    try:
        old_checks, new_checks = _checks(old, names), _checks(new, names)
    except (SyntaxError, ValueError):
        return None
    if old_checks.keys() != new_checks.keys():
        return None
    changes = [
        _describe_change(old_checks[place], check, path)
        for place, check in new_checks.items()
        if old_checks[place].structure != check.structure
    ]
    if not changes:
        return None
    return CheckExchange(
        changes=tuple(changes),
        new_with_old=_replace_checks(new, new_checks, old_checks),
        old_with_new=_replace_checks(old, old_checks, new_checks),
    )


def _describe_change(old: _Check, new: _Check, path: PurePosixPath) -> str:
    """Describe one change.

    >>> check = _Check(name="rtol", line=3, begin=0, end=0, text="1e-3", structure="")
    >>> other = _Check(name="rtol", line=7, begin=0, end=0, text="1e-5", structure="")
    >>> _describe_change(check, other, PurePosixPath("a.py"))
    'rtol 1e-3 became 1e-5 in a.py:7'
    """
    is_short = all("\n" not in check.text and len(check.text) <= _MAX_VALUE_LENGTH for check in (old, new))
    change = f"{new.name} {old.text} became {new.text}" if is_short else f"{new.name} changed"
    return f"{change} in {path}:{new.line}"


def _checks(text: str, names: Collection[str]) -> dict[_Place, _Check]:
    """Return the checks of a script, in its order. Raises `SyntaxError` or `ValueError` where it is no Python."""
    tree, content = ast.parse(text), text.encode()
    functions = {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}
    values = (value for _, value in _check_nodes(tree, frozenset(names)))
    used = {value.id for value in values if isinstance(value, ast.Name) and value.id in functions}
    starts = [0]
    for line in content.splitlines(keepends=True):
        starts.append(starts[-1] + len(line))
    counts = Counter[str]()
    checks: dict[_Place, _Check] = {}
    for name, node in _check_nodes(tree, frozenset((*names, *used))):
        assert node.end_lineno is not None
        assert node.end_col_offset is not None
        begin = starts[node.lineno - 1] + node.col_offset
        end = starts[node.end_lineno - 1] + node.end_col_offset
        checks[name, counts[name]] = _Check(
            name=name,
            line=node.lineno,
            begin=begin,
            end=end,
            text=content[begin:end].decode(),
            structure=ast.dump(node),
        )
        counts[name] += 1
    return checks


def _check_nodes(node: ast.AST, names: frozenset[str]) -> Iterator[tuple[str, ast.expr | ast.FunctionDef]]:
    """Yield the name and the node of each check below a node, except checks inside of other ones."""
    if isinstance(node, ast.FunctionDef) and node.name in names:
        yield node.name, node
        return
    name_of_value = dict(_named_values(node))
    for child in ast.iter_child_nodes(node):
        name = name_of_value.get(child)
        if name in names and isinstance(child, ast.expr):
            yield name, child
        else:
            yield from _check_nodes(child, names)


def _named_values(node: ast.AST) -> Iterator[tuple[ast.AST, str]]:
    """Yield each value to which a node gives a name, and the name."""
    match node:
        case ast.keyword(arg=str(name)):
            yield node.value, name
        case ast.Assign(targets=[ast.Name(id=name)]):
            yield node.value, name
        case ast.AnnAssign(target=ast.Name(id=name), value=ast.expr() as value):
            yield value, name
        case ast.Dict():
            for key, value in zip(node.keys, node.values, strict=True):
                if isinstance(key, ast.Constant) and isinstance(key.value, str):
                    yield value, key.value
        case _:
            pass


def _replace_checks(text: str, own: Mapping[_Place, _Check], other: Mapping[_Place, _Check]) -> str:
    """Return a script with the checks of another one in place of its own."""
    content, end = text.encode(), 0
    pieces: list[bytes] = []
    for place, check in sorted(own.items(), key=lambda item: item[1].begin):
        pieces += [content[end : check.begin], other[place].text.encode()]
        end = check.end
    return b"".join((*pieces, content[end:])).decode()
