"""`/v1/embeddings`: the vectors that this desk compares questions by, for programs that want the same."""

import base64
from dataclasses import dataclass
from typing import Any

import numpy as np
from django.utils.translation import gettext as _

from chat.doors.openai.requests import refuse, required_model
from chat.protocol import parse_json_object
from knowledge.embeddings.base import Purpose, Vectors, embedder
from knowledge.exceptions import EmbeddingInputError

#: Texts of one request for vectors: 128 of a thousand characters are about a second of the local model.
API_MAX_EMBEDDED_TEXTS = 128


@dataclass(frozen=True, slots=True)
class EmbeddingRequest:
    model: str
    texts: list[str]
    is_base64: bool


def parse_embedding_request(body: bytes) -> EmbeddingRequest:
    """Raises `RefusedFieldError`. Tokens are refused: only the client knows whose they are."""
    data = parse_json_object(body)
    asked = data.get("input")
    texts = [asked] if isinstance(asked, str) else asked
    if not isinstance(texts, list) or not texts or not all(isinstance(text, str) for text in texts):
        refuse("input", _("« input » est un texte, ou une liste de textes."))
    if len(texts) > API_MAX_EMBEDDED_TEXTS:
        message = _("« input » a plus de %(limit)d textes.")
        refuse("input", message % {"limit": API_MAX_EMBEDDED_TEXTS})
    form = data.get("encoding_format", "float")
    if form not in ("float", "base64"):
        refuse("encoding_format", _("« encoding_format » est « float » ou « base64 »."))
    return EmbeddingRequest(required_model(data), texts, form == "base64")


def embedded(texts: list[str]) -> Vectors:
    """float32 rows of unit length. Computes, or waits for the network.

    Raises `RefusedFieldError` for a text without a character that is read, and the other errors of the embedder.
    """
    try:
        return embedder().embed(texts, purpose=Purpose.QUERY)
    except EmbeddingInputError:
        refuse("input", _("Un texte de « input » est vide."))


def embeddings_json(asked: EmbeddingRequest, vectors: Vectors) -> dict[str, Any]:
    return {
        "object": "list",
        "data": [
            {"object": "embedding", "index": index, "embedding": _written(row, asked.is_base64)}
            for index, row in enumerate(vectors)
        ],
        "model": asked.model,
        "usage": {"prompt_tokens": 0, "total_tokens": 0},
    }


def _written(row: Any, is_base64: bool) -> str | list[float]:
    """As base64: little-endian float32, which is what OpenAI's own clients ask for."""
    if not is_base64:
        return [float(value) for value in row]
    return base64.b64encode(np.asarray(row, dtype="<f4").tobytes()).decode()
