"""The commits of a range, read from git once: which of them can matter, and which share a result.

`range` holds a range with its commits and their content keys. `loader` reads it from git, and answers what a
bisection asks about histories. `questions` lists these questions, and finds the range that a moved pin makes suspect.
"""
