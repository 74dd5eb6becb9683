"""What staff may do and did: roles, limits to agents, the journal of changes; agents as files; what a setting that is
left empty inherits. Imports this app's models only.
"""
