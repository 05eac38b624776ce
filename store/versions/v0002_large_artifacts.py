"""Build directories beyond 2 GiB: PostgreSQL's plain integers end there."""

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"


def upgrade() -> None:
    with op.batch_alter_table("artifacts") as table:
        table.alter_column(
            "bytes", existing_type=sa.Integer(), type_=sa.BigInteger(), existing_nullable=False
        )
