"""The words of agents' texts, read from their indexes, as this process remembers them.

An index is read anew once it is another generation or has another number of points, looked at every
`VOCABULARY_CACHE_SECONDS`; a text that is edited in place is read with the next change. Where `VECTOR_STORES` uses the
database this belongs on its bridge.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence

from agents.cache import TtlCache
from knowledge.exceptions import CollectionMissingError
from knowledge.language.typed.vocabulary import Vocabulary
from knowledge.vectors.base import vector_store
from knowledge.vectors.payloads import searched_fields

#: Points whose words are read, about a second: further ones have the same words.
VOCABULARY_MOST_POINTS = 10_000

#: What the indexes looked like, and the words that were read then.
_Known = tuple[tuple[tuple[str, int], ...], Vocabulary]
_cached: TtlCache[Vocabulary] = TtlCache("VOCABULARY_CACHE_SECONDS")
_last: dict[tuple[str, ...], _Known] = {}


def is_vocabulary_known(collections: Sequence[str]) -> bool:
    """Whether `vocabulary_of` would ask the store nothing."""
    return _cached.is_fresh(tuple(collections))


def vocabulary_of(collections: Sequence[str]) -> Vocabulary:
    """The words of these indexes together; of one that is missing, none."""
    key = tuple(collections)
    return _cached.get(lambda: _read(key), key)


def _read(collections: tuple[str, ...]) -> Vocabulary:
    looks, standing = [], []
    for name in collections:
        try:
            info = vector_store().info(name)
        except CollectionMissingError:
            continue
        looks.append((info.name, info.points))
        standing.append(info.name)
    known = _last.get(collections)
    if known is not None and known[0] == tuple(looks):
        return known[1]
    vocabulary = Vocabulary.of(_texts(standing))
    _last[collections] = tuple(looks), vocabulary
    return vocabulary


def _texts(collections: Sequence[str]) -> Iterator[str]:
    left = VOCABULARY_MOST_POINTS
    for name in collections:
        for batch in vector_store().scroll(name):
            yield from texts_of([point.payload for point in batch[:left]])
            left -= len(batch)
            if left <= 0:
                return


def texts_of(payloads: Iterable[Mapping[str, object]]) -> Iterator[str]:
    """What is searched of each payload."""
    for payload in payloads:
        texts = (payload.get(field) for field in searched_fields(payload))
        yield from (text for text in texts if isinstance(text, str))
