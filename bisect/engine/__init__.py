"""A bisection as a value: it takes what has happened and says what it needs next, and does nothing itself.

- `probes`: what can be built and run (`Target`), and a probe from wanted over running to finished.
- `log`: all finished probes, and those that are running.
- `evidence`: what probes tell of the candidates of a range; `earlier_failures`: what was mended before the change.
- `history`: questions to git, and their answers.
- `circumstances`: what a choice depends on beside the bisection itself: workers, costs, other bisections.
- `needs`: what a bisection waits for: probes, answers, golden data.
- `states`: the stages of a bisection, each a frozen type in a file of its own.
- `bisection`: the value that ties them together.

Whoever drives it (`bisect.run`, a test, a benchmark) owns every effect: processes, git, the store, the clock.
"""
