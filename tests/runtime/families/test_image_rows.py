"""Several conversations about pictures in one call, against plain transformers one by one; and who cannot."""

from __future__ import annotations

import functools
import json
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from runtime.layout.request import LayoutRequest
from runtime.messages import Finished, ModelFailed, Turn
from runtime.messages.chat import Priority
from runtime.simulator import artifact as mxq
from runtime.simulator.build import build_artifact
from tests.runtime.families.pictured import said, saved, user
from tests.runtime.families.test_image_again import Model, in_host_memory, lose_kv, make_model, run
from tests.runtime.families.test_image_text import TOKENS, Session, open_session

ROWS = 3
CONTEXT = 256


@pytest.fixture(scope="module")
def model_of(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Model]:
    made: dict[str, Model] = {}

    def model_of(kind: str) -> Model:
        if kind not in made:
            made[kind] = make_model(kind, tmp_path_factory.mktemp("rows"))
        return made[kind]

    return model_of


def artifact(model: Model, **options: Any) -> Path:
    """The checkpoint built another way."""
    words = [f"{name}-{value}" for name, value in sorted(options.items())]
    folder = model.artifact.parent / "-".join(["built", *words])
    if not folder.exists():
        if model.static:
            options["image_side"] = model.side
        checkpoint = model.artifact.parent / "checkpoint"
        ours_refuses = model.plain.config.model_type == "qwen2_vl" and not model.static
        compiled = options.pop("max_batch_size", 1) if ours_refuses else 1
        build_artifact(checkpoint, folder, prefill_chunk=32, context_length=CONTEXT, **options)
        if compiled > 1:
            compile_for(folder, compiled)
    return folder


def compile_for(folder: Path, rows: int) -> None:
    """A pair that our own builder refuses to make, as a compiler would."""
    text = folder / "text.mxq"
    mxq.write(text, replace(mxq.read_header(text), batch=rows))
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(config | {"text_max_batch_size": rows}))


def counting(session: Session) -> list[int]:
    """How many conversations each decode has, from now on."""
    rows: list[int] = []
    model = session.engine._loaded.model
    assert model is not None
    decode = model.decode

    def counted(token_ids: Any, caches: Any) -> Any:
        rows.append(len(token_ids))
        return decode(token_ids, caches)

    model.decode = counted  # type: ignore[method-assign]
    return rows


def failing(session: Session) -> list[int]:
    """How many prompts each call has, from now on, that ends with an error."""
    failed: list[int] = []
    model = session.engine._loaded.model  # type: ignore[union-attr]
    prefill = model.prefill

    def watched(chunks: Any) -> Any:
        try:
            return prefill(chunks)
        except Exception:
            failed.append(len(chunks))
            raise

    model.prefill = watched  # type: ignore[method-assign]
    return failed


@pytest.mark.parametrize(
    ("kind", "options", "asked"),
    [
        ("qwen3_vl", {"max_batch_size": ROWS}, None),
        ("qwen3_vl", {"max_batch_size": ROWS}, 2),
        ("qwen3_vl", {"max_batch_size": ROWS, "split_features": True}, None),
        ("qwen3_vl", {"split_features": True}, ROWS),
        ("qwen2_vl static", {"max_batch_size": ROWS}, None),
        ("qwen2_vl static", {}, ROWS),
        ("aya_vision", {"max_batch_size": ROWS}, None),
        ("aya_vision", {}, ROWS),
    ],
)
def test_conversations_about_pictures_share_each_call_and_do_not_mix(
    model_of: Callable[[str], Model], tmp_path: Path, kind: str, options: dict[str, Any], asked: int | None
) -> None:
    model = model_of(kind)
    session = open_session(artifact(model, **options), LayoutRequest(max_batch_size=asked))
    rows = counting(session)
    refused = failing(session)
    turns = [user("What?", saved(tmp_path, 84, 56 + 28 * seed, seed)) for seed in range(2)]
    turns += [user("No picture."), user("And this one, which comes last?", saved(tmp_path, 56, 56, 9))]
    names = [session.submit(turn, conversation=f"c{index}") for index, turn in enumerate(turns)]
    run(session)
    answers = [session.text(name) for name in names]
    for turn, answer in zip(turns, answers, strict=True):
        assert answer == model.text(model.answer([turn], TOKENS))
    assert max(rows) == ROWS
    assert len(rows) < 3 * TOKENS
    assert refused == [], "no call has to be done again prompt by prompt"
    # A second turn of each: its KV is on another slot, or in host memory.
    longer = [(turn, said(answer), user("And?")) for turn, answer in zip(turns, answers, strict=True)]
    for index, name in reversed([*enumerate(longer)]):
        names[index] = session.submit(*name, conversation=f"c{index}")
    run(session)
    for index, more in enumerate(longer):
        assert session.text(names[index]) == model.text(model.answer(more, TOKENS))
        end = session.end(names[index])
        assert isinstance(end, Finished)
        assert end.usage.cached > 0, "only what is new was read"
    session.engine.close()


@pytest.fixture(scope="module")
def busy(
    model_of: Callable[[str], Model], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[Session, Callable[[int], Turn], Callable[[int], str]]]:
    """A batch model, some questions, and their right answers."""
    model = model_of("qwen3_vl")
    folder = tmp_path_factory.mktemp("pictures")
    session = open_session(artifact(model, max_batch_size=ROWS))

    @functools.cache
    def question(number: int) -> Turn:
        pictures = [saved(folder, 28 * (1 + number), 56, number)] if number % 3 else []
        return user("What is it?"[number:], *pictures)

    @functools.cache
    def answer(number: int) -> str:
        return model.text(model.answer([question(number)], TOKENS))

    yield session, question, answer
    session.engine.close()


@settings(max_examples=15)
@given(
    st.lists(
        st.tuples(
            st.sampled_from("abcde"),
            st.integers(0, 4),
            st.booleans(),
            st.integers(0, 12),
            st.booleans(),
        ),
        min_size=2,
        max_size=8,
    )
)
def test_any_composition_equals_the_plain_model(
    busy: tuple[Session, Callable[[int], Turn], Callable[[int], str]],
    work: list[tuple[str, int, bool, int, bool]],
) -> None:
    """Questions come while others are answered, give way, come back, and lose what waits in host memory."""
    session, question, answer = busy
    names = []
    for conversation, number, background, steps, lose in work:
        priority: Priority = "background" if background else "interactive"
        names.append(session.submit(question(number), conversation=conversation, priority=priority))
        run(session, steps)
        for waiting in in_host_memory(session) if lose else ():
            lose_kv(session, waiting)
    run(session)
    for name, (_, number, *_) in zip(names, work, strict=True):
        assert session.text(name) == answer(number)


@pytest.mark.parametrize("kind", ["qwen2_vl", "qwen2_vl static", "qwen3_vl split", "aya_vision"])
def test_a_batch_model_told_to_hold_one_conversation_answers_one_after_the_other(
    model_of: Callable[[str], Model], tmp_path: Path, kind: str
) -> None:
    model = model_of(kind.removesuffix(" split"))
    options = {"split_features": True} if kind.endswith(" split") else {}
    folder = artifact(model, max_batch_size=ROWS, **options)
    session = open_session(folder, LayoutRequest(max_batch_size=1))
    rows = counting(session)
    turns = [user("What?", saved(tmp_path, 84, 56 + 28 * seed, seed)) for seed in range(2)]
    names = [session.submit(turn, conversation=f"c{index}") for index, turn in enumerate(turns)]
    run(session)
    for name, turn in zip(names, turns, strict=True):
        assert session.text(name) == model.text(model.answer([turn], TOKENS))
    assert set(rows) == {1}
    session.engine.close()


@pytest.mark.parametrize(
    ("kind", "options", "asked", "words"),
    [
        ("qwen2_vl", {"max_batch_size": ROWS}, None, "any size, so it answers one conversation at a time"),
        ("qwen2_vl", {}, 2, "any size, so it answers one conversation at a time"),
        ("qwen3_vl", {}, 2, "compiled for one conversation, so it answers one"),
        ("qwen3_vl", {"max_batch_size": ROWS}, 1, "compiled for 3 parallel conversations"),
        ("qwen3_vl static", {}, 2, "one size only, so it answers one conversation"),
        ("qwen3_vl static", {"split_features": True}, 2, "one size only, so it answers one conversation"),
    ],
)
def test_what_the_vendors_classes_cannot_run_is_refused_when_it_is_loaded(
    model_of: Callable[[str], Model], kind: str, options: dict[str, Any], asked: int | None, words: str
) -> None:
    folder = artifact(model_of(kind), **options)
    session = open_session(folder, LayoutRequest(max_batch_size=asked))
    (failed,) = [event for event in session.events if isinstance(event, ModelFailed)]
    assert failed.error.code == "layout.invalid", failed
    assert words in failed.error.summary
    assert folder.name in failed.error.summary
    assert "Parallel conversations" in failed.error.remedy
    session.engine.close()
