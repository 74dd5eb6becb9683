"""A rebuild under load, killed and resumed."""
