"""Where commits are checked out and built.

`home` names the tool's folders, and `slot` is a worktree with its environment. `content` says which commits have equal
files, and `environment` describes the machine.
"""
