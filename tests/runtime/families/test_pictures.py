"""What was made of a picture is kept while its file is the same, up to a number of bytes."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from PIL import Image

from runtime.errors import ImageError, RequestError
from runtime.families.pictures import Album, Seen, with_pictures
from runtime.messages import Failed, MeasurePrompt, PromptMeasured, Turn
from runtime.sampling.params import SamplingRequest
from tests.runtime.families.pictured import saved, user
from tests.runtime.families.test_image_again import Model, make_model, run
from tests.runtime.families.test_image_text import Session, open_session
from tests.simulator.pictures import noise

MARK = 9


class Studio:
    """Makes a tensor of a picture's bytes, and counts how often."""

    def __init__(self, most_bytes: int = 10_000_000) -> None:
        self.sizes: list[tuple[int, int]] = []
        self.album = Album(self._make, most_bytes)

    def _make(self, picture: Image.Image) -> Seen:
        self.sizes.append(picture.size)
        return Seen([MARK], torch.frombuffer(bytearray(picture.tobytes()), dtype=torch.uint8))


def test_a_file_is_decoded_once_while_it_is_the_same(tmp_path: Path) -> None:
    studio, path = Studio(), str(saved(tmp_path, 40, 30))
    first = studio.album.look(path, 100)
    assert studio.album.look(path, 100) is first
    assert studio.album.look(path, 20) is not first
    assert studio.sizes == [(40, 30), (20, 15)]


@pytest.mark.parametrize("change", ["content", "time", "another file"])
def test_a_file_that_changed_is_decoded_again(tmp_path: Path, change: str) -> None:
    studio, path = Studio(), saved(tmp_path, 40, 30)
    first, facts = studio.album.look(str(path), 100), path.stat()
    if change == "content":
        noise(40, 30, 5).save(path)
    elif change == "time":
        os.utime(path, ns=(facts.st_atime_ns, facts.st_mtime_ns + 1))
    else:  # of the same size and time
        other = tmp_path / "other.png"
        other.write_bytes(path.read_bytes())
        os.utime(other, ns=(facts.st_atime_ns, facts.st_mtime_ns))
        other.replace(path)
    again = studio.album.look(str(path), 100)
    assert len(studio.sizes) == 2
    assert (again.digest == first.digest) is (change != "content")


def test_a_file_that_is_gone_is_not_remembered(tmp_path: Path) -> None:
    studio, path = Studio(), saved(tmp_path, 40, 30)
    studio.album.look(str(path), 100)
    path.unlink()
    with pytest.raises(ImageError, match=path.name):
        studio.album.look(str(path), 100)


def test_the_pictures_used_last_are_kept_within_so_many_bytes(tmp_path: Path) -> None:
    each = 40 * 30 * 3
    studio = Studio(most_bytes=2 * each)
    one, two, three = (str(saved(tmp_path, 40, 30, seed)) for seed in range(3))
    for path in (one, two, one, three, one):
        studio.album.look(path, 100)
    assert len(studio.sizes) == 3, "the first one was used again, the second went"
    studio.album.look(two, 100)
    assert len(studio.sizes) == 4
    # What a network said of it counts too.
    studio.album.look(two, 100).features[0] = [torch.zeros(2 * each)]
    studio.album.look(one, 100)
    studio.album.look(two, 100)
    assert len(studio.sizes) == 5


def test_a_prompt_knows_where_its_pictures_are() -> None:
    seen = [Seen([7, MARK, MARK, 8], torch.zeros(2)), Seen([MARK], torch.ones(1))]
    prompt = with_pictures("Tiny", [[1, 2], [3], []], seen, MARK)
    assert prompt.token_ids == [1, 2, 7, MARK, MARK, 8, 3, MARK]
    assert prompt.identity == [
        1,
        2,
        7,
        (MARK, seen[0].digest),
        (MARK, seen[0].digest),
        8,
        3,
        (MARK, seen[1].digest),
    ]
    first, second = prompt.inputs["pictures"]
    assert (first.spots, second.spots) == ([3, 4], [7])
    assert first.within(4, 8) == ([1], [0])
    assert second.within(4, 8) == ([0], [3])
    with pytest.raises(RequestError, match="Tiny has 1 places for 2 pictures"):
        with_pictures("Tiny", [[1], [2]], seen, MARK)


# -- while a message is typed --------------------------------------------------------------------


@pytest.fixture(scope="module", params=["qwen2_vl", "qwen3_vl static", "aya_vision"])
def model(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Model:
    return make_model(request.param, tmp_path_factory.mktemp("typed"))


@pytest.fixture
def session(model: Model) -> Iterator[Session]:
    session = open_session(model.artifact)
    yield session
    session.engine.close()


def measure(session: Session, *turns: Turn) -> PromptMeasured | Failed:
    session.engine.handle(MeasurePrompt("m", "vl", turns, SamplingRequest()))
    event = session.events[-1]
    assert isinstance(event, PromptMeasured | Failed)
    return event


def test_a_pause_in_typing_decodes_no_picture_again(
    session: Session, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    picture = saved(tmp_path, 84, 56)
    first = measure(session, user("Wh", picture))
    monkeypatch.setattr("runtime.families.pictures.load_for_model", None)  # from here on decoding would fail
    second = measure(session, user("What?", picture))
    assert isinstance(first, PromptMeasured)
    assert isinstance(second, PromptMeasured)
    assert second.tokens == first.tokens + 3
    asked = session.submit(user("What?", picture))
    run(session)
    assert session.end(asked).usage.prompt == second.tokens  # type: ignore[union-attr]


def test_a_picture_that_is_gone_while_typing_is_named(session: Session, tmp_path: Path) -> None:
    picture = saved(tmp_path, 84, 56)
    measure(session, user("Wh", picture))
    picture.unlink()
    failed = measure(session, user("What?", picture))
    assert isinstance(failed, Failed)
    assert picture.name in failed.error.summary
