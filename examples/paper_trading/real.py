"""A real model instead of the scripted ones, by ``provider:name``. The key stays in the environment; nothing reads it here."""

from __future__ import annotations

import os

from langchain.chat_models import init_chat_model
from langchain_core.language_models import BaseChatModel

KEYS = {
    "anthropic": "ANTHROPIC_API_KEY",
    "cohere": "COHERE_API_KEY",
    "deepseek": "DEEPSEEK_API_KEY",
    "fireworks": "FIREWORKS_API_KEY",
    "google_genai": "GOOGLE_API_KEY",
    "groq": "GROQ_API_KEY",
    "mistralai": "MISTRAL_API_KEY",
    "openai": "OPENAI_API_KEY",
    "openrouter": "OPENROUTER_API_KEY",
    "perplexity": "PPLX_API_KEY",
    "together": "TOGETHER_API_KEY",
    "xai": "XAI_API_KEY",
}
"""The environment variable that each provider's package reads. Providers that need none (ollama) are not listed."""


class NoModel(Exception):
    """The model cannot be used; the message is one line for the person at the terminal."""


def real_model(name: str) -> BaseChatModel:
    """Return the chat model that ``provider:name`` names.

    Raises:
        NoModel: The name has no provider, its key is not in the environment, or its package is not installed.
    """
    provider, colon, _ = name.partition(":")
    if not colon:
        raise NoModel(f"--model {name!r} names no provider; write provider:name, for example openai:gpt-5")
    variable = KEYS.get(provider)
    if variable is not None and not os.environ.get(variable):
        raise NoModel(f"--model {name} needs a key: set {variable} in the environment")
    try:
        return init_chat_model(name)
    except ImportError:
        package = f"langchain-{provider.replace('_', '-')}"
        raise NoModel(f"--model {name} needs a package: python -m pip install {package}") from None
    except ValueError:
        raise NoModel(f"--model {name}: langchain knows no provider of this name") from None
