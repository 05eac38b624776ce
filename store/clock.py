"""Times in the store: always UTC, always aware."""

from datetime import UTC, datetime

from sqlalchemy import DateTime, func, select
from sqlalchemy.engine import Dialect
from sqlalchemy.orm import Session
from sqlalchemy.types import TypeDecorator


def now() -> datetime:
    """The time, in UTC."""
    return datetime.now(UTC)


def store_now(session: Session) -> datetime:
    """The time as all machines that share the store see it, whatever their own clocks say: the server's, where there is
    one. A file is one machine's."""
    if session.get_bind().dialect.name != "postgresql":
        return now()
    return session.execute(select(func.clock_timestamp())).scalar_one().astimezone(UTC)


class UtcDateTime(TypeDecorator[datetime]):
    """An aware datetime kept as UTC also where the database knows no time zones (SQLite)."""

    impl = DateTime(timezone=True)
    cache_ok = True

    def process_bind_param(self, value: datetime | None, dialect: Dialect) -> datetime | None:
        """A point in time as UTC; `ValueError` where it says no time zone."""
        if value is None:
            return None
        if value.tzinfo is None:
            raise ValueError(f"expected a datetime with a time zone, found {value!r}")
        return value.astimezone(UTC)

    def process_result_value(self, value: datetime | None, dialect: Dialect) -> datetime | None:
        """A stored point in time, which is UTC."""
        if value is None:
            return None
        return value.replace(tzinfo=UTC) if value.tzinfo is None else value.astimezone(UTC)
