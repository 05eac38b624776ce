"""Processes that run below a supervisor, bounded in time and memory, and end when their driver ends.

`run` streams a command's output to its end, and `supervise` is the supervisor. `fork_servers` save imports. `signals`
defines what Ctrl-C does, and `entry` is where the programs begin.
"""
