"""What a further probe promises and takes, by which bisections are served in turn."""
