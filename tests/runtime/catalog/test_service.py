"""The library lane as the window uses it: commands in, events out, in its own threads."""

from __future__ import annotations

import dataclasses
import queue
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TypeVar

import pytest

from runtime.catalog import service as module
from runtime.catalog.service import LibraryService
from runtime.config import RuntimeConfig
from runtime.errors import NetworkError
from runtime.lanes.lane import CancelMarks, Lane
from runtime.messages import (
    Cancelled,
    Event,
    Failed,
    FetchModel,
    JobFinished,
    JobProgress,
    ListModels,
    ModelsListed,
    RemoveModel,
    VerifyModel,
)
from tests.runtime.catalog.file_server import FileServer
from tests.runtime.catalog.shop import Shop, open_shop

EventT = TypeVar("EventT", bound=Event)


class LaneUser:
    """Runs the service in a lane, as `runtime.lanes.host` does, and waits for its events."""

    def __init__(self, make: Callable[[Callable[[Event], None], CancelMarks], LibraryService]) -> None:
        self.marks = CancelMarks()
        self.events: queue.SimpleQueue[Event] = queue.SimpleQueue()
        self.seen: list[Event] = []
        self.lane = Lane("library", lambda *_: make(self.events.put, self.marks), self.events.put)
        self.thread = threading.Thread(target=self.lane.run)
        self.thread.start()

    def wait_for(
        self, kind: type[EventT], matching: Callable[[EventT], bool] = lambda _event: True
    ) -> EventT:
        while True:
            event = self.events.get(timeout=30)
            self.seen.append(event)
            if isinstance(event, kind) and matching(event):
                return event

    def stop(self) -> None:
        self.lane.stop()
        self.thread.join()


@pytest.fixture
def shop(server: FileServer, monkeypatch: pytest.MonkeyPatch) -> Shop:
    """The loopback index."""
    return open_shop(server, monkeypatch)


@pytest.fixture
def boards() -> list[str]:
    """The boards of this computer; a test may add one."""
    return []


@pytest.fixture
def user(shop: Shop, tmp_path: Path, boards: list[str]) -> Iterator[LaneUser]:
    """A running library lane with the shop's one model."""
    config = RuntimeConfig(tmp_path / "data")
    user = LaneUser(
        lambda post, marks: LibraryService(config, post, marks, (shop.entry,), boards=lambda: boards)
    )
    yield user
    user.stop()


def _states(event: ModelsListed) -> dict[str, str]:
    return {row.model_id: row.state for row in event.rows}


def test_list_fetch_verify_remove(user: LaneUser) -> None:
    user.lane.put(ListModels())
    assert _states(user.wait_for(ModelsListed)) == {"tiny-model": "available"}

    user.lane.put(FetchModel("fetch", "tiny-model"))
    assert user.wait_for(JobFinished) == JobFinished("fetch", "Tiny model is installed.")
    assert {event.request_id for event in user.seen if isinstance(event, JobProgress)} == {"fetch"}
    assert _states(user.wait_for(ModelsListed)) == {"tiny-model": "installed"}

    user.lane.put(VerifyModel("verify", "tiny-model"))
    assert "all 2 files are as installed" in user.wait_for(JobFinished).message

    user.lane.put(RemoveModel("remove", "tiny-model"))
    assert "tiny-model is removed" in user.wait_for(JobFinished).message
    assert _states(user.wait_for(ModelsListed)) == {"tiny-model": "available"}


def test_a_failure_is_one_sentence_and_the_lane_goes_on(user: LaneUser, shop: Shop) -> None:
    shop.server.files.clear()
    user.lane.put(FetchModel("fetch", "tiny-model"))
    failed = user.wait_for(Failed)
    assert (failed.request_id, failed.error.code) == ("fetch", "download.network")
    assert "tiny-model 1.0 could not be found" in failed.error.sentence()
    user.lane.put(RemoveModel("remove", "../../etc"))
    assert user.wait_for(Failed).error.code == "model.not_found"
    user.lane.put(ListModels())
    user.wait_for(ModelsListed)


def test_the_list_is_answered_during_a_download_which_can_be_cancelled(user: LaneUser, shop: Shop) -> None:
    shop.server.released.clear()
    user.lane.put(FetchModel("first", "tiny-model"))
    user.lane.put(FetchModel("second", "tiny-model"))
    user.wait_for(JobProgress)
    user.lane.put(ListModels())
    user.wait_for(ModelsListed)

    user.marks.cancel("second")
    assert user.wait_for(Cancelled) == Cancelled("second")
    user.marks.cancel("first")
    assert user.wait_for(Cancelled) == Cancelled("first")
    assert not any(isinstance(event, JobFinished | Failed) for event in user.seen)
    assert not user.marks.is_cancelled("first")


def test_closing_the_window_ends_a_download(user: LaneUser, shop: Shop) -> None:
    shop.server.released.clear()
    user.lane.put(FetchModel("fetch", "tiny-model"))
    user.wait_for(JobProgress)
    user.stop()  # the leaked-thread check of every test proves the rest


def test_a_job_that_ends_while_the_window_closes_is_no_fault(tmp_path: Path) -> None:
    class RunsDry(LibraryService):
        """Its worker has taken itself out by the time somebody looks a second time."""

        looks = 0

        @property
        def _worker(self) -> threading.Thread | None:
            self.looks += 1
            done = threading.Thread(target=int)
            done.start()
            return done if self.looks == 1 else None

        @_worker.setter
        def _worker(self, worker: threading.Thread | None) -> None:
            pass

    RunsDry(RuntimeConfig(tmp_path), lambda _: None, CancelMarks(), ()).close()


def test_without_a_board_the_hub_is_not_asked(user: LaneUser, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []
    monkeypatch.setattr(module, "vendor_entries", lambda: asked.append(1) or ())
    user.lane.put(ListModels(ask_hub=True))
    user.wait_for(ModelsListed)
    user.lane.put(ListModels(ask_hub=True))
    user.wait_for(ModelsListed)
    assert asked == []


def test_the_hub_is_asked_only_when_somebody_wants_it(
    user: LaneUser, boards: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    boards.append("aries-rb")
    asked = []
    monkeypatch.setattr(module, "vendor_entries", lambda: asked.append(1) or ())
    user.lane.put(ListModels())
    user.wait_for(ModelsListed)
    user.lane.put(ListModels())
    user.wait_for(ModelsListed)
    assert asked == []


def test_with_a_board_the_vendors_models_are_offered(
    user: LaneUser, shop: Shop, boards: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    boards.append("aries-rb")
    answers: list[object] = [
        NetworkError("The model hub could not be asked.", remedy="Check the network."),
        (dataclasses.replace(shop.entry, model_id="Llama-3.2-1B-Instruct", device="npu"),),
    ]

    def vendor_entries() -> object:
        answer = answers.pop(0)
        if isinstance(answer, NetworkError):
            raise answer
        return answer

    monkeypatch.setattr(module, "vendor_entries", vendor_entries)
    user.lane.put(ListModels(ask_hub=True))
    listed = user.wait_for(ModelsListed, lambda event: bool(event.notice))
    assert listed.notice == (
        "The model hub could not be asked. Installed models are unharmed. Check the network."
    )
    assert _states(listed) == {"tiny-model": "available"}

    user.lane.put(ListModels(ask_hub=True))
    user.wait_for(ModelsListed, lambda event: "Llama-3.2-1B-Instruct" in _states(event))
    user.lane.put(ListModels(ask_hub=True))
    user.wait_for(ModelsListed)
    assert answers == []  # asked once more after the failure, then never again
