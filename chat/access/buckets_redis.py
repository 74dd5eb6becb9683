"""Token buckets that all processes share. Imported only where `REDIS_URL` is set: the client takes 35 MB."""

import logging
import time
from collections.abc import Sequence

import redis

from chat.access.buckets import Limit, LocalBuckets

logger = logging.getLogger(__name__)

#: As `LocalBuckets.take`, by the clock of Redis, which all processes share.
_TAKE = """
local time = redis.call('TIME')
local now = tonumber(time[1]) + tonumber(time[2]) / 1000000
local wait, taken = 0, {}
for i, key in ipairs(KEYS) do
  taken[i] = math.max(tonumber(redis.call('GET', key) or '0'), now) + 60 / tonumber(ARGV[i])
  wait = math.max(wait, taken[i] - now - 60)
end
if wait > 0.00001 then return tostring(wait) end
for i, key in ipairs(KEYS) do
  redis.call('SET', key, string.format('%.6f', taken[i]), 'EX', 61)
end
return '0'
"""
_GIVE_BACK = """
for i, key in ipairs(KEYS) do
  local full_at = redis.call('GET', key)
  if full_at then
    redis.call('SET', key, string.format('%.6f', tonumber(full_at) - 60 / tonumber(ARGV[i])), 'EX', 61)
  end
end
"""


class RedisBuckets:
    """Buckets that all processes share; those of this process for a while when Redis does not answer."""

    #: One try costs a thread at most this long, and then none is made for so long.
    TIMEOUT_SECONDS = 0.25
    PAUSE_SECONDS = 5.0

    def __init__(self, url: str, *, prefix: str = "repondant:{rate}:") -> None:
        client: redis.Redis = redis.Redis.from_url(
            url, socket_timeout=self.TIMEOUT_SECONDS, socket_connect_timeout=self.TIMEOUT_SECONDS
        )
        self._take = client.register_script(_TAKE)
        self._give_back = client.register_script(_GIVE_BACK)
        self._prefix = prefix
        self._local = LocalBuckets()
        self._away_until = 0.0

    def take(self, limits: Sequence[Limit]) -> float:
        waited = self._run(self._take, limits)
        return self._local.take(limits) if waited is None else float(waited)

    def give_back(self, limits: Sequence[Limit]) -> None:
        self._run(self._give_back, limits)
        self._local.give_back(limits)

    def _run(self, script: "redis.commands.core.Script", limits: Sequence[Limit]) -> bytes | None:
        """What the script says; `None` where nobody answers."""
        if time.monotonic() < self._away_until:
            return None
        names = [self._prefix + name for name, _limit in limits]
        try:
            said: bytes = script(keys=names, args=[per_minute for _name, per_minute in limits])
        except redis.RedisError as error:
            self._away_until = time.monotonic() + self.PAUSE_SECONDS
            logger.warning("Rate limits are this process's own for now: %s", type(error).__name__)
            return None
        return said
