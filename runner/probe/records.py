"""What a probe is asked, and what came of it: plain data that passes between driver and workers."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from ...store.vocabulary import BuildSource, Judgement
from ..case.case import CaseName, RunOptions
from ..case.golden import FrozenGolden
from ..verdict.verdict import Classification, Ending
from .bad_when import BadWhen
from .builder import BuiltToolchain
from .by_hand import LeftToPerson


@dataclass(frozen=True, kw_only=True)
class ProbeRequest:
    """What to build and run. `timeout` is seconds for the run; `directory` takes logs and what is kept of the run.

    avoid: the places (`place_of`) where it is not made as long as there is another.
    """

    revisions: Mapping[str, str]
    case: CaseName | None
    """None where the stack's command is the whole case."""
    platform: str
    device: int
    golden: FrozenGolden | None
    bad_when: BadWhen | None
    """None where the case is a predicate command, which is judged by its exit code."""
    options: RunOptions
    timeout: float
    directory: Path
    by_hand: bool = False
    """Whether it is built, and left to a person to run."""
    build_only: bool = False
    """Whether it is built ahead, below the priority of all else, and not run."""
    avoid: frozenset[str] = frozenset()


@dataclass(frozen=True, kw_only=True)
class ProbeResult:
    """What came of it. `toolchain` is None where the build failed, `ending` then tells of the failing step."""

    classification: Classification
    judgement: Judgement
    ending: Ending
    command: tuple[str, ...]
    missing_options: tuple[str, ...]
    toolchain: BuiltToolchain | None
    build_seconds: float
    run_seconds: float
    surroundings: Mapping[str, str]
    slot: int
    host: str
    log: Path
    build_directory: Path | None
    left: LeftToPerson | None = None
    """What a person has to run, where that is left to one."""

    @property
    def place(self) -> str:
        """Where it was made."""
        return place_of(self.host, self.slot)

    @property
    def build_source(self) -> BuildSource:
        """Where the toolchain came from."""
        return self.toolchain.source if self.toolchain else BuildSource.NONE


def place_of(host: str | None, slot: int) -> str:
    """What runs may share beside their commit: the slot of a host, and with it the board."""
    return f"slot {slot}" if host is None else f"slot {slot} of {host}"
