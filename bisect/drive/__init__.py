"""Drives a bisection: starts its runs, stores their results, shows them, and reports to the engine.

`session` begins a bisection of the store, or resumes it. `loop` is the one loop, which waits for workers, and `driven`
is one bisection in that loop. `person` asks a person to judge, and `progress` shows what goes on. `hand_over` does what
follows an answer: localization, reduction, hooks. Begin with `loop`.
"""
