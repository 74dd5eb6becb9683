"""The text of an OpenAPI document as values: JSON or YAML, within bounds that hold before anything is built.

An alias of YAML costs nothing to write and its whole target each time that it is read, and a merge (`<<`) copies it:
487 bytes were 20 s of a request. So its events are counted first, then it is composed (aliases are references there),
its size with every alias written out is counted, and only then are values made of it.
"""

from collections.abc import Iterator
from typing import Any

import yaml

from agents.texts import read_json, storable_value
from tools_registry.exceptions import ToolSourceError

#: Nodes of a YAML document with its aliases written out: some 5 MB of text.
MOST_NODES = 200_000
#: Numbers and dates; a longer one is a text that was not quoted, and a long number takes the square of its length to
#: read.
LONGEST_PLAIN_VALUE = 100
#: libyaml composes by recursion in C, without a limit of its own: 100,000 brackets ended the process.
DEEPEST = 100
_TEXT = "tag:yaml.org,2002:str"
#: libyaml's reader is ten times faster, and optional in the package.
_Loader: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


def parsed(text: str) -> Any:
    """What the document says, in texts that can be stored. Raises `ToolSourceError`, also for one that would become too
    large.
    """
    try:
        return read_json(text) if text.lstrip().startswith("{") else storable_value(_yaml(text))
    except (ValueError, yaml.YAMLError, RecursionError) as error:
        raise ToolSourceError(f"The document is neither JSON nor YAML: {error}") from error


def _yaml(text: str) -> Any:
    _count_events(text)
    loader = _Loader(text)
    try:
        root = loader.get_single_node()
        if root is None:
            return None
        if _written_out(root) > MOST_NODES:
            raise ToolSourceError(f"The document holds more than {MOST_NODES} values once its aliases are written out.")
        return loader.construct_document(root)
    finally:
        loader.dispose()


def _count_events(text: str) -> None:
    depth = 0
    for number, event in enumerate(yaml.parse(text, Loader=_Loader)):
        if isinstance(event, yaml.CollectionStartEvent):
            depth += 1
        elif isinstance(event, yaml.CollectionEndEvent):
            depth -= 1
        if depth > DEEPEST:
            raise ToolSourceError(f"The document is nested deeper than {DEEPEST} levels.")
        if number > 2 * MOST_NODES:
            raise ToolSourceError(
                f"The document holds more than {MOST_NODES} values: give it as JSON, which is read whole."
            )


def _written_out(root: yaml.Node) -> int:
    """The nodes of the document, those behind an alias as often as they are named; each node is looked at once."""
    sizes: dict[int, int] = {}
    open_: set[int] = set()
    pending = [root]
    while pending:
        node = pending[-1]
        if id(node) in sizes:
            pending.pop()
        elif id(node) in open_:
            open_.discard(id(node))
            sizes[id(node)] = 1 + sum(sizes[id(child)] for child in _children(node))
            pending.pop()
        else:
            open_.add(id(node))
            for child in _children(node):
                if id(child) in open_:
                    raise ToolSourceError("The document holds an alias of itself.")
                pending.append(child)
    return sizes[id(root)]


def _children(node: yaml.Node) -> Iterator[yaml.Node]:
    if isinstance(node, yaml.MappingNode):
        for key, value in node.value:
            yield key
            yield value
    elif isinstance(node, yaml.SequenceNode):
        yield from node.value
    elif node.tag != _TEXT and len(node.value) > LONGEST_PLAIN_VALUE:
        raise ToolSourceError(f"A value of more than {LONGEST_PLAIN_VALUE} characters needs quotes.")
