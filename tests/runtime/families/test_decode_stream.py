"""Text as it streams: whole characters only, nothing lost, and no dearer at the end than at the start."""

from __future__ import annotations

import json
import statistics
import time
from pathlib import Path
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers
from tokenizers.pre_tokenizers import ByteLevel

from runtime.catalog.entries import DEMO_CHAT
from runtime.families.decode_stream import DecodeStream

REPLACEMENT = "\N{REPLACEMENT CHARACTER}"
STEPS = 1000


def byte_letters() -> dict[int, str]:
    """The letter that stands for each byte in a byte-level vocabulary, as GPT-2 chose them."""
    printable = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = [byte for byte in range(256) if byte not in printable]
    return {byte: chr(byte) for byte in printable} | {byte: chr(256 + n) for n, byte in enumerate(others)}


BYTES = byte_letters()

texts = st.one_of(
    st.text(st.characters(codec="utf-8", exclude_categories=("Cs",)), max_size=40),
    st.lists(
        st.sampled_from(
            ["안녕하세요", "👩‍👩‍👧‍👦", "🇰🇷", "ज़िन्दगी", "e\u0301", "né", " the", "\n\n", "🦊", REPLACEMENT]
        ),
        max_size=12,
    ).map("".join),
)


@pytest.fixture(scope="session")
def smollm2(demo_models: Path) -> Tokenizer:
    return Tokenizer.from_file(str(demo_models / DEMO_CHAT / "tokenizer.json"))


@pytest.fixture(scope="session")
def single_bytes() -> Tokenizer:
    """One token a byte: every character beyond ASCII comes in pieces."""
    alphabet = sorted(ByteLevel.alphabet())
    tokenizer = Tokenizer(models.BPE({letter: index for index, letter in enumerate(alphabet)}, []))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens([AddedToken("<|end|>", special=True)])
    return tokenizer


def pieces(tokenizer: Tokenizer, ids: list[int]) -> list[str]:
    stream = DecodeStream(SimpleNamespace(backend_tokenizer=tokenizer))
    return [*(stream.push(one) for one in ids), stream.finish()]


def check(tokenizer: Tokenizer, text: str) -> None:
    ids = tokenizer.encode(text, add_special_tokens=False).ids
    shown = pieces(tokenizer, ids)
    whole = tokenizer.decode(ids, skip_special_tokens=True)
    assert "".join(shown) == whole
    if REPLACEMENT not in whole:  # SmolLM2's vocabulary lacks some bytes of rare scripts
        assert not any(REPLACEMENT in piece for piece in shown)
    assert shown[-1] == "" or whole.endswith(REPLACEMENT)


@given(texts)
def test_any_text_through_smollm2_s_tokenizer(smollm2: Tokenizer, text: str) -> None:
    check(smollm2, text)


@given(texts)
def test_any_text_one_byte_at_a_time(single_bytes: Tokenizer, text: str) -> None:
    check(single_bytes, text)


@given(
    st.lists(
        st.sampled_from(["안", "🦊", "a", b"\x95", b"\xf0\x9f", b"\xc3", b"\xec\x95", b"\x80" * 20]),
        max_size=30,
    )
)
def test_broken_bytes_break_nothing_around_them(single_bytes: Tokenizer, parts: list[str | bytes]) -> None:
    raw = b"".join(part.encode() if isinstance(part, str) else part for part in parts)
    ids = [single_bytes.token_to_id(BYTES[byte]) for byte in raw]
    assert "".join(pieces(single_bytes, ids)) == raw.decode(errors="replace")


def test_a_model_that_writes_only_broken_bytes_gets_no_slower(single_bytes: Tokenizer) -> None:
    stream = DecodeStream(SimpleNamespace(backend_tokenizer=single_bytes))
    broken = single_bytes.token_to_id(BYTES[0x95])
    shown = [stream.push(broken) for _ in range(2000)]
    # It shows what it has every few tokens, and so never has many to look at again.
    assert all(shown[start : start + 32] != [""] * 32 for start in range(0, 1968, 32))
    assert "".join(shown) + stream.finish() == REPLACEMENT * 2000


def test_a_character_that_is_never_finished_shows_at_the_end(single_bytes: Tokenizer) -> None:
    ids = single_bytes.encode("a안", add_special_tokens=False).ids
    assert len(ids) == 4
    assert pieces(single_bytes, ids[:-1]) == ["a", "", "", REPLACEMENT]


def test_special_tokens_are_no_text(single_bytes: Tokenizer) -> None:
    end = single_bytes.token_to_id("<|end|>")
    assert json.dumps("".join(pieces(single_bytes, [*single_bytes.encode("ab").ids, end]))) == '"ab"'


def test_a_long_answer_costs_as_much_per_token_at_its_end(smollm2: Tokenizer) -> None:
    ids = smollm2.encode("Once upon a time 안녕 there was a fox. ", add_special_tokens=False).ids
    stream = DecodeStream(SimpleNamespace(backend_tokenizer=smollm2))
    spans: list[float] = []
    for index in range(8 * STEPS):
        started = time.perf_counter()
        stream.push(ids[index % len(ids)])
        spans.append(time.perf_counter() - started)
    # Medians: another process's turn on the core does not count. Quadratic work would be 8 times more.
    assert statistics.median(spans[-STEPS:]) < 3 * statistics.median(spans[:STEPS]) + 5e-6
