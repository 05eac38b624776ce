"""What a probe's verdict rests on. Of earlier versions' probes, the signature alone tells."""

import sqlalchemy as sa
from alembic import op

revision = "0014"
down_revision = "0013"


def upgrade() -> None:
    with op.batch_alter_table("probes") as table:
        table.add_column(
            sa.Column("verdict_source", sa.String(length=32), nullable=False, server_default="output")
        )
    probes = sa.table("probes", sa.column("verdict_source"), sa.column("signature"))
    for source, is_of_source in (
        ("exit_code", probes.c.signature.startswith("exit code ")),
        ("person", probes.c.signature == "judged by a person"),
        ("patch_conflict", probes.c.signature.startswith("cherry-pick: ")),
    ):
        op.execute(probes.update().where(is_of_source).values(verdict_source=source))
