"""Scripts that run one case of a scene test in its own process: they export, seed and replay its data.

They run under the stack's own interpreter, and import nothing of ours.
"""
