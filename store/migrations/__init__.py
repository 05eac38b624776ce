"""The migrations of a store. Alembic runs them; each step is a module of `store/versions`."""
