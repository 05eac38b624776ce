"""Two task graphs side by side.

`tasks` aligns the tasks of two runs, follows their data, and finds tasks that no dependency orders. `submits` finds
the statements that made a task, and edits them. `differences` says in what two programs differ.
"""
