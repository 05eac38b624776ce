"""What a worker of the queue runs once a submission has ended."""

import sqlalchemy as sa
from alembic import op

revision = "0008"
down_revision = "0007"


def upgrade() -> None:
    op.add_column("submissions", sa.Column("afterwards", sa.JSON(), nullable=False, server_default="[]"))
