"""`mblt-desktop chat`: an answer on standard output, JSON, a trace, and one line for what is wrong."""

from __future__ import annotations

import io
import json
from pathlib import Path

import pytest

from mblt_desktop import cli
from runtime.simulator.build import build_artifact
from tests import tiny_qwen3_vl
from tests.perfetto import NAMES, PROBLEMS, perfetto_query
from tests.simulator.pictures import noise

CAPITAL = "What is the capital of France?"


@pytest.fixture
def model(demo_models: Path) -> str:
    return str(demo_models / "smollm2-135m-instruct-sim")


def run(*options: object) -> int:
    return cli.main(["chat", "--device", "simulated", *map(str, options)])


def test_the_answer_goes_to_standard_output_and_its_facts_to_the_other(
    model: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("MBLT_SIM_PRECISION")  # the device as people have it
    assert run("-m", model, "-p", CAPITAL, "--temperature", "0") == 0
    output = capsys.readouterr()
    assert "Paris" in output.out
    line, reuse = output.err.strip().splitlines()
    facts = line.split(" · ")
    assert facts[0].endswith("tok/s")
    assert facts[1].startswith("first token ")
    assert facts[3].startswith("prompt ")
    assert "0 reused" in facts[3]
    assert facts[4:] == ["stopped: by itself", "Simulated ARIES (CPU)"]
    assert reuse.endswith("prompt tokens were computed because this is the first turn of the conversation.")


def test_one_json_document_with_the_layout_that_took_effect_and_a_trace(
    model: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    trace = tmp_path / "answer.json.gz"
    layout = ("--core-mode", "global4", "--clusters", "0:0")
    assert (
        run("-m", model, "-p", CAPITAL, "--json", "--max-tokens", 3, "--seed", 1, *layout, "--trace", trace)
        == 0
    )
    document = json.loads(capsys.readouterr().out)
    assert document["reason"] == "length"
    assert document["usage"]["completion"] == 3
    assert document["usage"]["prompt"] == document["usage"]["new"] + document["usage"]["cached"]
    assert document["tokens_per_second"] > 0
    assert document["device"] == "Simulated ARIES (CPU)"
    assert document["simulated"] is True
    assert "global4" in json.dumps(document["layout"])
    problems, spans = perfetto_query(trace, PROBLEMS, NAMES)
    assert problems == []
    counts = {row["name"]: row["n"] for row in spans}
    assert counts["sample"] == 3
    assert counts["decode step"] == 2  # the first token comes from the prefill
    assert counts["infer"] >= counts["decode step"] + counts["prefill chunk"]


def test_each_turn_says_in_json_what_it_reused_and_why_no_more(
    model: str, capsys: pytest.CaptureFixture[str]
) -> None:
    asked = ("-p", CAPITAL, "-p", "And of Italy?", "--system", "Be brief.")
    assert run("-m", model, *asked, "--json", "--temperature", "0", "--max-tokens", "8") == 0
    first, second = map(json.loads, capsys.readouterr().out.splitlines())
    assert first["reuse"] == {
        "reused": 0,
        "recomputed": first["usage"]["prompt"],
        "held": 0,
        "cause": "new",
        "first_different": None,
        "token": "",
        "turn": None,
        "from_disk": False,
        "words": f"All {first['usage']['prompt']} prompt tokens were computed because this is the first turn "
        "of the conversation.",
    }
    reuse, usage = second["reuse"], second["usage"]
    assert (reuse["reused"], reuse["recomputed"]) == (usage["cached"], usage["new"])
    assert reuse["reused"] == reuse["held"] == first["usage"]["prompt"] + 7
    assert reuse["cause"] is None
    assert "reused" in reuse["words"]


def test_the_prompt_may_be_piped_in_and_a_stop_string_ends_the_answer(
    model: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO(CAPITAL))
    assert run("-m", model, "--temperature", "0", "--stop", " Paris") == 0
    output = capsys.readouterr()
    assert output.out.strip()
    assert "Paris" not in output.out
    assert "stopped: stop text" in output.err


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--temperature", "hot"), "--temperature"),
        (("--top-p", "2"), "--top-p"),
        (("--core-mode", "global9"), "global9"),
        (("--device", "gpu"), "gpu"),
        (("--trace", "trace.doc"), "trace.doc"),
        (("-m", "no-such-model"), "no-such-model"),
        (("-p", "  "), "There is no prompt."),
        (("--image", "picture.png"), "cannot see pictures"),
    ],
)
def test_what_is_wrong_is_one_line_with_a_way_out(
    model: str, capsys: pytest.CaptureFixture[str], options: tuple[str, str], words: str
) -> None:
    given = {"-m": model, "-p": CAPITAL, options[0]: options[1]}
    assert run(*(word for pair in given.items() for word in pair)) == 1
    output = capsys.readouterr()
    assert output.out == ""
    assert output.err.startswith("error: ")
    assert words in output.err
    assert output.err.count("\n") == 1


@pytest.fixture(scope="module")
def vision(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small Qwen3-VL that answers three conversations at once."""
    folder = tmp_path_factory.mktemp("vision")
    checkpoint = tiny_qwen3_vl.make_checkpoint(folder / "checkpoint")
    build_artifact(checkpoint, folder / "vl", prefill_chunk=32, context_length=256, max_batch_size=3)
    return folder / "vl"


def test_each_picture_by_itself_a_json_line_for_each_and_a_damaged_one_alone_fails(
    vision: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    asked = ("-m", vision, "-p", "What?", "--temperature", "0", "--max-tokens", "8", "--json")
    paths = []
    for seed in range(3):
        paths.append(tmp_path / f"{seed}.png")
        noise(84, 56, seed).save(paths[-1])
    (tmp_path / "damaged.png").write_bytes(b"no picture")
    images = [word for path in (*paths, tmp_path / "damaged.png") for word in ("--image", path)]
    assert run(*asked, "--each-image", *images) == 1
    output = capsys.readouterr()
    lines = {line["image"]: line for line in map(json.loads, output.out.splitlines())}
    assert lines.keys() == {*map(str, paths), str(tmp_path / "damaged.png")}
    assert lines[str(tmp_path / "damaged.png")].keys() == {"image", "error"}
    assert "damaged.png" in output.err
    for path in paths:  # as if it had been the only one
        assert run(*asked, "--image", path) == 0
        alone = json.loads(capsys.readouterr().out)
        assert (lines[str(path)]["text"], lines[str(path)]["usage"]) == (alone["text"], alone["usage"])
    assert run(*asked[:-1], "--each-image", "--image", paths[0], "--image", paths[1]) == 0
    assert f"{paths[1]}\n" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("options", "words"),
    [((), "There is no picture."), (("-p", "And?", "--image", "a.png"), "Only one prompt")],
)
def test_each_image_needs_pictures_and_one_prompt(
    vision: Path, capsys: pytest.CaptureFixture[str], options: tuple[str, ...], words: str
) -> None:
    assert run("-m", vision, "-p", "What?", "--each-image", *options) == 1
    assert words in capsys.readouterr().err
