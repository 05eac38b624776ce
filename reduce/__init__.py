"""Explains and shrinks a failing build.

- `localize` finds the first divergent tensor, and the change that causes it.
- `shrink` makes the build smaller while it fails in the same way.
- `replay` runs builds, and single tasks of them. `graph` has the tasks and buffers of a build, and pairs those of two.
- `scene` makes builds of two scripts of a scene test. `reduce_command` is `reduce` itself. Begin there.
"""
