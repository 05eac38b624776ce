"""What every command does with errors: one line on standard error, and the documented exit code."""

import sys
from collections.abc import Callable

from sqlalchemy.exc import DBAPIError, SQLAlchemyError

from ...runner.errors import UserError, reason
from ...runner.process.output import outlive_readers
from ...store.database import StoreError
from .command_line.main_group import INTERRUPTED

ERROR = 1


def run_command(function: Callable[[], int]) -> int:
    """Call a command's body and turn its errors into an exit code."""
    outlive_readers()
    try:
        return function()
    except (UserError, StoreError) as error:
        print(f"error: {error}", file=sys.stderr)
        return error.exit_code if isinstance(error, UserError) else ERROR
    except SQLAlchemyError as error:
        print(f"error: expected a store that can be read and written, found: {told(error)}", file=sys.stderr)
        return ERROR
    except OSError as error:
        where = f"{error.filename}: " if error.filename else ""
        print(f"error: {where}expected files that can be read and written: {reason(error)}", file=sys.stderr)
        return ERROR
    except KeyboardInterrupt:
        return INTERRUPTED


def told(error: SQLAlchemyError) -> str:
    """What went wrong, in the database's own words where it has any, in one line."""
    return " ".join(str(error.orig if isinstance(error, DBAPIError) else error).split())
