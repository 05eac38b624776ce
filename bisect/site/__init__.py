"""Pages for people, made from the store's rows alone: as a folder of files, or served live."""
