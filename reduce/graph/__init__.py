"""Two task graphs side by side.

`tasks` aligns the tasks of two runs, follows their data, and finds tasks that no dependency orders. `names` says what
the orchestration calls the tensors of a task. `differences` says in what two programs differ.
"""
