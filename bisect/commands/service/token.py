"""`bisect-precision token`: who may write by way of a server."""

from ....runner.errors import UsageError
from ....store.journals.queue.tokens import TokenJournal
from ....store.words import plural
from ...run.session import open_sessions
from ..command_line.queue_options import TokenOptions
from ..command_line.stores import store_url
from ..errors import run_command

_LONGEST_USER = 64


def token(options: TokenOptions) -> int:
    """Print a new token of a user, or revoke all of theirs; the exit code."""

    def body() -> int:
        if not options.user.isprintable() or not 0 < len(options.user) <= _LONGEST_USER:
            raise UsageError(
                f"expected the name of a user, of at most {_LONGEST_USER} characters, found another text"
            )
        tokens = TokenJournal(open_sessions(store_url(options.store)))
        if options.revoke:
            print(f"{plural(tokens.revoke(options.user), 'token')} of {options.user} revoked")
        else:
            print(tokens.new(options.user))
        return 0

    return run_command(body)
