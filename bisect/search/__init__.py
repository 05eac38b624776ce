"""Which commit to run next, and what the runs so far say. Pure: no clock, no disk, no process.

`graph` is the history as arrays, `hypotheses` the explanations of outcomes, `rates` the model of flaky failures.
`posterior` weighs the explanations by the runs, and `belief` sums that up for each commit. `decision` and `halving`
choose the next round. `testability` says which commits are likely to build. Begin with `decision`.
"""
