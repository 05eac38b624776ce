"""Reads what a build leaves behind.

All of it is hostile until it was checked. Nothing is executed or unpickled, no path leads out of the folder, and no
size is believed.

- `directory` opens a build directory and reads its kernel list.
- `files` opens the files within one folder.
- `tensor_files` and `args_dump` read tensors.
- `task_graph` reads the dependencies between tasks.
- `orchestration` reads the C++ source that submits the tasks.
"""
