"""What a server reports: metrics, log, spans."""
