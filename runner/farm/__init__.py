"""Runs on other machines, through dask or ray. The machines share no folder.

`farm` gives runs to machines as tasks, and `host` makes a run there. `dask` and `ray` carry the tasks. Data is sent to
a machine only once.
"""
