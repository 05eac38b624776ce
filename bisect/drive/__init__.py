"""The one loop that has effects: it starts runs, keeps what came of them, and reports to the engine.

`session` opens a bisection of the store or resumes one. `loop` waits for workers and for Ctrl-C, and `driven` is one
bisection in that loop. `progress` shows what goes on. `hand_over` does what follows an answer: localization, reduction,
hooks. Begin with `loop`.
"""
