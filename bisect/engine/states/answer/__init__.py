"""What a bisection answers: how a culprit is named, what stands around its range, the conclusion."""
