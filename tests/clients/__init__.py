"""Programs that nobody here wrote, unchanged, against `/v1` of a served site: `make clients`.

Each is installed from its package into an environment of its own under `.venv/clients`, which needs a network; no part
of `make test`.
"""
