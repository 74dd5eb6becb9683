"""The tools' admin: overrides, sources, selection measured and simulated. Nothing outside this app imports it."""

# Django imports `tools_registry.admin`; importing these registers their pages.
from tools_registry.admin import overrides, sources  # noqa: F401
