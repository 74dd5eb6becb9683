"""How fast words reach many readers at once, and what a model server alone can do."""
