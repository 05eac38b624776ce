"""Bringing a store to a schema, with alembic."""

from importlib import resources

from alembic import command
from alembic.config import Config
from sqlalchemy import Connection, MetaData


def migrate(connection: Connection, metadata: MetaData, schema: str = "head") -> None:
    """Run the migrations that a store lacks, in the connection's transaction: up to the newest, or to `schema`."""
    config = Config()
    with resources.as_file(resources.files("precision_bisect.store.migrations")) as scripts:
        config.set_main_option("script_location", str(scripts).replace("%", "%%"))
        config.attributes.update(connection=connection, metadata=metadata)
        command.upgrade(config, schema)
