"""HTTP alone: connections, bodies, keys, streams, errors."""
