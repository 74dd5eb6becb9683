"""The tools of remote sources as specifications, from what was stored when their lists were last read.

Nothing here connects: a source is asked when staff refresh it (`refresh`), and called when its tool is executed.
"""

from tools_registry.tool import ToolSpec


def remote_specs() -> list[ToolSpec]:
    return []
