"""Which schemas there have been. What brings a store to the newest is `migrate.py`, which takes long to import."""

from importlib import resources

from sqlalchemy import Connection, inspect

_TABLE = "alembic_version"


def schemas() -> list[str]:
    """All, the oldest first: as the scripts `versions/v<schema>_<what>.py` are named."""
    scripts = resources.files("precision_bisect.store.migrations.versions").iterdir()
    return sorted(script.name[1:].partition("_")[0] for script in scripts if script.name.startswith("v"))


def schema_of(connection: Connection) -> str | None:
    """The schema of a store, as its migrations noted it; None where there is no store yet."""
    if not inspect(connection).has_table(_TABLE):
        return None
    return connection.exec_driver_sql(f"SELECT version_num FROM {_TABLE}").scalar()
