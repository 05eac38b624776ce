"""Runs on other machines, through dask or ray. Machines share no folder.

`farm` chooses the machine, and `host` does the work there. `dask` and `ray` run the tasks. Data is sent to a machine
only once.
"""
