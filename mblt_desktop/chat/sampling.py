"""Sampling values of a conversation: what will take effect, and who said so."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from mblt_desktop.store.records import Conversation
from runtime.messages import ModelInfo
from runtime.sampling.params import SamplingRequest, UsedValue, ValueSource
from runtime.settings.table import SETTINGS, sampling_request
from runtime.settings.types import Setting, SettingValue

if TYPE_CHECKING:
    from mblt_desktop.settings.preferences import Preferences

SHOWN = tuple(
    f"sampling.{name}"
    for name in (
        "temperature",
        "top_p",
        "top_k",
        "min_p",
        "repetition_penalty",
        "presence_penalty",
        "frequency_penalty",
        "seed",
        "min_tokens",
        "max_tokens",
        "context_policy",
    )
)
"""What the inspector lists, in its order."""


_SHORT = {
    "sampling.repetition_penalty": "Repetition",
    "sampling.presence_penalty": "Presence",
    "sampling.frequency_penalty": "Frequency",
    "sampling.min_tokens": "Min tokens",
    "sampling.max_tokens": "Max tokens",
    "sampling.apply_penalties": "Penalties",
    "sampling.context_policy": "Context full",
    "sampling.report_candidates": "Candidates",
}


def short_title(key: str) -> str:
    """A setting's name for a narrow panel."""
    setting = SETTINGS.get(key)
    return _SHORT.get(key) or (setting.title if setting is not None else key)


@dataclass(frozen=True, slots=True)
class Effective:
    """A value that will take effect, in words, and its source."""

    text: str
    source: ValueSource


def request_for(conversation: Conversation, preferences: Preferences) -> SamplingRequest:
    """The sampling of the next answer: the conversation's own values over the user's."""

    def get(key: str) -> SettingValue:
        return conversation.sampling.get(key, preferences.get(key))

    names = frozenset(key.partition(".")[2] for key in conversation.sampling)
    return replace(sampling_request(get), by_conversation=names)


def effective(
    key: str, conversation: Conversation | None, preferences: Preferences, model: ModelInfo | None
) -> Effective:
    """What takes effect for `key`: the conversation's, else the user's, the model's, the default."""
    setting = SETTINGS[key]
    if conversation is not None and key in conversation.sampling:
        return Effective(_words(setting, conversation.sampling[key]), "conversation")
    if preferences.is_set(key):
        return Effective(_words(setting, preferences.get(key)), "you")
    defaults = model.sampling_defaults if model is not None else {}
    name = key.split(".", 1)[1]
    if name in defaults:
        return Effective(_words(setting, defaults[name]), "model")
    value = setting.default if setting.default is not None else setting.fallback
    if value is None:
        return Effective("random" if name == "seed" else "no limit", "default")
    return Effective(_words(setting, value), "default")


def used_words(used: UsedValue) -> Effective:
    """A value that an answer was made with, in words, and its source."""
    setting = SETTINGS.get(f"sampling.{used.name}")
    if setting is None:
        return Effective(str(used.value), used.source)
    if used.value is None:
        return Effective("no limit", used.source)
    return Effective(_words(setting, used.value), used.source)


def _words(setting: Setting, value: SettingValue) -> str:
    if setting.kind == "number" and isinstance(value, int | float):
        return f"{value:.{setting.decimals}f}"
    if isinstance(value, bool) or not isinstance(value, int):
        return setting.say(value)
    return str(value)
