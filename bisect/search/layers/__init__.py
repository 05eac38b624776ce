"""Which of the layers that move at once makes the change. `matrix` holds what is known, `choice` says what to run."""
