"""Routes under /x/: what can be seen of this server and its requests. A new one is its file, and a line in table.py."""
