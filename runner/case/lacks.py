"""What a case imports and its environment lacks, found before anything is built."""

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import PurePosixPath

from ..errors import UserError
from ..git.overlays import covered_files, read_laid_over
from ..git.repository import GitError, GitRepository
from ..stack.stack import Stack
from ..workspace.virtual_environment import describe_base
from .case import CaseName
from .imports import ImportedName, certain_imports

_MOST_FILES = 400
_MODULE = (".py", ".pyi", ".so", ".pyx", ".pyd")
_INSTALLED = ("", "python", "src")
"""Where the packages of a repository lie that a step installs as they are."""
_FOUND = """
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
    """A case at some commits, its files read from git: the slots need not be there yet."""

    stack: Stack
    clones: Mapping[str, GitRepository]
    revisions: Mapping[str, str]
    _paths: dict[str, frozenset[str]] = field(default_factory=dict[str, frozenset[str]], compare=False)

    def missing(self, case: CaseName) -> tuple[MissingModule, ...]:
        """What the case's run cannot import. Raises `UserError` where there is no interpreter."""
        foreign = {name: where for name, where in self._foreign(case).items() if not self._is_ours(name)}
        lacking = _not_found(foreign, self.stack)
        return tuple(
            MissingModule(name=name, file=foreign[name][0], line=foreign[name][1])
            for name in lacking
            if not self._is_compiled(name)
        )

    def _foreign(self, case: CaseName) -> dict[str, tuple[str, int]]:
        """The top-level names that the case, or a file of the repositories that it imports, takes from elsewhere."""
        repository = self.stack.case.repository
        todo = [(repository, str(case.path))]
        seen = {*todo}
        roots = [(repository, str(case.path.parent)), *self._roots]
        foreign: dict[str, tuple[str, int]] = {}
        while todo and len(seen) < _MOST_FILES:
            here, path = todo.pop()
            overlays = self.stack.repositories[here].overlays
            text = read_laid_over(self.clones[here], overlays, self.revisions[here], path) or ""
            for imported in certain_imports(text):
                files = list(self._files(imported, here, path, roots))
                todo += [file for file in files if file not in seen]
                seen.update(files)
                if not files and not imported.level:
                    foreign.setdefault(imported.module.partition(".")[0], (path, imported.line))
        return foreign

    @cached_property
    def _roots(self) -> list[tuple[str, str]]:
        """Where modules of the repositories are found: on the stack's PYTHONPATH, or installed as they lie there."""
        given = self.stack.environment.variables.get("PYTHONPATH", "").split(os.pathsep)
        found = (re.fullmatch(r"\{(\w[\w-]*)\}/?(.*)", entry) for entry in given)
        named = [(each[1], each[2]) for each in found if each and each[1] in self.revisions]
        return [*named, *((name, folder) for name in self.revisions for folder in _INSTALLED)]

    def _files(
        self, imported: ImportedName, here: str, path: str, roots: Sequence[tuple[str, str]]
    ) -> Iterator[tuple[str, str]]:
        """The files that an import reads, packages' own included."""
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
        """What files and folders with Python in them are called: a step may install any of them."""
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
        """Whether a repository has the source of an extension module of this name."""
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
    """Whether a step may install packages of others: what such a step does is known when it has run, and no sooner."""
    for step in stack.steps.values():
        words = [word for word in step.command if word != "env" and not re.match(r"\w+=", word)]
        alone = words[:1] == ["{python}"] and ("pip" not in words or "--no-deps" in words)
        if not alone:
            return True
    return False


def _not_found(names: Mapping[str, object], stack: Stack) -> list[str]:
    """The modules that the interpreter of the slots does not find. Raises `UserError`."""
    if not names:
        return []
    base = stack.environment.python or sys.executable
    given = stack.environment.variables.get("PYTHONPATH", "").split(os.pathsep)
    folders = [entry for entry in given if entry.startswith("/")]
    describe_base(base)
    try:
        printed = subprocess.run(
            [base, "-I", "-c", _FOUND, json.dumps([[*names], folders])],
            check=True,
            capture_output=True,
            text=True,
        ).stdout
        return json.loads(printed)
    except (OSError, ValueError, subprocess.CalledProcessError) as error:
        raise UserError(f"environment.python: expected {base} to look for modules, found: {error}") from error
