"""Reads what a build and its runs leave behind.

All of it is hostile until it is checked. Nothing is executed or unpickled, no path leads out of the folder, and no
claimed size is believed.

- `directory` opens a build directory and reads its kernel list. Begin there.
- `files` opens the files within one folder.
- `tensor_files` and `args_dump` read tensors.
- `task_graph` reads the dependencies between tasks.
- `orchestration` reads the C++ source that submits the tasks.
"""
