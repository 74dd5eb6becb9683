"""What an app asks without knowing whose it is: apps above it register theirs at start (`AppConfig.ready`)."""

from typing import TypeVar

T = TypeVar("T")


class Hooks(list[T]):
    def register(self, hook: T) -> None:
        """Registering twice is registering once."""
        if hook not in self:
            self.append(hook)
