"""Worlds of the first outsider."""
