"""What runs under the interpreter of a stack without a golden harness. Imports nothing of this package."""
