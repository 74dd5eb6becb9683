"""What staff may do and did: roles, limits to agents, the journal of changes; and agents as files. Imports this app's models only."""
