"""One run of a commit: check out, build, run the case, judge the result.

`probe` makes a whole run. `builder` builds or reuses the toolchain, and `build_cache` keeps builds by their content.
`judge` decides whether a run is good, bad or a skip. `pool` has the workers of this machine. Begin with `probe`.
"""
