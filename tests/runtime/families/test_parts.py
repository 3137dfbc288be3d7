"""Every part of a model on its own cores: the networks that the vendor's classes loaded are asked."""

from __future__ import annotations

from pathlib import Path

import pytest

from runtime.config import RuntimeConfig
from runtime.errors import LayoutError
from runtime.families import load_model
from runtime.layout.outcome import say_effective, say_request
from runtime.layout.request import LayoutRequest, PartLayout
from runtime.messages import LoadSpeech
from runtime.simulator.build import build_artifact
from runtime.speech.engine import load_engine
from tests import tiny_qwen2_vl
from tests.runtime.conftest import Networks
from tests.runtime.families.talk import Talk, save_tokenizer
from tests.simulator.checkpoints import make_checkpoint
from tests.simulator.drafts import make_base, make_draft
from tests.simulator.test_qwen3_moe import make_moe

FIRST = [(7 * number) % 120 + 5 for number in range(20)]


def one(mode: str, *items: str) -> LayoutRequest:
    cores, clusters = (items, ()) if mode == "single" else ((), items)
    return LayoutRequest(mode, cores, clusters)  # type: ignore[arg-type]


def parts(**layouts: LayoutRequest) -> LayoutRequest:
    return LayoutRequest(parts=tuple(PartLayout(name, layout) for name, layout in layouts.items()))


def silent(_stage: str, _fraction: float | None) -> None:
    pass


@pytest.fixture(scope="module")
def pictures(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("pictures")
    tiny_qwen2_vl.make_checkpoint(folder / "checkpoint")
    build_artifact(
        folder / "checkpoint", folder / "artifact", prefill_chunk=32, core_modes=("single", "global4")
    )
    return folder / "artifact"


@pytest.fixture(scope="module")
def draft(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("draft")
    base = make_base(folder / "base", "llama")
    save_tokenizer(base)
    small = make_draft(folder / "draft")
    build_artifact(base, folder / "out", draft_dir=small, context_length=192, prefill_chunk=16)
    return folder / "out"


@pytest.fixture(scope="module")
def mixture(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("mixture")
    make_moe(folder / "checkpoint")
    save_tokenizer(folder / "checkpoint")
    build_artifact(folder / "checkpoint", folder / "artifact", context_length=160, prefill_chunk=16)
    return folder / "artifact"


CLUSTER_1 = ["1:0", "1:1", "1:2", "1:3"]


def test_picture_and_text_networks_run_where_each_was_put(pictures: Path, networks: Networks) -> None:
    layout = parts(vision=one("global4", "0:1"), text=one("single", "0:0:2"))
    model = load_model("v", pictures, layout, "simulated", silent)
    assert networks() == {"vision": ("Global4", CLUSTER_1), "text": ("Single", ["0:2"])}
    assert model.info.layout is not None
    assert say_effective(model.info.layout) == (
        "vision network global4 on cluster 0:1; text network single on core 0:0:2; room for 1 conversation"
    )
    model.dispose()


def test_a_part_that_is_not_named_follows_the_layout_for_all(pictures: Path, networks: Networks) -> None:
    layout = LayoutRequest("single", ("0:0:1",), parts=(PartLayout("vision", one("single", "0:1:3")),))
    model = load_model("v", pictures, layout, "simulated", silent)
    assert networks() == {"vision": ("Single", ["1:3"]), "text": ("Single", ["0:1"])}
    model.dispose()


def test_base_draft_and_their_link_run_where_each_was_put(draft: Path, networks: Networks) -> None:
    layout = parts(base=one("global4", "0:1"), draft=one("single", "0:0:2"), fc=one("single", "0:0:3"))
    talk = Talk(draft, layout)
    assert networks() == {
        "base": ("Global4", CLUSTER_1),
        "draft": ("Single", ["0:2"]),
        "fc": ("Single", ["0:3"]),
    }
    tokens, _finished = talk.ask("a", [FIRST])
    assert len(tokens) == 12
    talk.engine.close()


def test_encoder_and_decoder_run_where_each_was_put(demo_models: Path, networks: Networks) -> None:
    layout = parts(encoder=one("global4", "0:1"), decoder=one("single", "0:0:1"))
    folder = demo_models / "whisper-tiny.en-sim"
    engine = load_engine(
        LoadSpeech("w", str(folder), layout), RuntimeConfig(demo_models.parent, "simulated"), silent
    )
    found = networks()
    assert found == {"encoder": ("Global4", CLUSTER_1), "decoder": ("Single", ["0:1"])}
    engine.close()


def test_shared_layers_experts_and_head_run_where_each_was_put(mixture: Path, networks: Networks) -> None:
    layout = parts(
        shared=one("single", "0:1:1"), expert=one("single", "0:0:2", "0:0:3"), lm_head=one("single", "0:1:3")
    )
    talk = Talk(mixture, layout)
    assert networks() == {
        "shared": ("Single", ["1:1"]),
        "expert": ("Single", ["0:2", "0:3"]),
        "lm_head": ("Single", ["1:3"]),
    }
    tokens, _finished = talk.ask("a", [FIRST])
    assert len(tokens) == 12
    talk.engine.close()


REFUSED = [
    (
        parts(encoder=one("single", "0:0:0")),
        "no part called “encoder”. It has vision and text; give a layout for these.",
    ),
    (
        parts(vision=one("global8")),
        "Vision network: it was compiled for single and global4, not for global8.",
    ),
    (
        parts(text=one("single", "0:2:0")),
        "Text network: “0:2:0” is not one of the cores.",
    ),
    (
        LayoutRequest(parts=(PartLayout("text", one("single")), PartLayout("text", one("auto")))),
        "Text network: a layout is given twice.",
    ),
]


@pytest.mark.parametrize(("layout", "words"), REFUSED)
def test_what_a_model_cannot_do_is_refused_in_words(
    pictures: Path, layout: LayoutRequest, words: str
) -> None:
    with pytest.raises(LayoutError) as caught:
        load_model("v", pictures, layout, "simulated", silent)
    error = caught.value
    assert words in f"{error.summary} {error.remedy}"
    assert (error.setting, error.unharmed) == ("layout.parts", "Nothing was changed.")


def test_a_model_of_one_network_has_no_parts(tmp_path: Path) -> None:
    make_checkpoint(tmp_path / "checkpoint", "llama")
    save_tokenizer(tmp_path / "checkpoint")
    build_artifact(tmp_path / "checkpoint", tmp_path / "artifact", context_length=128)
    words = Talk(tmp_path / "artifact", parts(text=one("single"))).refusal
    assert "no part called “text”. It is one network; give a layout for the whole model." in words


def test_a_mixtures_parts_run_in_single_mode_only(mixture: Path) -> None:
    words = Talk(mixture, parts(lm_head=one("global4", "0:0"))).refusal
    assert words == (
        "Head: it was compiled for single, not for global4. "
        "Choose a mode that it was compiled for, or the automatic one."
    )


def test_a_part_moved_to_other_cores_is_the_cause_of_a_miss(draft: Path) -> None:
    talk = Talk(draft, parts(base=one("single", "0:0:0"), draft=one("single", "0:0:1")))
    first, _finished = talk.ask("moved/1", [FIRST])
    talk.engine.close()
    # The same cores taken together, but base and draft have changed places.
    again = Talk(draft, parts(base=one("single", "0:0:1"), draft=one("single", "0:0:0")))
    _second, finished = again.ask("moved/2", [FIRST, first, [5]])
    assert finished.reuse is not None
    assert finished.reuse.cause == "layout"
    again.engine.close()


def test_a_request_with_parts_in_words() -> None:
    some = LayoutRequest(parts=(PartLayout("encoder", one("single", "0:0:0")),))
    assert say_request(some) == "auto, as the model says, but encoder single on core 0:0:0"
    assert say_request(parts(encoder=one("single", "0:0:0"), decoder=one("global4", "0:1"))) == (
        "encoder single on core 0:0:0, decoder global4 on cluster 0:1"
    )
