"""Settings of the benchmark: production's, with an embedder that counts and a lease short enough to wait for."""

from config.settings import *  # noqa: F403
from config.settings import env

EMBEDDERS = {"default": {"BACKEND": env.str("BENCH_EMBEDDER", default="benchmarks.rebuild.counting.CountingHashing")}}
LLMS = {}
JOB_LEASE_SECONDS = 4.0
JOB_HEARTBEAT_SECONDS = 1.0
