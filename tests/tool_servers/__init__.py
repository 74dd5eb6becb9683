"""Servers and documents of tools that nobody here wrote, from their packages: `make tool-servers`."""
