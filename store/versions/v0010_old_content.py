"""The content of a range's old end, which may have no run of its own: runs of that content in others speak for it."""

import sqlalchemy as sa
from alembic import op

revision = "0010"
down_revision = "0009"


def upgrade() -> None:
    with op.batch_alter_table("stages") as table:
        table.add_column(sa.Column("old_content", sa.String(length=64), nullable=True))
