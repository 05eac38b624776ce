"""How many runs a search takes, how often it is right, and what others do on the same ranges."""
