"""Whose key a key is, and whose address an address, as far as their own forms tell: a mistake that is seen before a key is sent anywhere.

The forms are what providers hand out today; a key of no known form tells nothing.
"""

from __future__ import annotations

from typing import Final
from urllib.parse import urlsplit

# The longest prefix counts: `sk-` alone is many providers'.
_PREFIXES: Final = {
    "sk-ant-": "Anthropic",
    "sk-or-": "OpenRouter",
    "sk-proj-": "OpenAI",
    "sk-svcacct-": "OpenAI",
    "sk-admin-": "OpenAI",
    "gsk_": "Groq",
    "xai-": "xAI",
    "AIza": "Google",
    "pplx-": "Perplexity",
    "csk-": "Cerebras",
    "fw_": "Fireworks",
    "nvapi-": "NVIDIA",
    "hf_": "Hugging Face",
    "tgp_v1_": "Together",
    "r8_": "Replicate",
}
_HOSTS: Final = {
    "openai.com": "OpenAI",
    "anthropic.com": "Anthropic",
    "openrouter.ai": "OpenRouter",
    "groq.com": "Groq",
    "x.ai": "xAI",
    "googleapis.com": "Google",
    "perplexity.ai": "Perplexity",
    "cerebras.ai": "Cerebras",
    "fireworks.ai": "Fireworks",
    "nvidia.com": "NVIDIA",
    "huggingface.co": "Hugging Face",
    "together.xyz": "Together",
    "together.ai": "Together",
    "replicate.com": "Replicate",
    "mistral.ai": "Mistral",
    "deepseek.com": "DeepSeek",
}


def maker_of(key: str) -> str | None:
    """The provider whose keys look so."""
    return next((maker for prefix, maker in _PREFIXES.items() if key.startswith(prefix)), None)


def owner_of(base_url: str) -> str | None:
    """The provider that is at this address."""
    host = (urlsplit(base_url).hostname or "").rstrip(".")
    return next((owner for domain, owner in _HOSTS.items() if host == domain or host.endswith("." + domain)), None)


def mismatch(key: str, base_url: str) -> str | None:
    """One sentence where a key is certainly another provider's than the address. The key is not in it."""
    maker, owner = maker_of(key), owner_of(base_url)
    if maker is None or owner is None or maker == owner:
        return None
    return f"the key is one of {maker}'s, but base_url is {owner}'s: set {maker}'s base_url, or {owner}'s key (it was not sent)"
