"""A site whose workers beat and look often, so that a test need not wait for the times of production."""

from config.settings import *  # noqa: F403

JOB_REAP_SECONDS = 0.5
