"""Writes a shell script that reproduces one side of the answer.

`reproduction_script` is the entry. The script needs nothing of this tool, and works in its own folder, away from the
user's checkouts.
"""

import re
import shlex
import sys
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from pathlib import Path, PurePosixPath

from ...runner import spellings
from ...runner.case.case import CaseName, RunOptions, apply_perturbation, case_command, find_perturbation
from ...runner.git import GITLINK, literal_pathspec
from ...runner.overlays import list_patches, overlay_ref
from ...runner.renames import PYTHON_FILES, adaptations
from ...runner.stack import CommitFilePin, GitlinkPin, Repository, Stack, fill
from ...runner.workspace.environment import NOT_FOUND, InheritedVariables, is_version
from ...store.vocabulary import one_line
from ..ask.question import BisectRequest

_SCRIPT_VARIABLE = re.compile("\0([a-z]+)\0")
"""Matches a mark that `_word` turns into a variable of the script, such as `"$root"`."""
_ROOT, _JOBS = "\0root\0", "\0jobs\0"
_ENVIRONMENT_VARIABLE = "variable "
"""The prefix of an inherited variable's name in the description of an environment."""
_TOOL = "tool "
_UNREAD_NOTE = """\
# The runs had these too. Neither the command nor a file of the repositories at the ends names them, and no compiler,
# interpreter or library is known to read them: where this script does not show what it should, try with them."""

_PREPARE = """\
set -eu
if [ $# -gt 1 ] || { [ $# -eq 1 ] && { [ -z "${1%%-*}" ] || [ -f "$1" ]; }; }; then
    echo "usage: sh $0 [DIR]    DIR: a new folder to work in" >&2
    exit 2
fi
if [ $# -gt 0 ]; then
    root=$1
    mkdir -p "$root"
    echo "working in $root" >&2
else
    root=$(mktemp -d "${TMPDIR:-/tmp}/reproduce-XXXXXX")
    trap 'chmod -R u+w "$root"; rm -rf "$root"' EXIT
    trap 'exit 129' HUP
    trap 'exit 130' INT
    trap 'exit 143' TERM
    echo "working in $root, which is removed at the end; to keep it, name a folder: sh $0 DIR" >&2
fi
root=$(cd "$root" && pwd)
jobs=$(getconf _NPROCESSORS_ONLN)
unset GIT_DIR GIT_WORK_TREE GIT_INDEX_FILE

check_out() {
    git clone --quiet --shared --no-checkout "$1" "$2"
    git -C "$2" cat-file -e "$3^{commit}" 2> /dev/null ||
        git -C "$2" fetch --quiet --no-tags -- "$(git -C "$1" remote get-url origin)" "$3"
    git -C "$2" checkout --quiet --detach "$3"
}
"""

_SUBMODULES = """\
# Fills the submodules of the checkout $2 from the objects of the checkout $1. Leaves out those that are filled.
submodules() {
    git -C "$2" -c core.quotePath=false ls-files --stage | sed -n 's/^160000 //p' | while read -r commit _ path; do
        [ ! -e "$2/$path/.git" ] || continue
        find "$(cd "$1" && cd "$(git rev-parse --git-common-dir)" && pwd)" "$1/$path/.git" \\
            -type d -name objects -prune -print 2> /dev/null | while read -r objects; do
            store=${objects%/objects}
            git --git-dir="$store" --work-tree=/ cat-file -e "$commit^{commit}" 2> /dev/null || continue
            check_out "$store" "$2/$path" "$commit"
            submodules "$1" "$2/$path"
            break
        done
    done
}
"""

_ADAPT = """
cat > "$root/adapt.py" << 'PROGRAM'
%sPROGRAM
adapt() {
    "$python" "$root/adapt.py" "$@"
}
"""

_INTERPRETER = """\
python=${PYTHON:-%s}
command -v "$python" > /dev/null || {
    echo "$0: the interpreter of the runs, $python, is gone; python3 takes its place; PYTHON names another" >&2
    python=python3
}
"""

_PYTHON = """\
unset PYTHONPATH PYTHONHOME
"$python" -m venv --without-pip "$root/venv"
"$python" -c 'import sys; print(*(p for p in sys.path if p.endswith("-packages")), sep="\\n")' \\
    > "$("$root/venv/bin/python" -c 'import sysconfig; print(sysconfig.get_path("purelib"))')/base.pth"
export VIRTUAL_ENV="$root/venv" PATH="$root/venv/bin:$PATH"
"""


def reproduction_script(
    request: BisectRequest,
    *,
    about: str,
    revisions: Mapping[str, str],
    recorded: Sequence[str],
    environment: Mapping[str, str],
) -> str:
    """Return the script for one set of revisions.

    about: what the script shows, in one line.
    recorded: the command of a run that showed it. It has the options of the case at that commit, and the path of the
    frozen data.
    environment: the description of that run's environment.
    """
    stack = apply_perturbation(request.stack, revisions)
    case = request.script
    values = _values(request, case)
    perturbation = find_perturbation(stack, revisions)
    prefix = () if perturbation is None else perturbation.command
    lines = [
        "#!/bin/sh",
        f"# {one_line(about)}",
        "# Works in the folder given, and leaves it; else in a temporary one, and removes it.",
        _PREPARE,
    ]
    lines.extend(_checkout_commands(stack, revisions, values))
    adapted = list(_adaptation_commands(stack, revisions, values))
    if adapted or stack.needs_python:
        lines.append(_INTERPRETER % _word(stack.environment.python or sys.executable))
    lines.extend(adapted)
    lines.extend(_submodule_commands(stack, revisions, values))
    lines.extend(_pin_commands(stack, revisions, values))
    lines.append("")
    lines.extend(_path_export(request.inherited))
    if stack.needs_python:
        lines.append(_PYTHON)
    lines.extend(_inherited_exports(environment))
    lines.extend(_shell_exports(request.inherited))
    variables = {**stack.environment.variables, **_tool_variables(stack, environment)}
    lines.extend(f"export {name}={_word(fill(text, values))}" for name, text in variables.items())
    for name, step in stack.steps.items():
        command = [fill(word, values) for word in step.command]
        lines.extend(("", f"# step {name}", f"(cd {_word(fill(step.cwd, values))} && {_command(command)})"))
    exports = (f"export {name}={_word(fill(text, values))}" for name, text in stack.case.variables.items())
    lines.extend(("", *exports))
    lines.extend(
        (
            f"cd {_word(fill(stack.case.cwd, values))}",
            _command(_case_command(stack, case, recorded, values, prefix)),
        )
    )
    return "\n".join(lines) + "\n"


def _checkout_commands(
    stack: Stack, revisions: Mapping[str, str], values: Mapping[str, str]
) -> Iterator[str]:
    """Yield the commands that check out each repository, outer ones first, with its patches and overlays."""
    repositories = revisions.keys() & stack.repositories.keys()
    for name in sorted(repositories, key=lambda name: (len(stack.directory(name).parts), name)):
        path = _word(str(stack.repositories[name].path))
        yield f"check_out {path} {_word(values[name])} {revisions[name]}"
    for name in stack.repositories:
        for sha in list_patches(revisions, name):
            yield f"git -C {_word(values[name])} cherry-pick --no-commit {sha}"
        yield from _overlay_commands(stack.repositories[name], values[name])


def _overlay_commands(repository: Repository, place: str) -> Iterator[str]:
    """Yield the commands that put a repository's overlays over the commit that is checked out."""
    for overlay in repository.overlays:
        if overlay.kept_in is not None:
            kept = overlay_ref(overlay.commit)
            yield f"git -C {_word(place)} fetch --quiet --no-tags {_word(str(overlay.kept_in))} {kept}"
        path = _word(literal_pathspec(overlay.path))
        yield f"git -C {_word(place)} checkout --quiet {overlay.commit} -- {path}"


def _adaptation_commands(
    stack: Stack, revisions: Mapping[str, str], values: Mapping[str, str]
) -> Iterator[str]:
    """Yield the commands that adapt files of other commits to the names of the commit that is checked out.

    They run the program that adapted the files for the runs.
    """
    lines: list[str] = []
    for name, repository in stack.repositories.items():
        place = _word(values[name])
        for adaptation in adaptations(stack, name, revisions):
            laid_over = (
                f"-r {over.commit} -- {_word(literal_pathspec(over.path))}" for over in repository.overlays
            )
            list_commands = (
                [f"ls-files -z -- {_word(PYTHON_FILES)}"]
                if adaptation.is_whole
                else [f"ls-tree --full-tree --name-only -z {over}" for over in laid_over]
            )
            renames = _word(adaptation.as_json)
            lines.extend(f"git -C {place} {command} | adapt {place} {renames}" for command in list_commands)
    if lines:
        source = Path(spellings.__file__).read_text(encoding="utf-8")
        yield _ADAPT % source
        yield from lines


def _submodule_commands(
    stack: Stack, revisions: Mapping[str, str], values: Mapping[str, str]
) -> Iterator[str]:
    """Yield the commands that fill the submodules of the commits that are checked out."""
    filled = [
        name for name, repository in stack.repositories.items() if repository.submodules and name in revisions
    ]
    if filled:
        yield _SUBMODULES
    for name in filled:
        yield f"submodules {_word(str(stack.repositories[name].path))} {_word(values[name])}"


def _pin_commands(stack: Stack, revisions: Mapping[str, str], values: Mapping[str, str]) -> Iterator[str]:
    """Yield the commands that set pins to the values at which the runs held them.

    They change nothing where the commit has the same value.
    """
    for name, pin in stack.pins.items():
        value, file = revisions.get(stack.revision_key(name)), _word(f"{values[pin.holder]}/{pin.path}")
        if value is None:
            continue
        if isinstance(pin, GitlinkPin):
            entry = _word(f"{GITLINK},{value},{pin.path}")
            yield f"git -C {_word(values[pin.holder])} update-index --add --cacheinfo {entry}"
            continue
        # The pin of a released package has its version, and not its commit.
        value = stack.version_of(stack.revision_key(name), value) or value
        if pin.earlier is not None:
            earlier = _word(f"{values[pin.holder]}/{pin.earlier.path}")
            value_pattern = (
                r"[0-9a-f]\{40\}" if isinstance(pin, CommitFilePin) else r"[[:alnum:]_][[:alnum:]_.+-]*"
            )
            key_pattern = (
                rf"[[:blank:]]*{re.escape(pin.earlier.key)}[[:blank:]]*[:=][[:blank:]]*['\"]\{{0,1\}}"
            )
            line = rf"s/^\({key_pattern}\){value_pattern}/\1{value}/"
            yield f"[ -f {file} ] || [ ! -f {earlier} ] || sed -i {_word(line)} {earlier}"
        if isinstance(pin, CommitFilePin):
            yield f"[ ! -f {file} ] || echo {_word(value)} > {file}"
        else:
            # The old value may be quoted, so everything after "=" is replaced.
            key_pattern = (
                rf"[[:blank:]]*\(export[[:blank:]]\{{1,\}}\)\{{0,1\}}{re.escape(pin.key)}[[:blank:]]*="
            )
            line = rf"s/^\({key_pattern}\).*/\1{_sed_replacement(value)}/"
            yield f"[ ! -f {file} ] || sed -i {_word(line)} {file}"


def _sed_replacement(value: str) -> str:
    """Return a value, quoted for a shell, as the replacement of a sed command."""
    return re.sub(r"[\\/&]", lambda found: f"\\{found[0]}", shlex.quote(value))


def _values(request: BisectRequest, case: CaseName | None) -> dict[str, str]:
    """Return the values of placeholders. Repositories lie below the script's folder, as they do in a slot."""
    stack = request.stack
    places = {name: f"{_ROOT}/{stack.directory(name)}" for name in stack.repositories}
    home = places[stack.case.repository]
    return {
        "python": f"{_ROOT}/venv/bin/python",
        "slot": _ROOT,
        "jobs": _JOBS,
        "case": home if case is None else str(PurePosixPath(home) / case.path),
        "platform": request.platform,
        "device": str(request.device),
        **places,
    }


def _case_command(
    stack: Stack,
    case: CaseName | None,
    recorded: Sequence[str],
    values: Mapping[str, str],
    prefix: Sequence[str],
) -> tuple[str, ...]:
    """Return the case's command, which begins with the words `prefix`.

    The harness shim wraps the case where other cases run before it. It also does so where the case has no option of its
    own for the frozen data or the build directory.
    """
    case_words = _case_words(recorded) if stack.case.harness else tuple(recorded)
    flags = stack.case.flags
    golden, golden_spellings = _recorded_option(recorded, case_words, (*flags.golden_data, "--golden-data"))
    build, build_spellings = _recorded_option(recorded, case_words, (*flags.runtime_dir, "--runtime-dir"))
    takes_both = (golden is None or golden_spellings) and (build is None or build_spellings)
    if takes_both and not stack.case.after:
        plain = stack.case.model_copy(update={"harness": False})
        stack = stack.model_copy(update={"case": plain})
    return case_command(
        stack,
        case,
        RunOptions(golden_data=golden, runtime_dir=build),
        offered=golden_spellings | build_spellings,
        outcome=Path(f"{_ROOT}/outcome.json"),
        values=values,
        prefix=[fill(word, values) for word in prefix],
    ).argv


def _recorded_option(
    recorded: Sequence[str], case_words: Sequence[str], spellings: Sequence[str]
) -> tuple[Path | None, frozenset[str]]:
    """Return the folder that an option names, and the spellings of it that the case itself gets, and not the shim."""
    folder = next((Path(after) for word, after in pairwise(recorded) if word in spellings), None)
    return folder, frozenset(case_words) & set(spellings)


def _case_words(recorded: Sequence[str]) -> tuple[str, ...]:
    """Return the words of the case itself. The shim's words end at the first `--`."""
    return tuple(recorded[recorded.index("--") + 1 :]) if "--" in recorded else tuple(recorded)


def _inherited_exports(environment: Mapping[str, str]) -> list[str]:
    """Return commands that restore the inherited variables that can change a result."""
    variables = {
        name.removeprefix(_ENVIRONMENT_VARIABLE): value
        for name, value in environment.items()
        if name.startswith(_ENVIRONMENT_VARIABLE)
    }
    return [
        f"export {name}={_word(value)}" if value else f"unset {name}" for name, value in variables.items()
    ]


def _shell_exports(inherited: InheritedVariables | None) -> list[str]:
    """Return commands that restore the other variables of the shell that reached the runs.

    A variable whose value was not kept is named in a comment, so that the reader can set it.
    """
    if inherited is None:
        return []
    named = [
        f"# {name} was set too; its value was not kept: set it, or ask again with --env {name}=VALUE."
        for name in inherited.digests
    ]
    unread = [_UNREAD_NOTE, *(f"# {name}" for name in inherited.unread)] if inherited.unread else []
    values = {name: value for name, value in inherited.values.items() if name != _PATH}
    return [*_exports(values), *named, *unread]


_PATH = "PATH"


def _path_export(inherited: InheritedVariables | None) -> Iterator[str]:
    """Yield the command that finds the programs of the runs. The reader may have other ones, or none."""
    if inherited is not None and _PATH in inherited.values:
        yield f'export {_PATH}={_word(inherited.values[_PATH])}:"${_PATH}"'


def _exports(variables: Mapping[str, str]) -> Iterator[str]:
    return (f"export {name}={_word(value)}" for name, value in variables.items())


def _tool_variables(stack: Stack, environment: Mapping[str, str]) -> dict[str, str]:
    """Return the variables of the tools that the run found. They are set for every step and run."""
    return {
        name: text
        for tool_name, tool in stack.environment.tools.items()
        if is_version(environment.get(f"{_TOOL}{tool_name}", NOT_FOUND))
        for name, text in tool.variables.items()
    }


def _command(words: Sequence[str]) -> str:
    return " ".join(_word(word) for word in words)


def _word(text: str) -> str:
    """Return a word, quoted for a shell command. The script's own variables stay variables."""
    parts = _SCRIPT_VARIABLE.split(text)
    quoted = [f'"${part}"' if index % 2 else shlex.quote(part) for index, part in enumerate(parts) if part]
    return "".join(quoted) or "''"
