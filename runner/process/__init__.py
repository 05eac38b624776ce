"""Processes that run below a supervisor, bounded in time and memory, and end when their driver ends.

`run` runs a command and streams its output, and `supervise` is the supervisor. `fork_server` is a process that forks
many short runs, to save their imports. `signals` defines what Ctrl-C does, and `entry` is where the programs begin.
"""
