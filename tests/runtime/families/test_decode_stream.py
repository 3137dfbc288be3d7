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
from tokenizers import AddedToken, Tokenizer, decoders, models, normalizers, pre_tokenizers
from tokenizers.pre_tokenizers import ByteLevel

from runtime.catalog.entries import DEMO_CHAT
from runtime.families.decode_stream import MOST_WAITING, DecodeStream

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


@pytest.fixture(scope="session")
def fallback() -> Tokenizer:
    """As Llama 2's: "▁" is a space, the first of which is left out, and rare characters are single bytes."""
    words = ["<unk>", *(f"<0x{byte:02X}>" for byte in range(256)), *"▁abcdefghijklmnopqrstuvwxyz.,é"]
    vocabulary = {word: index for index, word in enumerate(words)}
    tokenizer = Tokenizer(models.BPE(vocabulary, [], unk_token="<unk>", byte_fallback=True))
    tokenizer.normalizer = normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])
    tokenizer.decoder = decoders.Sequence(
        [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", 1, 0)]
    )
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


@given(texts)
def test_any_text_with_single_bytes_for_rare_characters(fallback: Tokenizer, text: str) -> None:
    check(fallback, text)


@given(
    st.lists(
        st.one_of(st.sampled_from([*"▁ab", "안", "🦊", "é"]), st.sampled_from([0x80, 0xC0, 0xFF])),
        max_size=60,
    )
)
def test_stray_bytes_among_such_end_no_answer(fallback: Tokenizer, parts: list[str | int]) -> None:
    ids: list[int] = []
    for part in parts:
        known = None if isinstance(part, int) else fallback.token_to_id(part)
        raw = (part,) if isinstance(part, int) else part.encode()
        ids += [fallback.token_to_id(f"<0x{byte:02X}>") for byte in raw] if known is None else [known]
    shown = "".join(pieces(fallback, ids)).replace(REPLACEMENT, "")
    # The library takes a whole run of bytes for broken if one of them is; no more than that may be lost.
    least = fallback.decode(ids).replace(REPLACEMENT, "")
    most = "".join(part for part in parts if isinstance(part, str)).replace("▁", " ")
    assert is_part(least, shown)
    assert is_part(shown, most)


def is_part(some: str, whole: str) -> bool:
    """Whether the characters of `some` occur in `whole`, in their order."""
    rest = iter(whole)
    return all(character in rest for character in some)


def test_a_character_that_is_shown_stays_when_a_stray_byte_follows(fallback: Tokenizer) -> None:
    ids = [fallback.token_to_id(f"<0x{byte:02X}>") for byte in "안".encode() + b"\x80"]
    ids += [fallback.token_to_id(letter) for letter in "a▁b"]
    assert pieces(fallback, ids) == ["", "", "안", "", REPLACEMENT + "a", " ", "b", ""]


def test_a_space_behind_many_broken_bytes_is_not_lost(fallback: Tokenizer) -> None:
    letter, broken, space = (fallback.token_to_id(one) for one in ("a", "<0x80>", "▁"))
    for count in range(1, 3 * MOST_WAITING):
        shown = "".join(pieces(fallback, [letter, *[broken] * count, space, letter]))
        assert shown == "a" + REPLACEMENT * count + " a", count


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
