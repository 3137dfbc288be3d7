"""A model's lane: plan a step, execute it on the model, commit what came of it.

The engine owns the loaded model, its KV caches and every running request, and is called from one thread. A
step is a chunk of prompts, a token of each answer, or a round of a draft; once unwanted, it ends before
its next call of the NPU, and what it did to the caches is undone (`docs/families.md`, "What a cancel waits
for"). An error fails its request; only a device that is lost or hangs, or a failed load, concerns the model.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

from runtime.answering.loaded import Loaded
from runtime.answering.places import Places
from runtime.answering.prompting import begun, budget, measured, prompt_for, read_anew, rolled
from runtime.answering.request import Request, Running
from runtime.answering.scheduler import Admit, Chunk, Decode, Prefill, Scheduler
from runtime.answering.steps import Drawn, execute, steps_of, tokens_of
from runtime.config import DeviceChoice, RuntimeConfig
from runtime.device.infers import ended_when
from runtime.errors import DeviceError, ErrorInfo, loses_model, to_info
from runtime.families import load_model
from runtime.families.base import FamilyModel, Progress, token_text
from runtime.kv.keeper import KvKeeper
from runtime.lanes.building import drop_what_it_holds
from runtime.lanes.device_call import DeviceCall
from runtime.lanes.lane import CancelMarks, Post
from runtime.lanes.refusals import not_loaded
from runtime.layout.request import LayoutRequest
from runtime.messages import (
    Command,
    Failed,
    ForgetConversation,
    Generate,
    LoadModel,
    MeasurePrompt,
    ModelFailed,
    ModelLoaded,
    ModelUnloaded,
    PrefillProgress,
    SetEngineOptions,
    StopReason,
    TextDelta,
    UnloadModel,
)
from runtime.sampling.sampler import IgnoredPenalties, resolve
from runtime.tracing.recorder import RECORDER

LoadFamily = Callable[[str, Path, LayoutRequest, DeviceChoice, Progress], FamilyModel]


class Engine:
    """Answers `Generate` on one loaded model."""

    def __init__(
        self,
        config: RuntimeConfig,
        post: Post,
        marks: CancelMarks,
        load: LoadFamily = load_model,
        call: DeviceCall | None = None,
    ) -> None:
        self._config = config
        self._options = config.engine
        self._load_family = load
        self._post = post
        self._marks = marks
        self._call = call or DeviceCall()
        self._scheduler = Scheduler()
        self._places = Places(self._scheduler.moved, post)
        self._loaded: Loaded | None = None
        self._not_loaded_because: ErrorInfo | None = None
        self._ignored_penalties = IgnoredPenalties()
        self._handlers: dict[type, Callable[..., None]] = {
            LoadModel: self._load,
            UnloadModel: self._unload,
            Generate: self._enqueue,
            ForgetConversation: self._forget,
            MeasurePrompt: self._measure,
            SetEngineOptions: self._set_options,
        }

    # -- the lane's calls ---------------------------------------------------------------------

    def open(self) -> None:
        """Name the thread for the traces; the heavy imports come with the first load."""
        RECORDER.name_thread("Chat engine")

    def handle(self, command: Command) -> None:
        """Take one command."""
        self._handlers[type(command)](command)

    def step(self) -> bool:
        """Plan, execute, commit; True while there is more to do."""
        self._cancel(lambda request: self._marks.is_cancelled(request.id))
        self._places.tell()
        plan = self._scheduler.plan(self._loaded.model.info.prefill_chunk if self._loaded else 1)
        if plan is None:
            return False
        if isinstance(plan, Admit):
            self._note_admission(plan)
            self._guarded(plan.request, lambda: self._admit(plan.request, plan.slot))
        else:
            self._compute(plan)
        self._places.tell()
        return True

    def work_when_quiet(self) -> bool:
        """Write what should be kept to the disk, or measure a little; True while there is more."""
        try:
            with self._call.made_for():
                return self._loaded is not None and self._loaded.caches.work_when_quiet()
        except DeviceError as error:
            self._lose_model(error)
            return False

    def _guarded(self, request: Request, work: Callable[[], None]) -> None:
        """Do one request's work; it alone fails with what goes wrong, unless the model is lost."""
        try:
            work()
        except Exception as error:  # noqa: BLE001 - the top of one request
            if self._loaded is not None and loses_model(error):
                self._lose_model(error)
            else:
                self._fail(request, error)

    def close(self) -> None:
        """Give the device back; what still runs ends as cancelled."""
        self._cancel(lambda _: True)
        self._dispose()

    # -- models -------------------------------------------------------------------------------

    def _load(self, command: LoadModel) -> None:
        self._unload_current()
        self._not_loaded_because = None
        loading = self._call.loading(command.model_id, self._post)
        try:
            with loading as progress, RECORDER.span("load model", model=command.model_id):
                folder, device = Path(command.folder), self._config.device
                model = self._load_family(command.model_id, folder, command.layout, device, progress)
        except Exception as error:  # noqa: BLE001 - the top of a load; shown with its model
            self._say_failed(command.model_id, error)
            return
        caches = KvKeeper(model, self._options.kv, self._config.kv_dir)
        self._loaded = Loaded(model, steps_of(model), caches)
        self._ignored_penalties = IgnoredPenalties()
        self._scheduler.resize(model.slots, model.copies)
        RECORDER.name_thread(f"Chat engine · {model.info.title}")
        self._post(ModelLoaded(model.info))

    def _unload(self, command: UnloadModel) -> None:
        if self._loaded is not None and self._loaded.model.info.model_id == command.model_id:
            self._unload_current()

    def _unload_current(self) -> None:
        if self._loaded is None:
            return
        model_id = self._loaded.model.info.model_id
        self._cancel(lambda _: True)
        self._dispose()
        self._post(ModelUnloaded(model_id))

    def _lose_model(self, error: Exception) -> None:
        """The device failed. The model ends before its requests: who asks again at once knows to load it."""
        loaded = self._loaded
        if loaded is None:
            return
        requests = self._scheduler.take_out(lambda _: True)
        for request in requests:
            loaded.distrust(request.conversation_id, error)
        drop_what_it_holds(error)
        try:
            self._dispose(save=False)
        finally:
            self._say_failed(loaded.model.info.model_id, error)
            for request in requests:
                self._fail(request, error)

    def _say_failed(self, model_id: str, error: Exception) -> None:
        self._not_loaded_because = to_info(error)
        self._post(ModelFailed(model_id, self._not_loaded_because))

    def _dispose(self, *, save: bool = True) -> None:
        loaded, self._loaded = self._loaded, None
        if loaded is None:
            return
        with self._call.made_for():
            loaded.dispose(save=save)

    def _forget(self, command: ForgetConversation) -> None:
        conversation_id = command.conversation_id
        self._cancel(lambda request: request.conversation_id == conversation_id)
        if self._loaded is not None:
            self._loaded.caches.forget(conversation_id)

    def _set_options(self, command: SetEngineOptions) -> None:
        self._options = command.options
        if self._loaded is not None:
            self._loaded.caches.set_options(command.options.kv)

    def _measure(self, command: MeasurePrompt) -> None:
        try:
            model = self._of(command.model_id).model
            sampling = resolve(command.sampling, model.info.sampling_defaults)
            self._post(measured(model, command.request_id, command.turns, sampling))
        except Exception as error:  # noqa: BLE001 - the top of one command
            self._post(Failed(command.request_id, to_info(error)))

    # -- requests -----------------------------------------------------------------------------

    def _enqueue(self, command: Generate) -> None:
        request = Request.of(command)
        RECORDER.begin_request(request.id, "Answer", "chat")
        self._scheduler.add(request)
        self._places.changed()

    def _admit(self, request: Request, slot: int) -> None:
        """Render, tokenise and find the longest reusable prefix; or go on where the request gave way."""
        if request.running is not None:
            self._resume(request, slot)
            return
        command, clock = request.command, request.clock
        loaded = self._of(command.model_id)
        model = loaded.model
        clock.admitted = time.perf_counter_ns()
        RECORDER.complete("queue", clock.submitted, clock.admitted, request=request.id)
        sampling = loaded.steps.accept(resolve(command.sampling, model.info.sampling_defaults))
        self._ignored_penalties.note(sampling)
        fitted = prompt_for(model, request, sampling)
        prompt = fitted.prompt
        with self._call.made_for(request.id):
            lease = loaded.caches.admit(request.conversation_id, prompt, fitted.turns, fitted.left_out, slot)
        request.running = begun(model, fitted, lease, sampling)
        self._post(PrefillProgress(request.id, lease.kept, lease.kept, len(prompt.token_ids)))

    def _note_admission(self, plan: Admit) -> None:
        """Write the reason into a recording, and tell those that wait where they are now."""
        if plan.gave_way is not None:
            plan.gave_way.clock.give_way(time.perf_counter_ns())
        RECORDER.instant("admit", request=plan.request.id, slot=plan.slot, reason=plan.reason)
        self._places.changed()

    def _of(self, model_id: str) -> Loaded:
        if self._loaded is None or self._loaded.model.info.model_id != model_id:
            raise not_loaded(model_id, self._not_loaded_because)
        return self._loaded

    def _resume(self, request: Request, slot: int) -> None:
        """Go on where the request gave way."""
        loaded, running = self._require(request)
        request.clock.go_on(time.perf_counter_ns())
        with self._call.made_for(request.id):
            running.cache, intact = loaded.caches.resume(request.conversation_id, slot)
        if not intact:
            read_anew(loaded.model, request)

    def _compute(self, plan: Prefill | Decode) -> None:
        """Execute a step in one go, and commit what came of it for each request."""
        if self._loaded is None:
            return
        began = time.perf_counter()
        try:
            drawn = self._execute(plan, self._loaded)
        except Exception as error:  # noqa: BLE001 - the top of a step
            self._isolate(plan, error)
            return
        seconds = time.perf_counter() - began
        if not drawn:
            return
        for index, (request, row) in enumerate(zip(plan.requests, drawn, strict=True)):
            commit = partial(self._commit, request, row)
            if isinstance(plan, Prefill):
                commit = partial(self._read, plan.chunks[index], row, seconds)
            self._guarded(request, commit)

    def _execute(self, plan: Prefill | Decode, loaded: Loaded) -> Sequence[Drawn]:
        """What is drawn for each request; nothing, as if it had not been, once none of them is wanted."""
        ids = [request.id for request in plan.requests]
        held = [self._require(request)[1].cache.get_seq_length() for request in plan.requests]
        drawn: Sequence[Drawn] = ()
        with self._call.made_for(*ids), ended_when(lambda: all(map(self._marks.is_cancelled, ids))):
            drawn = execute(plan, loaded.steps)
        if not drawn:
            for request, length in zip(plan.requests, held, strict=True):
                loaded.caches.undo(request.conversation_id, length)
        return drawn

    def _isolate(self, plan: Prefill | Decode, error: Exception) -> None:
        """A call failed: the model is lost, or the request at fault, which shows when each runs alone."""
        if loses_model(error):
            self._lose_model(error)
        elif len(plan.requests) == 1:
            self._fail(plan.requests[0], error)
        else:
            for alone in plan.alone():
                if not self._marks.is_cancelled(alone.requests[0].id):
                    self._compute(alone)

    def _read(self, chunk: Chunk, drawn: Drawn, seconds: float) -> None:
        """So much more of the prompt is in the cache; its last chunk draws the first token."""
        request = chunk.request
        loaded, running = self._require(request)
        running.computed = chunk.end
        identity, total = running.prompt.identity, len(running.prompt.token_ids)
        loaded.caches.computed(request.conversation_id, identity, chunk.start, chunk.end, seconds)
        self._post(PrefillProgress(request.id, running.began, chunk.end, total))
        if chunk.end == total:
            request.clock.prefilled = request.clock.prefilled or time.perf_counter_ns()
            self._commit(request, drawn)

    def _commit(self, request: Request, drawn: Drawn) -> None:
        """Go on with the tokens drawn, up to one that ends the answer; not when it is not wanted any more."""
        if self._marks.is_cancelled(request.id):
            return
        for token_id in tokens_of(request, drawn):
            if not self._take(request, token_id):
                return

    def _take(self, request: Request, token_id: int) -> bool:
        """Show the token's text; False when it ends the answer, or the prompt has to be read again."""
        loaded, running = self._require(request)
        if not request.output_ids:
            request.clock.first_token = time.perf_counter_ns()
        request.output_ids.append(token_id)
        if token_id in loaded.model.eos_ids:
            self._finish(request, "end")
            return False
        loaded.caches.follows(request.conversation_id, token_id)
        with RECORDER.span("detokenise", request=request.id):
            text = running.stream.push(token_id)
            text = running.stops.push(text, counts=len(request.output_ids) > running.sampling.min_tokens)
        self._say(request, text)
        if running.stops.hit is not None:
            self._finish(request, "stop_string")
        elif len(request.output_ids) < running.budget:
            return True
        elif not self._roll(request):
            self._finish(request, running.budget_reason)
        return False

    def _say(self, request: Request, text: str) -> None:
        if text:
            self._post(TextDelta(request.id, text))
            if self._loaded is not None:
                self._loaded.caches.said(request.conversation_id, text)

    def _roll(self, request: Request) -> bool:
        """The context is full: leave out the oldest turns, so that the rest is read again and the answer
        goes on. False when it has to end."""
        loaded, running = self._require(request)
        model = loaded.model
        fitted = rolled(model, request) if running.budget_reason == "context" else None
        if fitted is None:
            return False
        prompt = fitted.prompt
        cache, kept = loaded.caches.read_again(request.conversation_id, prompt)
        running.read_again(fitted, cache, kept)
        running.budget, running.budget_reason = budget(
            running.sampling, len(request.output_ids), len(prompt.token_ids), model.info.context_length
        )
        return True

    def _require(self, request: Request) -> tuple[Loaded, Running]:
        assert self._loaded is not None
        return self._loaded, request.require_running()

    # -- endings ------------------------------------------------------------------------------

    def _cancel(self, unwanted: Callable[[Request], bool]) -> None:
        for request in self._scheduler.take_out(unwanted):
            self._finish(request, "cancelled")

    def _finish(self, request: Request, reason: StopReason) -> None:
        request.clock.end(time.perf_counter_ns())
        running, loaded = request.running, self._loaded
        if running is not None and running.stops.hit is None:
            self._say(request, running.stops.push(running.stream.finish()) + running.stops.finish())
        if running is not None and running.sampler.log is not None and loaded is not None:
            self._post(running.sampler.log.report(request.id, partial(token_text, loaded.model)))
        device = loaded.model.info.device if loaded is not None else ""
        self._post(request.finished(reason, device))
        self._leave(request)

    def _fail(self, request: Request, error: Exception) -> None:
        if self._loaded is not None:
            self._loaded.distrust(request.conversation_id, error)
        self._post(Failed(request.id, to_info(error)))
        self._leave(request)

    def _leave(self, request: Request) -> None:
        if self._loaded is not None and request.clock.admitted:  # else another may hold the conversation's KV
            self._loaded.caches.let_go(request.conversation_id)
        self._scheduler.release(request)
        self._marks.clear(request.id)
        RECORDER.end_request(request.id)
        self._places.changed()
