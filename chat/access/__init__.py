"""Who may open what, and how often; every entry point calls it. Imports the shared modules only, answers no request."""
