"""The reports of a server: metrics, log, spans."""
