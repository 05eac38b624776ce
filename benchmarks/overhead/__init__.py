"""What the tool itself takes of a probe."""
