"""Scripts that run one case of a scene test under the stack's own interpreter, and import nothing of ours.

`export` writes the case as a build directory with data. `export --run` runs the
script itself with fixed random numbers. `golden` replays a build directory as a scene test.
"""
