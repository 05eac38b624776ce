"""A case: its script, its options at a commit, and the command that runs it."""

import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from ..errors import UsageError
from ..stack import Stack, fill
from .shim import case_begins_line

_SHIM = Path(__file__).with_name("shim.py")
_OPTION = re.compile(r"(?<![\w-])--[a-z][\w-]*")


@dataclass(frozen=True, kw_only=True)
class CaseName:
    """The value of `--case` or `--after`: a script of the case repository, and its own arguments."""

    path: PurePosixPath
    arguments: tuple[str, ...]

    @classmethod
    def parse(cls, text: str, stack: Stack, *, option: str = "--case") -> "CaseName":
        """Parse the option's text. An absolute path inside the user's checkout means that file at the tested commit.

        Raises:
            UsageError: there is no script, or its path leaves the case repository.
        """
        try:
            words = shlex.split(text)
        except ValueError as error:
            raise UsageError(f"{option} {text}: expected a script and perhaps arguments: {error}") from error
        if not words:
            raise UsageError(f"{option}: expected a script and perhaps arguments, found nothing")
        root = stack.repositories[stack.case.repository].path
        path = Path(words[0])
        if path.is_absolute() and (path.parent.resolve() / path.name).is_relative_to(root):
            path = (path.parent.resolve() / path.name).relative_to(root)
        if path.is_absolute() or ".." in path.parts:
            raise UsageError(f"{option} {words[0]}: expected a path inside {root}")
        return cls(path=PurePosixPath(path), arguments=tuple(words[1:]))

    def __str__(self) -> str:
        return shlex.join((str(self.path), *self.arguments))


@dataclass(frozen=True, kw_only=True)
class RunOptions:
    """What a run of a case does in addition to running."""

    golden_data: Path | None = None
    save_data: bool = False
    dump_passes: bool = False
    dump_level: int = 0
    dep_gen: bool = False
    runtime_dir: Path | None = None


@dataclass(frozen=True, kw_only=True)
class CaseCommand:
    """A command line, and the options that neither the case nor the shim accepts."""

    argv: tuple[str, ...]
    missing: tuple[str, ...]
    begins: str | None = None
    """The line that is printed before the case's own output, where other scripts run before the case."""


def options_in_help(text: str) -> frozenset[str]:
    """Return the long options that a help text names.

    >>> sorted(options_in_help("  -d D, --device D\\n  --dump-args [N]  not --dump"))
    ['--device', '--dump', '--dump-args']
    """
    return frozenset(_OPTION.findall(text))


def case_command(
    stack: Stack,
    case: CaseName | None,
    options: RunOptions,
    *,
    offered: frozenset[str],
    outcome: Path,
    values: Mapping[str, str],
    in_front: Sequence[str] = (),
) -> CaseCommand:
    """Return the command that runs a case.

    An option that the case offers at this commit goes to the case, in its spelling there. The others go to the shim,
    where the case runs under one. `values` fills the placeholders of the stack file. A script that runs before the case
    gets the words of the stack's command and its own arguments, but none of the options. `in_front` comes before all
    other words.
    """
    shim: list[str] = []
    own: list[str] = []
    missing: list[str] = []
    for spellings, shim_option, value in _requested_options(stack, options):
        spelling = next((s for s in spellings if s in offered), None)
        target, word = (own, spelling) if spelling is not None else (shim, shim_option)
        if spelling is None and not stack.case.harness:
            missing.append(shim_option)
        else:
            assert word is not None
            target.extend((word, *value))
    script = [values["case"]]
    if stack.case.harness:
        before = [
            word for each in predecessors(stack) for word in ("--after", _words_of(each, stack, values))
        ]
        script = [str(_SHIM), "--outcome", str(outcome), *shim, *before, "--", values["case"]]
    argv = [*in_front]
    for word in stack.case.command:
        argv.extend(script if word == "{case}" else [fill(word, values)])
    return CaseCommand(
        argv=(*argv, *(case.arguments if case else ()), *own),
        missing=tuple(missing),
        begins=case_begins_line(str(outcome)) if stack.case.after else None,
    )


def predecessors(stack: Stack) -> tuple[CaseName, ...]:
    """Return the scripts that run before the case, in its process.

    Raises `UsageError` where one is no script of the case repository.
    """
    return tuple(CaseName.parse(text, stack, option="--after") for text in stack.case.after)


def add_predecessors(stack: Stack, texts: Sequence[str]) -> Stack:
    """Return the stack with these scripts run before its case, after those that it has. Raises `UsageError`."""
    if not texts:
        return stack
    if not stack.case.harness:
        raise UsageError(
            f"--after {texts[0]}: expected a case that runs under the harness's shim (case.harness), found none in "
            f"stack {stack.name}; leave --after out, or let the case's own script run it first"
        )
    named = tuple(str(CaseName.parse(text, stack, option="--after")) for text in texts)
    case = stack.case.model_copy(update={"after": (*stack.case.after, *named)})
    return stack.model_copy(update={"case": case})


def drop_predecessors(stack: Stack) -> Stack:
    """Return the stack with nothing run before its case."""
    return stack.model_copy(update={"case": stack.case.model_copy(update={"after": ()})})


def _words_of(predecessor: CaseName, stack: Stack, values: Mapping[str, str]) -> str:
    """Return the command line of a script that runs before the case.

    It has the words that follow the case's own script in the stack's command.
    """
    command = stack.case.command
    shared = [fill(word, values) for word in command[command.index("{case}") + 1 :]]
    path = str(PurePosixPath(values[stack.case.repository]) / predecessor.path)
    return shlex.join((path, *shared, *predecessor.arguments))


def _requested_options(stack: Stack, options: RunOptions) -> list[tuple[Sequence[str], str, tuple[str, ...]]]:
    """Return each requested option: the case's spellings, the shim's spelling, and its value."""
    flags = stack.case.flags
    wanted: list[tuple[Sequence[str], str, tuple[str, ...]]] = []
    if options.golden_data is not None:
        wanted.append((flags.golden_data, "--golden-data", (str(options.golden_data),)))
    if options.save_data:
        wanted.append((flags.save_data, "--save-data", ()))
    if options.dump_passes:
        wanted.append((flags.dump_passes, "--dump-passes", ()))
    if options.dump_level:
        wanted.append((flags.dump, "--dump-args", (str(options.dump_level),)))
    if options.dep_gen:
        wanted.append((flags.dep_gen, "--dep-gen", ()))
    if options.runtime_dir is not None:
        wanted.append((flags.runtime_dir, "--runtime-dir", (str(options.runtime_dir),)))
    return wanted
