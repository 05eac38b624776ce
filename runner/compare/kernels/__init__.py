"""Compiled loops over runs of elements."""
