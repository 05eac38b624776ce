"""One run of a commit: check out, build, run the case, judge the result.

`probe` is the whole, and leases the board. `builder` builds or reuses the toolchain, and `build_cache` keeps builds by
their content. `judge` turns output into a verdict. `pool` has the workers of this machine. Begin with `probe`.
"""
