"""A second set of worlds by an outsider: what happens to kernels when toolchains change, and not as a model has it."""
