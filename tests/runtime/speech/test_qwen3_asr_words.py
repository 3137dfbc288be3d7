"""What is read from an answer of Qwen3-ASR, whatever the model says."""

from __future__ import annotations

import pytest

from runtime.speech.qwen3_asr_words import Words
from tests.simulator.qwen3_asr import WORDS, make_tokenizer

MARKER = WORDS["<asr_text>"]


@pytest.fixture(scope="module")
def words() -> Words:
    return Words(make_tokenizer(), ["English", "Korean"])


def tokens(text: str) -> list[int]:
    """Words of the tiny vocabulary, of which w14 is 14."""
    return [WORDS[word] if word in WORDS else int(word.removeprefix("w")) for word in text.split()]


@pytest.mark.parametrize(
    ("answer", "text"),
    [
        ("language English <asr_text> w14 w15", "w14 w15"),
        ("language w40 <asr_text> w14", "w14"),
        ("language English <asr_text>", ""),
        ("<asr_text> w14", "w14"),
        ("w14 w15", "w14 w15"),
        # Where the language is forced, the marker has been said, and one more separates nothing.
        ("w14 w15 <asr_text> w16", "w14 w15 w16"),
        ("language English w14 <asr_text> w16", "language English w14 w16"),
        ("language English <asr_text> w14 <asr_text> w15", "w14 w15"),
        # Control tokens are no words.
        ("<|im_start|> language English <asr_text> w14 <|audio_pad|> w15 <|end|>", "w14 w15"),
        ("language English", "language English"),
        ("", ""),
    ],
)
def test_the_words_of_an_answer(words: Words, answer: str, text: str) -> None:
    assert words.text(tokens(answer)) == text


def test_an_opening_of_several_lines() -> None:
    backend = make_tokenizer()
    backend.add_tokens(["\n"])
    line = backend.convert_tokens_to_ids("\n")
    answer = [*tokens("language English"), line, *tokens("w14"), line, MARKER, *tokens("w15")]
    words = Words(backend, None)
    assert words.text(answer) == "w15"
    assert words.code(answer[:-2]) == "en"


def test_nothing_was_said() -> None:
    backend = make_tokenizer()
    backend.add_tokens(["None"])
    words = Words(backend, None)
    none = backend.convert_tokens_to_ids("None")
    assert words.text([WORDS["language"], none, MARKER]) == ""
    assert words.text([WORDS["language"], none]) == ""
    assert words.code([WORDS["language"], none]) == ""


@pytest.mark.parametrize(
    ("answer", "code"),
    [
        ("language English", "en"),
        ("language Korean", "ko"),
        ("language w40", ""),
        ("English", ""),
        ("w14 language English", ""),
        ("", ""),
    ],
)
def test_the_language_of_an_opening(words: Words, answer: str, code: str) -> None:
    assert words.code(tokens(answer)) == code


def test_the_prompt_is_the_one_the_model_was_taught(words: Words) -> None:
    before = tokens("<|im_start|> system <|im_end|> <|im_start|> user <|audio_start|>")
    after = tokens("<|audio_end|> <|im_end|> <|im_start|> assistant")
    assert words.before == before
    assert words.after("") == after
    assert words.after("ko") == after + tokens("language Korean <asr_text>")


@pytest.mark.parametrize(
    ("names", "codes"),
    [(["Korean", "English"], ("ko", "en")), (["Klingon", "English"], ("en",)), (["Filipino"], ("tl",))],
)
def test_languages_are_those_that_the_model_names(names: list[str], codes: tuple[str, ...]) -> None:
    assert Words(make_tokenizer(), names).languages == codes


@pytest.mark.parametrize("names", [None, [], ["Klingon"], [["English"]], "English", 5])
def test_a_model_that_names_none_of_them_has_them_all(names: object) -> None:
    assert len(Words(make_tokenizer(), names).languages) == 30
