"""What the model may call. Empty until the tool loop exists; the import contracts already hold it."""
