"""How much sooner a farm of several hosts ends a bisection than one host: `python -m benchmarks.farm`."""
