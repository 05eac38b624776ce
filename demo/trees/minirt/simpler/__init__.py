"""Interface of the runtime to its users."""
