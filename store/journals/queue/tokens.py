"""The tokens by which a server knows who submits. They are drawn here, shown once, and kept as digests."""

import hashlib
import hmac
import secrets

from sqlalchemy import select
from sqlalchemy.orm import Session, sessionmaker

from ...clock import store_now
from ...tables.queue import TokenRow

_BYTES = 32


class TokenJournal:
    """All tokens of a store."""

    def __init__(self, sessions: sessionmaker[Session]) -> None:
        self._sessions = sessions

    def new(self, user: str) -> str:
        """A new token for a user, which nobody can read from the store."""
        token = secrets.token_urlsafe(_BYTES)
        with self._sessions.begin() as session:
            session.add(TokenRow(user=user, digest=_digest(token), created=store_now(session)))
        return token

    def revoke(self, user: str) -> int:
        """Have no token of a user count any more; how many did."""
        with self._sessions.begin() as session:
            rows = session.scalars(
                select(TokenRow).where(TokenRow.user == user, TokenRow.revoked.is_(None))
            ).all()
            for row in rows:
                row.revoked = store_now(session)
            return len(rows)

    def user_of(self, token: str) -> str | None:
        """Whose token it is; None where it counts for nobody. How long that takes tells nothing of the tokens."""
        digest = _digest(token)
        with self._sessions() as session:
            rows = session.scalars(select(TokenRow).where(TokenRow.revoked.is_(None))).all()
        matching = [row.user for row in rows if hmac.compare_digest(row.digest, digest)]
        return matching[0] if matching else None


def _digest(token: str) -> str:
    return hashlib.sha256(token.encode("utf-8", "surrogateescape")).hexdigest()
