"""Runs a matrix of cases each night, bisects new failures, and keeps incidents of regressions until they are fixed.

`matrix` reads the nightly file and runs single cases, and `night` runs one night. `regressions` follows failures from
night to night, and `night_report` writes and prints what a night found. Begin with `night`.
"""
