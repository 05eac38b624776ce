"""Kinds of faults, a family a file."""
