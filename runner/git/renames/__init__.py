"""Names that a commit calls otherwise than those before it, and files of other times that are written with them."""
