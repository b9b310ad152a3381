"""The models of a server: which are loaded, under which names, and with which hash."""
