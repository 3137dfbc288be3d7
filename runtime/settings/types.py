"""What a typed setting is: its bounds, its words, and the one place where a value is accepted or refused."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, NoReturn, TypeAlias

from runtime.errors import SettingError

SettingValue: TypeAlias = "bool | int | float | str | tuple[str, ...] | tuple[int, ...] | None"
Kind = Literal["switch", "integer", "number", "text", "choice", "items", "numbers"]
TakesEffect = Literal["now", "with the next answer", "when the model is loaded next", "after a restart"]

_SHOWN_CHARACTERS = 60
_MOST_ITEMS = 256
_LONGEST_TEXT = 4096


@dataclass(frozen=True, slots=True)
class Choice:
    """One value of a choice, with its name and what it means."""

    value: str
    title: str
    help: str = ""


@dataclass(frozen=True, slots=True)
class Setting:
    """One typed setting: settings file, window and command line are all made from it."""

    key: str
    kind: Kind
    default: SettingValue
    title: str
    help: str
    minimum: float | None = None
    maximum: float | None = None
    above_minimum: bool = False
    """The minimum itself is not allowed."""
    step: float = 1.0
    decimals: int = 2
    choices: tuple[Choice, ...] = ()
    """What a choice offers; empty when the list is only known at run time, then any text is taken."""
    pattern: str = ""
    """What a text, or each of several, must match as a whole; described by `example`."""
    example: str = ""
    unit: str = ""
    unset: str = ""
    """In words, what leaving the value open (None) means; empty when it cannot be left open."""
    fallback: SettingValue = None
    """What counts when the value is left open and the model says nothing either."""
    cli_option: str = ""
    split: bool = True
    """On the command line, commas separate the items of one option."""
    takes_effect: TakesEffect = "now"
    shown: bool = True
    """False for what the program remembers by itself."""

    @property
    def page(self) -> str:
        """The group it belongs to: the key up to the first dot."""
        return self.key.split(".", 1)[0]

    @property
    def optional(self) -> bool:
        """Whether the value may be left open (None)."""
        return bool(self.unset)

    def check(self, value: object) -> SettingValue:
        """`value` (from a widget or a JSON file) as this setting's value; raises SettingError."""
        if value is None:
            return None if self.optional else self._refuse(value)
        if self.kind == "switch":
            return value if isinstance(value, bool) else self._refuse(value)
        if self.kind in ("integer", "number"):
            return self._number(value, value)
        if self.kind in ("text", "choice"):
            return self._text(value)
        return self._sequence(value)

    def parse(self, text: str | Sequence[str]) -> SettingValue:
        """What was typed on the command line as this setting's value; raises SettingError."""
        if self.kind in ("items", "numbers"):
            return self._parse_items([text] if isinstance(text, str) else text)
        if not isinstance(text, str):
            self._refuse(text)
        if self.kind == "switch":
            words = {"on": True, "true": True, "yes": True, "off": False, "false": False, "no": False}
            return words[text.lower()] if text.lower() in words else self._refuse(text)
        if self.kind in ("integer", "number"):
            return self._number(self._parse_number(text), text)
        return self._text(text)

    def allowed(self) -> str:
        """What the setting takes, as a phrase: "a number from 0 to 2"."""
        if self.kind == "switch":
            return "on or off"
        if self.choices:
            return "one of " + ", ".join(choice.value for choice in self.choices)
        if self.kind in ("integer", "number"):
            return f"a {'whole ' if self.kind == 'integer' else ''}number{self._range_words()}"
        if self.kind == "numbers":
            return f"whole numbers{self._range_words()}, such as {self.example}"
        return f"text such as {self.example}" if self.example else "text"

    def say(self, value: SettingValue) -> str:
        """A value in words, with its unit, as shown beside the setting."""
        if value is None:
            return self.unset
        if isinstance(value, bool):
            return "on" if value else "off"
        if isinstance(value, tuple):
            return ", ".join(str(item) for item in value) or "none"
        if isinstance(value, str):
            return next((choice.title for choice in self.choices if choice.value == value), value)
        number = str(value) if isinstance(value, int) else f"{value:.{self.decimals}f}"
        return f"{number} {self.unit}".rstrip()

    def matches(self, words: str) -> bool:
        """Whether every word of a search occurs in the setting's texts."""
        parts = [self.key, self.title, self.help, self.cli_option]
        parts += [f"{choice.title} {choice.value} {choice.help}" for choice in self.choices]
        text = " ".join(parts).casefold()
        return all(word in text for word in words.casefold().split())

    # -- refusing ------------------------------------------------------------------------------

    def _refuse(self, value: object) -> NoReturn:
        name = f"{self.title} ({self.cli_option})" if self.cli_option else self.title
        shown = "nothing" if value is None else f"“{_short(value)}”"
        also = f", or can be left open ({self.unset})" if self.optional else ""
        raise SettingError(
            self.key,
            f"{name} does not take {shown}.",
            remedy=f"It takes {self.allowed()}{also}.",
            unharmed="Nothing was changed.",
        )

    def _range_words(self) -> str:
        unit = f" {self.unit}" if self.unit else ""
        low = f"above {_plain(self.minimum)}" if self.above_minimum else f"from {_plain(self.minimum)}"
        if self.minimum is None:
            return "" if self.maximum is None else f" up to {_plain(self.maximum)}{unit}"
        if self.maximum is None:
            return f" {low}{unit}"
        return f" {low} {'and up to' if self.above_minimum else 'to'} {_plain(self.maximum)}{unit}"

    # -- accepting -----------------------------------------------------------------------------

    def _number(self, value: object, given: object) -> int | float:
        if isinstance(value, bool) or not isinstance(value, (int, float)):
            self._refuse(given)
        if self.kind != "number" and not isinstance(value, int):
            self._refuse(given)
        if isinstance(value, float) and not math.isfinite(value):
            self._refuse(given)
        too_low = self.minimum is not None and (
            value < self.minimum or (self.above_minimum and value == self.minimum)
        )
        if too_low or (self.maximum is not None and value > self.maximum):
            self._refuse(given)
        return float(value) if self.kind == "number" else value

    def _text(self, value: object) -> str:
        if not isinstance(value, str) or len(value) > _LONGEST_TEXT:
            self._refuse(value)
        if self.choices and value not in {choice.value for choice in self.choices}:
            self._refuse(value)
        if self.pattern and re.fullmatch(self.pattern, value) is None:
            self._refuse(value)
        return value

    def _sequence(self, value: object) -> tuple[str, ...] | tuple[int, ...]:
        if not isinstance(value, (list, tuple)) or len(value) > _MOST_ITEMS:
            self._refuse(value)
        if self.kind == "numbers":
            return tuple(int(self._number(item, item)) for item in value)
        for item in value:
            if not isinstance(item, str) or not 0 < len(item) <= _LONGEST_TEXT:
                self._refuse(value)
            if self.pattern and re.fullmatch(self.pattern, item) is None:
                self._refuse(item)
        return tuple(value)

    def _parse_number(self, text: str) -> int | float:
        try:
            return int(text)
        except ValueError:
            pass
        try:
            return float(text)
        except ValueError:
            self._refuse(text)

    def _parse_items(self, texts: Sequence[str]) -> SettingValue:
        items = list(texts)
        if self.split:
            items = [part.strip() for text in texts for part in text.split(",")]
        if self.kind == "items":
            return self._sequence(items)
        return self._sequence([self._parse_number(item) for item in items])


def _plain(number: float | None) -> str:
    if number is None:
        return ""
    return str(number) if isinstance(number, int) else f"{number:g}"


def _short(value: object) -> str:
    text = value if isinstance(value, str) else repr(value)
    return text if len(text) <= _SHOWN_CHARACTERS else text[:_SHOWN_CHARACTERS] + "…"
