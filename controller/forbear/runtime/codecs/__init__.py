"""How tool calls and their results look in the messages of four client libraries. Pure functions on plain JSON.

A codec reads a model's response (a dict, or an object with attributes or `model_dump`), finds the calls in it, and writes
results the way the API wants them. No client library is imported, nothing is decided, no message is changed in place.
What a codec is made of is in `shapes.py`; each API has a file of its own.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from forbear.errors import UsageError
from forbear.runtime.codecs.anthropic import ANTHROPIC
from forbear.runtime.codecs.openai_chat import OPENAI_CHAT
from forbear.runtime.codecs.openai_responses import OPENAI_RESPONSES
from forbear.runtime.codecs.shapes import Codec, Message, Proposed, Result, message_of

__all__ = ["CODECS", "Codec", "Message", "Proposed", "Result", "codec_for", "message_of"]

CODECS: Final[Mapping[str, Codec]] = {
    "openai-chat": OPENAI_CHAT,
    # LiteLLM gives every provider the shape of OpenAI chat completions.
    "litellm": OPENAI_CHAT,
    "openai-responses": OPENAI_RESPONSES,
    "anthropic": ANTHROPIC,
}


def codec_for(codec: str | Codec) -> Codec:
    """Return a codec by its name, or the codec itself.

    Raises:
        UsageError: there is none of this name.
    """
    if isinstance(codec, Codec):
        return codec
    found = CODECS.get(codec)
    if found is None:
        raise UsageError(f"codec: must be one of {', '.join(CODECS)}")
    return found
