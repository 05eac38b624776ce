"""A shell script that shows one side of the answer again, without the tool and away from the user's checkouts."""

import re
import shlex
import sys
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from pathlib import Path, PurePosixPath

from ....runner.case.case import CaseName, RunOptions, case_command
from ....runner.git.cherry_picks import patches_in
from ....runner.git.overlays import kept_as
from ....runner.git.renames import spellings
from ....runner.git.renames.files import PYTHON_FILES, adaptations
from ....runner.git.repository import GITLINK, literal
from ....runner.stack.parts import CommitFilePin, GitlinkPin, Repository
from ....runner.stack.stack import Stack
from ....runner.stack.templates import fill
from ....runner.workspace.environment import NOT_FOUND
from ....runner.workspace.inherited import InheritedVariables
from ....runner.workspace.perturbations import perturbation_of, with_perturbation
from ...plan.request import BisectRequest
from ..plain_text import one_line

_VARIABLE = re.compile("\0([a-z]+)\0")
_ROOT, _JOBS = "\0root\0", "\0jobs\0"
_ENVIRONMENT_VARIABLE = "variable "
"""How the environment's description names an inherited variable."""
_TOOL = "tool "
_UNREAD = """\
# The runs had these too. Neither the command nor a file of the repositories at the ends names them, and no compiler,
# interpreter or library is known to read them: where this script does not show what it should, try with them."""

_PREPARE = """\
set -eu
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
        git -C "$2" fetch --quiet --no-tags "$(git -C "$1" remote get-url origin)" "$3"
    git -C "$2" checkout --quiet --detach "$3"
}
"""

_SUBMODULES = """\
# Fills the submodules of the commit that is checked out in $2, but for those that are, with what the checkout $1 has.
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
writer=${PYTHON:-%s}
adapt() {
    "$writer" "$root/adapt.py" "$@"
}
"""

_PYTHON = """\
python=${PYTHON:-%s}
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
    """The script for one set of revisions.

    `about` says in a line what is to be seen. `recorded` is the command of a run that showed it: it tells which options
    the case has at that commit, and where the frozen data are. `environment` is that run's description.
    """
    stack = with_perturbation(request.stack, revisions)
    case = request.script
    values = _values(request, case)
    perturbation = perturbation_of(stack, revisions)
    in_front = () if perturbation is None else perturbation.command
    lines = [
        "#!/bin/sh",
        f"# {one_line(about)}",
        "# Works in the folder given, and leaves it; else in a temporary one, and removes it.",
        _PREPARE,
    ]
    repositories = revisions.keys() & stack.repositories.keys()
    for name in sorted(repositories, key=lambda name: (len(stack.directory(name).parts), name)):
        path = _word(str(stack.repositories[name].path))
        lines.append(f"check_out {path} {_word(values[name])} {revisions[name]}")
    for name in stack.repositories:
        picked = (
            f"git -C {_word(values[name])} cherry-pick --no-commit {sha}"
            for sha in patches_in(revisions, name)
        )
        lines.extend(picked)
        lines.extend(_laid_over(stack.repositories[name], values[name]))
    lines.extend(_adapted(stack, revisions, values))
    filled = [
        name for name in stack.repositories if stack.repositories[name].submodules and name in revisions
    ]
    lines.extend([_SUBMODULES] if filled else [])
    lines.extend(
        f"submodules {_word(str(stack.repositories[name].path))} {_word(values[name])}" for name in filled
    )
    lines.extend(_held_pins(stack, revisions, values))
    lines.append("")
    if stack.needs_python:
        lines.append(_PYTHON % _word(stack.environment.python or sys.executable))
    lines.extend(_inherited(environment))
    lines.extend(_of_the_shell(request.inherited))
    variables = {**stack.environment.variables, **_of_tools(stack, environment)}
    lines.extend(f"export {name}={_word(fill(text, values))}" for name, text in variables.items())
    for name, step in stack.steps.items():
        command = [fill(word, values) for word in step.command]
        lines.extend(("", f"# step {name}", f"(cd {_word(fill(step.cwd, values))} && {_command(command)})"))
    of_case = (f"export {name}={_word(fill(text, values))}" for name, text in stack.case.variables.items())
    lines.extend(("", *of_case))
    lines.extend(
        (f"cd {_word(fill(stack.case.cwd, values))}", _command(_run(stack, case, recorded, values, in_front)))
    )
    return "\n".join(lines) + "\n"


def _laid_over(repository: Repository, place: str) -> Iterator[str]:
    """The overlays of a repository, put over the commit that is checked out."""
    for overlay in repository.overlays:
        if overlay.kept_in is not None:
            kept = kept_as(overlay.commit)
            yield f"git -C {_word(place)} fetch --quiet --no-tags {_word(str(overlay.kept_in))} {kept}"
        path = _word(literal(overlay.path))
        yield f"git -C {_word(place)} checkout --quiet {overlay.commit} -- {path}"


def _adapted(stack: Stack, revisions: Mapping[str, str], values: Mapping[str, str]) -> Iterator[str]:
    """Files of other times, written with the names of what is checked out, by the program that did so for the runs."""
    lines: list[str] = []
    python = _word(stack.environment.python or sys.executable)
    for name, repository in stack.repositories.items():
        place = _word(values[name])
        for adaptation in adaptations(stack, name, revisions):
            laid_over = (f"-r {over.commit} -- {_word(literal(over.path))}" for over in repository.overlays)
            lists = (
                [f"ls-files -z -- {_word(PYTHON_FILES)}"]
                if adaptation.is_whole
                else [f"ls-tree --full-tree --name-only -z {over}" for over in laid_over]
            )
            renames = _word(adaptation.as_json)
            lines.extend(f"git -C {place} {files} | adapt {place} {renames}" for files in lists)
    if lines:
        source = Path(spellings.__file__).read_text(encoding="utf-8")
        yield _ADAPT % (source, python)
        yield from lines


def _held_pins(stack: Stack, revisions: Mapping[str, str], values: Mapping[str, str]) -> Iterator[str]:
    """Pins with the values that the runs were held at; where the commit says the same, nothing changes."""
    for name, pin in stack.pins.items():
        value, file = revisions.get(stack.held_name(name)), _word(f"{values[pin.holder]}/{pin.path}")
        if value is None:
            continue
        if isinstance(pin, GitlinkPin):
            entry = _word(f"{GITLINK},{value},{pin.path}")
            yield f"git -C {_word(values[pin.holder])} update-index --add --cacheinfo {entry}"
            continue
        value = stack.version_of(stack.held_name(name), value) or value
        if pin.earlier is not None:
            earlier = _word(f"{values[pin.holder]}/{pin.earlier.path}")
            said = r"[0-9a-f]\{40\}" if isinstance(pin, CommitFilePin) else r"[[:alnum:]_][[:alnum:]_.+-]*"
            start = rf"[[:blank:]]*{re.escape(pin.earlier.key)}[[:blank:]]*[:=][[:blank:]]*['\"]\{{0,1\}}"
            line = rf"s/^\({start}\){said}/\1{value}/"
            yield f"[ -f {file} ] || [ ! -f {earlier} ] || sed -i {_word(line)} {earlier}"
        if isinstance(pin, CommitFilePin):
            yield f"[ ! -f {file} ] || echo {_word(value)} > {file}"
        else:
            # What stands before a value may be quoted; the new value is put in as a whole assignment.
            start = rf"[[:blank:]]*\(export[[:blank:]]\{{1,\}}\)\{{0,1\}}{re.escape(pin.key)}[[:blank:]]*="
            line = rf"s/^\({start}\).*/\1{_in_sed(value)}/"
            yield f"[ ! -f {file} ] || sed -i {_word(line)} {file}"


def _in_sed(value: str) -> str:
    """A value, quoted for a shell, as the replacement of a sed command."""
    return re.sub(r"[\\/&]", lambda found: f"\\{found[0]}", shlex.quote(value))


def _values(request: BisectRequest, case: CaseName | None) -> dict[str, str]:
    """The placeholders, with repositories laid out below the script's folder as in a slot."""
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


def _run(
    stack: Stack,
    case: CaseName | None,
    recorded: Sequence[str],
    values: Mapping[str, str],
    in_front: Sequence[str],
) -> tuple[str, ...]:
    """The case's command, under the harness shim only where others run before the case, or it cannot take frozen data
    by itself."""
    own = _behind_shim(recorded) if stack.case.harness else tuple(recorded)
    flags = stack.case.flags
    golden, golden_offered = _given(recorded, own, (*flags.golden_data, "--golden-data"))
    build, build_offered = _given(recorded, own, (*flags.runtime_dir, "--runtime-dir"))
    takes_all = (golden is None or golden_offered) and (build is None or build_offered)
    if takes_all and not stack.case.after:
        plain = stack.case.model_copy(update={"harness": False})
        stack = stack.model_copy(update={"case": plain})
    return case_command(
        stack,
        case,
        RunOptions(golden_data=golden, runtime_dir=build),
        offered=golden_offered | build_offered,
        outcome=Path(f"{_ROOT}/outcome.json"),
        values=values,
        in_front=[fill(word, values) for word in in_front],
    ).argv


def _given(
    recorded: Sequence[str], own: Sequence[str], spellings: Sequence[str]
) -> tuple[Path | None, frozenset[str]]:
    """The folder that an option named, and the spellings in which the case itself took it."""
    folder = next((Path(after) for word, after in pairwise(recorded) if word in spellings), None)
    return folder, frozenset(own) & set(spellings)


def _behind_shim(recorded: Sequence[str]) -> tuple[str, ...]:
    """The case's own words: the shim's end at the first `--`."""
    return tuple(recorded[recorded.index("--") + 1 :]) if "--" in recorded else tuple(recorded)


def _inherited(environment: Mapping[str, str]) -> list[str]:
    """The inherited variables that can change a result, as they were."""
    variables = {
        name.removeprefix(_ENVIRONMENT_VARIABLE): value
        for name, value in environment.items()
        if name.startswith(_ENVIRONMENT_VARIABLE)
    }
    return [
        f"export {name}={_word(value)}" if value else f"unset {name}" for name, value in variables.items()
    ]


def _of_the_shell(inherited: InheritedVariables | None) -> list[str]:
    """The other variables of the shell that reached the runs, those that nothing is known to read as comments; a secret
    has to be put in by whoever has it."""
    if inherited is None:
        return []
    hidden = [
        f"# {name} was set too; its value, which may be a secret, was not kept." for name in inherited.hidden
    ]
    unread = [f"# export {name}={_word(one_line(value))}" for name, value in inherited.unread.items()]
    return [*_exports(inherited.values), *hidden, *([_UNREAD, *unread] if unread else [])]


def _exports(variables: Mapping[str, str]) -> Iterator[str]:
    return (f"export {name}={_word(value)}" for name, value in variables.items())


def _of_tools(stack: Stack, environment: Mapping[str, str]) -> dict[str, str]:
    """What the tools that the run found set for every step and run."""
    return {
        name: text
        for tool_name, tool in stack.environment.tools.items()
        if environment.get(f"{_TOOL}{tool_name}", NOT_FOUND) != NOT_FOUND
        for name, text in tool.variables.items()
    }


def _command(words: Sequence[str]) -> str:
    return " ".join(_word(word) for word in words)


def _word(text: str) -> str:
    """A word of a shell command; the script's own variables stay variables."""
    parts = _VARIABLE.split(text)
    quoted = [f'"${part}"' if index % 2 else shlex.quote(part) for index, part in enumerate(parts) if part]
    return "".join(quoted) or "''"
