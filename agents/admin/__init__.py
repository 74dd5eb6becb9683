"""The admin of agents, deployments, the site's settings and accounts. Nothing outside this app imports it."""

# Django imports `agents.admin`; importing these registers their pages.
from agents.admin import accounts, deployments, journal  # noqa: F401
