"""The events of running turns: in this process (`memory`), or in a Redis stream for all processes (`redis`)."""
