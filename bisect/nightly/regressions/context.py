"""What the work on a night's regressions shares."""

from dataclasses import dataclass

from rich.console import Console
from sqlalchemy.orm import Session, sessionmaker

from ....runner.stack.stack import Stack
from ....runner.workspace.home import Home
from ....runner.workspace.workspace import Workspace
from ....store.journals.nightly.job import JobJournal
from ....store.tables.nights import CellRow, NightRow
from ...run.session import StoredBisection
from ..config import NightlyConfig
from ..limits import Limits


@dataclass(frozen=True, kw_only=True)
class NightContext:
    """A night of a job, and what it works with."""

    config: NightlyConfig
    stack: Stack
    sessions: sessionmaker[Session]
    journal: JobJournal
    home: Home
    night: NightRow
    limits: Limits
    workspace: Workspace
    progress: Console

    def bisection(self, identity: int) -> StoredBisection:
        """A bisection of the store."""
        journal = self.journal.bisection(identity)
        return StoredBisection(journal, journal.row().name, self.home)


def cell_label(cell: CellRow) -> str:
    """How a cell is called where people read."""
    return f"{cell.case} on {cell.platform}"
