"""A site whose constants a run may shorten, with the embedder that it names."""

from benchmarks.resilience.site_settings import *  # noqa: F403
from config.settings import EMBEDDERS  # noqa: F401
