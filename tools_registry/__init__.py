"""What the model may call: tools, the catalogue with its wall of rights, selection, execution. Imports no `chat`."""
