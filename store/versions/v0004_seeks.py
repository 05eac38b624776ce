"""Ranges in which a fix is sought, and not a regression."""

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"


def upgrade() -> None:
    with op.batch_alter_table("stages") as table:
        table.add_column(
            sa.Column("seeks", sa.String(length=32), nullable=False, server_default="regression")
        )
