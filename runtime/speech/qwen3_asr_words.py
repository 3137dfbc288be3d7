"""What is said to Qwen3-ASR around a sound, and how its answer is read.

The model was taught one conversation: a system turn that may stay empty, the sound as the user's turn, and an
answer that opens with its language, "language English<asr_text>", before the words. A language is forced by
putting that opening into its mouth. For sound without speech it says "language None".
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

MARKER = "<asr_text>"
_BEFORE = "<|im_start|>system\n<|im_end|>\n<|im_start|>user\n<|audio_start|>"
_AFTER = "<|audio_end|><|im_end|>\n<|im_start|>assistant\n"
_END = "<|im_end|>"
_CONTROL = ("<|im_start|>", _END, "<|audio_start|>", "<|audio_end|>", MARKER)
_OPENING = re.compile(r"language\s+(\S+)", re.IGNORECASE)
_NOTHING = "language none"


class Words:
    """The tokens of one model's conversation."""

    def __init__(self, tokenizer: Any, languages: object) -> None:
        """`languages` is what config.json says: a list of English names, or all that Qwen3-ASR knows.

        Raises ValueError when the tokenizer does not know the model's control tokens.
        """
        self._tokenizer = tokenizer
        for token in _CONTROL:
            if tokenizer.convert_ids_to_tokens(self._ids(token)) != [token]:
                raise ValueError(f"the tokenizer does not know {token}")
        self.marker = self._ids(MARKER)[0]
        self.end = self._ids(_END)[0]
        self.before = self._ids(_BEFORE)
        """Tokens before the sound."""
        self._names = _languages(languages)

    @property
    def languages(self) -> tuple[str, ...]:
        """ISO codes."""
        return tuple(self._names)

    def after(self, code: str) -> list[int]:
        """Tokens behind the sound, up to the answer's beginning; an empty `code` leaves the language open."""
        said = f"language {self._names[code]}{MARKER}" if code else ""
        return self._ids(_AFTER + said)

    def code(self, tokens: Sequence[int]) -> str:
        """The language of an answer's opening; empty when it names none that the model is known to hear."""
        found = _OPENING.match(self._text(tokens))
        name = found.group(1).lower() if found else ""
        return next((code for code, known in self._names.items() if known.lower() == name), "")

    def text(self, tokens: Sequence[int]) -> str:
        """The words of an answer, without its opening. They may be anything but control tokens."""
        if self.marker in tokens:
            place = tokens.index(self.marker)
            first = self._text(tokens[:place]).partition("\n")[0].strip()
            if not first or _OPENING.fullmatch(first):
                return self._text(tokens[place + 1 :])
        said = self._text(tokens)
        return "" if said.lower() == _NOTHING else said

    def _ids(self, text: str) -> list[int]:
        ids: list[int] = self._tokenizer.encode(text, add_special_tokens=False)
        return ids

    def _text(self, tokens: Sequence[int]) -> str:
        plain = [token for token in tokens if token != self.marker]
        return str(self._tokenizer.decode(plain, skip_special_tokens=True)).strip()


def _languages(names: object) -> dict[str, str]:
    """Name by ISO code, in the order given; a name that nobody has a code for is left out."""
    from transformers.models.qwen3_asr.processing_qwen3_asr import LANGUAGE_CODE_TO_NAME

    codes: dict[str, str] = {name: code for code, name in LANGUAGE_CODE_TO_NAME.items()}
    codes["Filipino"] = "tl"  # as Whisper calls it, so that one setting serves both
    listed = names if isinstance(names, list) else []
    wanted = [name for name in listed if isinstance(name, str) and name in codes] or list(codes)
    return {codes[name]: name for name in wanted}
