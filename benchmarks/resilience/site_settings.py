"""Production's settings, with the constants that a run wants shorter (`SITE_CONSTANTS`, a JSON object by name).

The embedder is the one of the tests: no question here is about meaning, and a process that is killed and started again
a dozen times would load a model each time, half of what its start costs.
"""

from config import constants
from config.settings import *  # noqa: F403
from config.settings import env

_wanted = env.json("SITE_CONSTANTS", default={})
if unknown := _wanted.keys() - vars(constants).keys():
    raise LookupError(f"config.constants has no {', '.join(sorted(unknown))}")
vars().update(_wanted)
EMBEDDERS = {"default": {"BACKEND": "knowledge.embeddings.hashing.HashingEmbedder"}}
