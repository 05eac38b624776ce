"""How an older store is brought up to date, by alembic; each step is a module of `store/versions`."""
