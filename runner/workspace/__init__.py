"""The folders in which commits are checked out and built.

`home` names the tool's folders and locks them. `slot` has worktrees and a virtual environment for one run at a time.
`content` decides which commits have equal files, and `environment` describes the machine.
"""
