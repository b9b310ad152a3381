"""The models of a server: what is loaded, under which names, with which hash."""
