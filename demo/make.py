"""Make the demo stack in a folder: three repositories, a stack file, and the truth about what is wrong."""

import json
import random
import shutil
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from importlib import resources
from itertools import pairwise
from pathlib import Path

from .compiler import SUBMODULE_PATH, compiler_history, culprit_slots
from .history.fast_import import git, write_repository
from .history.history import Pointer
from .history.people import RUNTIME_LEAD, SPAN, START, spread
from .layout import MIN_COMMITS, CompilerLayout, compiler_layout, runtime_layout
from .library import SLOTS, library_history
from .runtime import runtime_history
from .scenarios import SETTINGS, DemoRepository, Scenario

_ROOT_TOKEN = "@ROOT@"  # the one placeholder of configs/demo.toml: the folder of the stack


class DemoError(ValueError):
    """The stack cannot be made here, or not as asked; the message says what to change."""


@dataclass(frozen=True)
class TrueCulprit:
    """A commit that plants the fault; `through` is the superproject's commit that brings a submodule's in, `lost` the
    submodule's fix that the commit takes away."""

    repository: str
    commit: str
    through: str | None = None
    lost: str | None = None


@dataclass(frozen=True)
class Truth:
    """What a bisection should find. `good` and `bad` are commits of the compiler; culprits latest first."""

    scenario: str
    good: str
    bad: str
    case: str
    bad_when: str
    commits: int
    seed: int
    culprits: tuple[TrueCulprit, ...]

    def to_json(self) -> str:
        """The truth as the text of its file; a culprit's fields that say nothing are left out."""
        fields = asdict(self)
        fields["culprits"] = [
            {key: value for key, value in asdict(culprit).items() if value is not None}
            for culprit in self.culprits
        ]
        return json.dumps(fields, indent=2) + "\n"


def make_demo(directory: Path, *, scenario: Scenario, commits: int, seed: int) -> Truth:
    """Make the three repositories, `stack.toml` and `truth.json` in a new or empty folder.

    `commits` counts the compiler's commits between the good end and the bad one. The same arguments give
    the same commit ids. Raises DemoError where the folder is not empty, commits are fewer than MIN_COMMITS,
    or git is missing. Nothing is left behind on failure.
    """
    directory = directory.absolute()
    if commits < MIN_COMMITS:
        raise DemoError(f"expected at least {MIN_COMMITS} commits, got {commits}: ask for more")
    if shutil.which("git") is None:
        raise DemoError("expected the program `git` on PATH, found none: install git")
    if directory.exists() and not (directory.is_dir() and not any(directory.iterdir())):
        raise DemoError(
            f"expected {directory} to be new or an empty folder, found something there: name another"
        )
    existed = directory.exists()
    try:
        return _make(directory, scenario=scenario, commits=commits, seed=seed)
    except BaseException:
        _clear(directory, keep=existed)
        raise


def _make(directory: Path, *, scenario: Scenario, commits: int, seed: int) -> Truth:
    setting = SETTINGS[scenario]
    layout = compiler_layout(commits=commits, seed=seed)
    inner = runtime_layout(bumps=len(layout.bumps), wide_bump=layout.wide_bump, seed=seed)
    rolls_back = scenario is Scenario.RUNTIME_ROLLBACK
    pointers = tuple(reversed(inner.pointers)) if rolls_back else inner.pointers
    times = spread(
        random.Random(f"compiler times/{seed}"), count=len(layout.slots), after=START, before=START + SPAN
    )
    inner_ids = write_repository(
        directory / DemoRepository.RUNTIME,
        runtime_history(
            inner, scenario=scenario, seed=seed, times=_runtime_times(layout, pointers, times, seed)
        ),
    )
    ids = write_repository(
        directory / DemoRepository.COMPILER,
        compiler_history(
            layout, scenario=scenario, seed=seed, times=times, pointers=_pointers(layout, pointers, inner_ids)
        ),
    )
    early = spread(
        random.Random(f"library times/{seed}"), count=len(SLOTS), after=START - RUNTIME_LEAD, before=START
    )
    write_repository(directory / DemoRepository.LIBRARY, library_history(seed=seed, times=early))
    _add_submodule(directory / DemoRepository.COMPILER)

    culprits = [TrueCulprit(DemoRepository.COMPILER, ids[slot]) for slot in culprit_slots(layout, scenario)]
    if rolls_back:
        crossing = ids[layout.bumps[len(layout.bumps) - 1 - layout.wide_bump]]
        culprits = [TrueCulprit(DemoRepository.COMPILER, crossing, lost=inner_ids[inner.culprit])]
    elif setting.repository is DemoRepository.RUNTIME:
        through = ids[layout.bumps[layout.wide_bump]]
        culprits = [TrueCulprit(DemoRepository.RUNTIME, inner_ids[inner.culprit], through)]
    truth = Truth(
        scenario=scenario,
        good=ids[layout.good],
        bad=ids[layout.bad],
        case=setting.case,
        bad_when=setting.bad_when,
        commits=commits,
        seed=seed,
        culprits=tuple(culprits),
    )
    stack = resources.files("precision_bisect.configs").joinpath("demo.toml").read_text("utf-8")
    quoted = json.dumps(str(directory), ensure_ascii=False)[1:-1]  # escapes of JSON strings are TOML's too
    (directory / "stack.toml").write_text(stack.replace(_ROOT_TOKEN, quoted), "utf-8")
    (directory / "truth.json").write_text(truth.to_json(), "utf-8")
    return truth


def _runtime_times(
    layout: CompilerLayout, pointers: Sequence[int], times: Sequence[int], seed: int
) -> list[int]:
    """Dates that make each commit of the runtime older than the compiler's first pointer to it."""
    rng = random.Random(f"runtime times/{seed}")
    edges = [START - RUNTIME_LEAD, times[0], *(times[bump] for bump in layout.bumps)]
    dates: list[int] = []
    for pointer, (after, before) in zip(pointers, pairwise(edges), strict=True):
        dates += spread(rng, count=max(0, pointer + 1 - len(dates)), after=after, before=before)
    return dates


def _pointers(layout: CompilerLayout, targets: Sequence[int], ids: Sequence[str]) -> dict[int, Pointer]:
    slots = (0, *layout.bumps)
    rolled = (0, *(new - old for old, new in pairwise(targets)))
    return {
        slot: Pointer(SUBMODULE_PATH, ids[target], count)
        for slot, target, count in zip(slots, targets, rolled, strict=True)
    }


def _add_submodule(superproject: Path) -> None:
    """Check the submodule out from the repository beside it; git must be told that a local path is meant."""
    git(
        superproject,
        "-c",
        "protocol.file.allow=always",
        "submodule",
        "--quiet",
        "update",
        "--init",
        SUBMODULE_PATH,
    )


def _clear(directory: Path, *, keep: bool) -> None:
    """Remove what a failed attempt left: the folder, or all that is in it where it was there before."""
    if not keep:
        shutil.rmtree(directory, ignore_errors=True)
        return
    for entry in directory.iterdir():
        shutil.rmtree(entry) if entry.is_dir() else entry.unlink()
