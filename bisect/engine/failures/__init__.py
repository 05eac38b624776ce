"""How the failure that is searched for is told from others."""
