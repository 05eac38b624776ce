"""Checks of a case that are made before anything is built or run.

`CaseImports` finds the modules that a case imports and the environment lacks. It reads the files' text and executes
nothing.

Build directories can replace the compilation of the case, or the case itself (`--runtime-dir`). Their sources are
frozen. Compiled files are left out, because the tested revision of the runtime has its own headers, and old binaries
would hide changes in them. `entry_arguments` finds the arguments of the orchestration for the golden harness.
`add_harness` gives a runtime that has scene tests instead of a harness one of ours.

`exchange_checks` compares the checks of two versions of a script: tolerances, expected values and comparisons. The
stack file gives their names (`case.yardstick`). A check is the value of a keyword argument, assignment or dictionary
key of such a name, or a function of that name. A function of the script that such a value names counts too. Two
versions can exchange their checks only if they have the same ones.
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

from ...store.durable_files import create_folder
from ..build_output.directory import BuildDirectory, Direction, GoldenData
from ..build_output.files import BuildOutputError
from ..build_output.orchestration import Orchestration, TensorName
from ..errors import UsageError, UserError
from ..git import GitError, GitRepository
from ..overlays import covered_files, read_effective_text
from ..stack import CaseFlags, Stack, literal
from ..workspace.slot import describe_base
from .case import CaseName

_IMPORT_ERRORS = {"ImportError", "ModuleNotFoundError", "Exception", "BaseException"}


@dataclass(frozen=True)
class ImportedName:
    """An import of `module`, dotted, at `line` from 1.

    `level` is the number of leading dots. `members` are the names that are imported from the module.
    """

    module: str
    line: int
    level: int = 0
    members: tuple[str, ...] = ()


def certain_imports(source: str) -> tuple[ImportedName, ...]:
    """Return the imports that every run of a file makes; empty where the text is no Python.

    Imports in functions, and those that the file can do without, are left out.

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
    """Return whether a handler continues without the module."""
    if handler.type is None:
        return True
    return any(isinstance(node, ast.Name) and node.id in _IMPORT_ERRORS for node in ast.walk(handler.type))


_MOST_FILES = 400
"""The check follows the imports of a case through at most this many files. It has to be quicker than a run."""
_MODULE = (".py", ".pyi", ".so", ".pyx", ".pyd")
_SOURCE_FOLDERS = ("", "python", "src")
"""A step installs the packages in these folders of a repository as they are."""
_FIND_SCRIPT = """
import importlib.util, json, site, sys
names, folders = json.loads(sys.argv[1])
sys.path += [*folders, site.getusersitepackages()]
foreign = [name for name in names if name not in sys.stdlib_module_names]
print(json.dumps([name for name in foreign if importlib.util.find_spec(name) is None]))
"""


@dataclass(frozen=True, kw_only=True)
class MissingModule:
    """A module that neither the interpreter nor a repository has; `file` of a repository imports it first."""

    name: str
    file: str
    line: int

    def __str__(self) -> str:
        return f"{self.name} ({self.file}:{self.line})"


@dataclass(frozen=True)
class CaseImports:
    """The imports of a case at some commits. Files are read from git, so no slot is needed."""

    stack: Stack
    clones: Mapping[str, GitRepository]
    revisions: Mapping[str, str]
    _paths: dict[str, frozenset[str]] = field(default_factory=dict[str, frozenset[str]], compare=False)

    def missing(self, case: CaseName) -> tuple[MissingModule, ...]:
        """Return what the case's run cannot import. Raises `UserError` where there is no interpreter."""
        foreign = {name: where for name, where in self._foreign(case).items() if not self._is_ours(name)}
        lacking = _find_missing_modules(foreign, self.stack)
        return tuple(
            MissingModule(name=name, file=foreign[name][0], line=foreign[name][1])
            for name in lacking
            if not self._is_compiled(name)
        )

    def _foreign(self, case: CaseName) -> dict[str, tuple[str, int]]:
        """Return the top-level names that the case, or a file that it imports, takes from elsewhere."""
        repository = self.stack.case.repository
        todo = [(repository, str(case.path))]
        seen = {*todo}
        roots = [(repository, str(case.path.parent)), *self._roots]
        foreign: dict[str, tuple[str, int]] = {}
        while todo and len(seen) < _MOST_FILES:
            here, path = todo.pop()
            overlays = self.stack.repositories[here].overlays
            text = read_effective_text(self.clones[here], overlays, self.revisions[here], path) or ""
            for imported in certain_imports(text):
                files = list(self._files(imported, here, path, roots))
                todo += [file for file in files if file not in seen]
                seen.update(files)
                if not files and not imported.level:
                    foreign.setdefault(imported.module.partition(".")[0], (path, imported.line))
        return foreign

    @cached_property
    def _roots(self) -> list[tuple[str, str]]:
        """Return where modules of the repositories are found: on the stack's PYTHONPATH, or where they are installed
        from."""
        given = self.stack.environment.variables.get("PYTHONPATH", "").split(os.pathsep)
        found = (re.fullmatch(r"\{(\w[\w-]*)\}/?(.*)", entry) for entry in given)
        named = [(each[1], each[2]) for each in found if each and each[1] in self.revisions]
        return [*named, *((name, folder) for name in self.revisions for folder in _SOURCE_FOLDERS)]

    def _files(
        self, imported: ImportedName, here: str, path: str, roots: Sequence[tuple[str, str]]
    ) -> Iterator[tuple[str, str]]:
        """Yield the files that an import reads, including those of its packages."""
        parts = [part for part in imported.module.split(".") if part]
        if imported.level:
            folder = PurePosixPath(path).parents[min(imported.level, len(PurePosixPath(path).parents)) - 1]
            roots = [(here, str(folder))]
        for repository, folder in roots:
            whole = PurePosixPath(folder, *parts)
            stems = [PurePosixPath(folder, *parts[:count]) for count in range(1, len(parts) + 1)]
            stems += [whole / member for member in imported.members if member != "*"]
            tried = (str(name) for stem in stems for name in (f"{stem}.py", stem / "__init__.py"))
            files = [name for name in tried if name in self._tree(repository)]
            yield from ((repository, name) for name in files)
            if files:
                return

    def _tree(self, repository: str) -> frozenset[str]:
        if repository not in self._paths:
            listed = self.clones[repository].run(
                "ls-tree", "-r", "-z", "--name-only", self.revisions[repository]
            )
            laid_over = covered_files(self.clones[repository], self.stack.repositories[repository].overlays)
            self._paths[repository] = frozenset((*listed.split("\0"), *laid_over))
        return self._paths[repository]

    @cached_property
    def _names(self) -> frozenset[str]:
        """Return the names of files and folders that contain Python. A step may install any of them."""
        modules = [
            PurePosixPath(path)
            for repository in self.revisions
            for path in self._tree(repository)
            if path.endswith(_MODULE)
        ]
        return frozenset(part.partition(".")[0] for path in modules for part in path.parts)

    def _is_ours(self, name: str) -> bool:
        return name in self._names

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
    """Return whether a step may install packages of others. What it installs is known only when it has run."""
    for step in stack.steps.values():
        words = [word for word in step.command if word != "env" and not re.match(r"\w+=", word)]
        alone = words[:1] == ["{python}"] and ("pip" not in words or "--no-deps" in words)
        if not alone:
            return True
    return False


def _find_missing_modules(names: Mapping[str, object], stack: Stack) -> list[str]:
    """Return the modules that the interpreter of the slots does not find. Raises `UserError`."""
    if not names:
        return []
    base = stack.environment.python or sys.executable
    given = stack.environment.variables.get("PYTHONPATH", "").split(os.pathsep)
    folders = [entry for entry in given if entry.startswith("/")]
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


@dataclass(frozen=True, kw_only=True)
class EntryTensor:
    """A tensor argument; `shape` is in elements, `dtype` as torch spells it."""

    name: str
    dtype: str
    shape: tuple[int, ...]
    is_output: bool
    has_input: bool
    kind: str = "tensor"


@dataclass(frozen=True, kw_only=True)
class EntryScalar:
    """A scalar argument; its value comes from the frozen data."""

    name: str
    dtype: str
    value: float
    kind: str = "scalar"


EntryArgument = EntryTensor | EntryScalar


def entry_arguments(build: BuildDirectory, data: GoldenData) -> tuple[EntryArgument, ...]:
    """Return tensors in the order of the signature, then scalars, with the types and shapes of the frozen data.

    Raises:
        UserError: the source does not give all arguments, or the data lacks one.
    """
    orchestration = build.orchestration()
    signature = build.kernel_config().orchestration.signature
    tensors = _tensors(build.folder.root, orchestration)
    scalars = sorted(orchestration.entry_scalars, key=lambda scalar: scalar.index)
    prefix = _prefix([argument.name for argument in (*tensors, *scalars)], data)
    found: list[EntryArgument] = []
    for position, tensor in enumerate(tensors):
        direction = signature[position] if signature and position < len(signature) else None
        found.append(_tensor(_name(tensor.name, prefix, data, outputs=True), direction, data))
    for scalar in scalars:
        name = _name(scalar.name, prefix, data, outputs=False)
        view = data.inputs.tensor(name)
        found.append(
            EntryScalar(name=name, dtype=view.dtype.torch_name, value=float(view.torch().reshape(-1)[0]))
        )
    return tuple(found)


def argument_names(build: Path, orchestration: Orchestration) -> tuple[str, ...]:
    """Return the source's names of the arguments: tensors in the order of the signature, then scalars.

    Raises:
        UserError: the source does not give all tensors.
    """
    scalars = sorted(orchestration.entry_scalars, key=lambda scalar: scalar.index)
    spelled = (*_tensors(build, orchestration), *scalars)
    return tuple(argument.name.removeprefix(_PREFIX) for argument in spelled)


def _tensors(build: Path, orchestration: Orchestration) -> list[TensorName]:
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


def _tensor(name: str, direction: Direction | None, data: GoldenData) -> EntryTensor:
    is_output = name in data.outputs.names if direction is None else direction is not Direction.IN
    has_input = name in data.inputs.names
    view = (data.inputs if has_input else data.outputs).tensor(name)
    return EntryTensor(
        name=name, dtype=view.dtype.torch_name, shape=view.shape, is_output=is_output, has_input=has_input
    )


def _prefix(spelled: Sequence[str], data: GoldenData) -> str:
    """Return the prefix that generated code puts before the names of tensors.

    It is `ext_`, or another one of another compiler version. Scalars may have none.
    """
    known = {*data.inputs.names, *data.outputs.names}
    first = spelled[0]
    others = (first.removesuffix(name) for name in sorted(known) if first.endswith(f"_{name}"))
    for prefix in (_PREFIX, *others):
        if all(name in known or name.removeprefix(prefix) in known for name in spelled):
            return prefix
    return _PREFIX


def _name(spelled: str, prefix: str, data: GoldenData, *, outputs: bool) -> str:
    """Return the name under which the data has an argument."""
    known = {*data.inputs.names, *(data.outputs.names if outputs else ())}
    for name in (spelled, spelled.removeprefix(prefix)):
        if name in known:
            return name
    raise UserError(
        f"{data.inputs.folder.root.parent}: expected frozen data for the argument {spelled}, found {sorted(known)}; "
        "name the data that the build was run on (--golden-data)"
    )


REPLAY_CASE = Path(__file__).with_name("replay_case.py")
"""This script runs a build directory without the script from which it was compiled."""
_SPECS = "specs.json"

COMPILED = frozenset({".so", ".o", ".bin"})
"""Runtimes compile files with these suffixes from a build's sources."""
_CACHES = frozenset({"cache", "build_cache"})
_RUN_FOLDERS = frozenset({"data", "dfx_outputs"})


def check_runtime_dir(path: Path) -> Path:
    """Return the absolute path of a build directory. Raises `UsageError` where it is none."""
    try:
        BuildDirectory.open(path).kernel_config()
    except (BuildOutputError, OSError) as error:
        raise UsageError(
            f"--runtime-dir {path}: expected a build directory that a run of the case left: {error}"
        ) from error
    return path.resolve()


def bundled_data(path: Path) -> Path | None:
    """Return the frozen data that a build directory contains, if it does."""
    data = path / "data"
    return data if (data / "in").is_dir() and (data / "out").is_dir() else None


def check_replayable(path: Path, data: Path) -> None:
    """Check that a build directory can be run on frozen data without its script. Raises `UserError` if not."""
    try:
        entry_arguments(BuildDirectory.open(path), GoldenData.open(data))
    except (BuildOutputError, OSError) as error:
        raise UsageError(
            f"--runtime-dir {path}: expected a build directory that can be run on its data: {error}"
        ) from error


def freeze_runtime_dir(source: Path, target: Path, *, replayed_on: Path | None) -> Path:
    """Copy a build directory, so that later changes of the original change nothing. Links stay links.

    `replayed_on` is the frozen data, where the build directory is itself the case.
    """
    if not target.is_dir():
        with create_folder(target) as partial:
            shutil.copytree(source, partial, symlinks=True, ignore=_ignore_filter(source))
            if replayed_on is not None:
                arguments = entry_arguments(BuildDirectory.open(source), GoldenData.open(replayed_on))
                write_specs(arguments, partial / _SPECS)
    return target


def frozen_build_case(frozen: Path) -> CaseName:
    """Return the case that runs a frozen build directory."""
    return CaseName(path=PurePosixPath(REPLAY_CASE), arguments=("--specs", str(frozen / _SPECS)))


def _ignore_filter(root: Path) -> Callable[[str, list[str]], Sequence[str]]:
    def ignored_names(folder: str, names: list[str]) -> Sequence[str]:
        at_root = Path(folder) == root
        return [
            name
            for name in names
            if Path(name).suffix in COMPILED or name in _CACHES or (at_root and name in _RUN_FOLDERS)
        ]

    return ignored_names


_FOLDER = Path(__file__).parents[1] / "scene_harness"
HARNESS = _FOLDER / "golden.py"
EXPORT = _FOLDER / "export.py"
SEEDED = _FOLDER / "seeded.py"


def add_harness(stack: Stack) -> Stack:
    """Return the stack for replays of build directories: under the shim, and with a harness where it has none."""
    if not stack.case.scene_tests:
        return stack
    inherited = stack.environment.variables.get("PYTHONPATH")
    found = literal(str(_FOLDER)) + (f":{inherited}" if inherited else "")
    variables = {**stack.environment.variables, "PYTHONPATH": found}
    return stack.model_copy(
        update={
            "case": stack.case.model_copy(update={"harness": True, "flags": CaseFlags()}),
            "environment": stack.environment.model_copy(update={"variables": variables}),
        }
    )


_LONGEST_VALUE = 40
"""A change of values is shown on one line up to this many characters each. Longer ones are only said to have
changed."""

Place = tuple[str, int]
"""A part's name, and its index among the parts of that name."""


@dataclass(frozen=True, kw_only=True)
class _Part:
    """A part of a script. `begin` and `end` are the range of its text, in bytes.

    `structure` is equal where only the layout differs.
    """

    name: str
    line: int
    begin: int
    end: int
    text: str
    structure: str


@dataclass(frozen=True, kw_only=True)
class CheckExchange:
    """The checks of two versions of a script, exchanged.

    `new_with_old` is the new version with the checks of the old one. `changes` has a phrase for each difference, with
    the lines of the new version.
    """

    changes: tuple[str, ...]
    new_with_old: str
    old_with_new: str


def exchange_checks(old: str, new: str, names: Collection[str], path: PurePosixPath) -> CheckExchange | None:
    """Exchange the checks between two texts of the script at `path`.

    Returns None where the checks are the same, or cannot be separated from the rest.
    """
    try:
        of_old, of_new = _parts(old, names), _parts(new, names)
    except (SyntaxError, ValueError):
        return None
    changed = [
        place
        for place, part in of_new.items()
        if place in of_old and of_old[place].structure != part.structure
    ]
    if not changed or of_old.keys() != of_new.keys():
        return None
    return CheckExchange(
        changes=tuple(_describe_change(of_old[place], of_new[place], path) for place in changed),
        new_with_old=_replace_parts(new, of_new, of_old),
        old_with_new=_replace_parts(old, of_old, of_new),
    )


def _describe_change(old: _Part, new: _Part, path: PurePosixPath) -> str:
    """Describe one change.

    >>> part = _Part(name="rtol", line=3, begin=0, end=0, text="1e-3", structure="")
    >>> other = _Part(name="rtol", line=7, begin=0, end=0, text="1e-5", structure="")
    >>> _describe_change(part, other, PurePosixPath("a.py"))
    'rtol 1e-3 became 1e-5 in a.py:7'
    """
    is_short = all("\n" not in part.text and len(part.text) <= _LONGEST_VALUE for part in (old, new))
    move = f"{new.name} {old.text} became {new.text}" if is_short else f"{new.name} changed"
    return f"{move} in {path}:{new.line}"


def _parts(text: str, names: Collection[str]) -> dict[Place, _Part]:
    """Return the parts of a script, in its order. Raises `SyntaxError` or `ValueError` where it is no Python."""
    tree = ast.parse(text)
    functions = {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}
    found = list(_nodes(tree, frozenset(names)))
    referred = {value.id for _, value in found if isinstance(value, ast.Name) and value.id in functions}
    found = list(_nodes(tree, frozenset(names) | referred))
    starts = [0]
    for line in text.encode().splitlines(keepends=True):
        starts.append(starts[-1] + len(line))
    met = Counter[str]()
    parts: dict[Place, _Part] = {}
    for name, node in found:
        assert node.end_lineno is not None
        assert node.end_col_offset is not None
        begin, end = (
            starts[node.lineno - 1] + node.col_offset,
            starts[node.end_lineno - 1] + node.end_col_offset,
        )
        parts[name, met[name]] = _Part(
            name=name,
            line=node.lineno,
            begin=begin,
            end=end,
            text=text.encode()[begin:end].decode(),
            structure=ast.dump(node),
        )
        met[name] += 1
    return parts


def _nodes(node: ast.AST, names: frozenset[str]) -> Iterator[tuple[str, ast.expr | ast.FunctionDef]]:
    """Yield the outermost parts below a node, with their names."""
    if isinstance(node, ast.FunctionDef) and node.name in names:
        yield node.name, node
        return
    values = dict(_values_by_name(node))
    for child in ast.iter_child_nodes(node):
        name = values.get(child)
        if name in names and isinstance(child, ast.expr):
            yield name, child
        else:
            yield from _nodes(child, names)


def _values_by_name(node: ast.AST) -> Iterator[tuple[ast.AST, str]]:
    """Yield the values that a node gives a name to."""
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


def _replace_parts(text: str, own: Mapping[Place, _Part], other: Mapping[Place, _Part]) -> str:
    """Return a script with its parts replaced by those of another one."""
    content, behind = text.encode(), 0
    pieces: list[bytes] = []
    for place, part in sorted(own.items(), key=lambda item: item[1].begin):
        pieces += [content[behind : part.begin], other[place].text.encode()]
        behind = part.end
    return b"".join((*pieces, content[behind:])).decode()
