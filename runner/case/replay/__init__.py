"""The script that runs a build directory. It lies alone: a script's folder comes first where it imports from."""
