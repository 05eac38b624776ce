"""The steps of the store's schema, one module a version. Alembic runs them in the order of their numbers."""
