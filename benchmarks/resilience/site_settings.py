"""Production's settings, with the constants that a run wants shorter (`SITE_CONSTANTS`, a JSON object by name).

The embedder is the one of the tests: no question here is about meaning, and a process that is killed and started again
a dozen times would load a model each time, half of what its start costs.
"""

from config.settings import *  # noqa: F403
from config.settings import INSTALLED_APPS, env

SITE_CONSTANTS = env.json("SITE_CONSTANTS", default={})
globals().update({name: value for name, value in SITE_CONSTANTS.items() if name in globals()})
INSTALLED_APPS = [*INSTALLED_APPS, "benchmarks.resilience.site_constants.SiteConstants"]
EMBEDDERS = {"default": {"BACKEND": "tests.hashing.HashingEmbedder"}}
