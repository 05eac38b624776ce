"""How often the product names a wrong commit where other failures stand in the range: see README.md."""
