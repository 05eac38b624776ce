"""What every command does with errors: one line on standard error, and the documented exit code.

Also chooses the store that a command uses.
"""

import sys
from collections.abc import Callable

from sqlalchemy.exc import DBAPIError, SQLAlchemyError

from ..runner.errors import UserError, reason
from ..runner.process.entry import INTERRUPTED
from ..runner.process.signals import interruptible_work, outlive_readers
from ..runner.workspace.home import user_home
from ..store.database import StoreError, sqlite_url

ERROR = 1
"""Any error that has no code of its own ends with this exit code."""


def run_command(function: Callable[[], int]) -> int:
    """Call a command's body and turn its errors into an exit code."""
    outlive_readers()
    try:
        with interruptible_work():
            return function()
    except (UserError, StoreError) as error:
        _say(str(error))
        return error.exit_code if isinstance(error, UserError) else ERROR
    except SQLAlchemyError as error:
        _say(f"expected a store that can be read and written, found: {database_message(error)}")
        return ERROR
    except OSError as error:
        where = f"{error.filename}: " if error.filename else ""
        _say(f"{where}expected files that can be read and written: {reason(error)}")
        return ERROR
    except KeyboardInterrupt:
        return INTERRUPTED


def _say(message: str) -> None:
    # The import is late because it loads what a command without an error need not wait for.
    from .report.phrases import one_line

    # A name in a message may be anybody's, such as that of a commit in a log for `--replay`.
    print(f"error: {one_line(message)}", file=sys.stderr)


def database_message(error: SQLAlchemyError) -> str:
    """Return what went wrong in one line, in the database's own words where it has any."""
    return " ".join(str(error.orig if isinstance(error, DBAPIError) else error).split())


def store_url(store: str | None) -> str:
    """Return the URL of the store that `--store` names, else of the user's own."""
    return store or sqlite_url(user_home().store)
