"""How long the site of a year of nights takes."""
