"""The chat page: one template, and every word that its script writes."""
