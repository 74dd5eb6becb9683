"""The path of one question: `path` tells it, the other modules are its steps; none mixes database and network."""
