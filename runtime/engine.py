"""A model's lane: plan a step, execute it on the model, commit what came of it.

The engine owns the loaded model, its KV caches and every running request, and is called from one thread. A
step is one call of the NPU at most (a prefill chunk or one token), so a cancel waits for one call at most.
An error fails its request; only a fault of the device, or of loading, concerns the model.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

from runtime.building import drop_what_it_holds
from runtime.config import DeviceChoice, RuntimeConfig
from runtime.detokenizer import StopStrings
from runtime.device_call import DeviceCall
from runtime.errors import BadLogitsError, DeviceError, ErrorInfo, MbltError, to_info
from runtime.families import load_model
from runtime.families.base import FamilyModel, Progress, token_text
from runtime.kv_keeper import KvKeeper
from runtime.lane import CancelMarks, Post
from runtime.layout import LayoutRequest
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
from runtime.prompting import budget, measured, prompt_for, rolled
from runtime.refusals import not_loaded
from runtime.request import Request, Running
from runtime.sampling import IgnoredPenalties, Sampler, resolve
from runtime.scheduler import Admit, Chunk, Decode, Prefill, Scheduler
from runtime.steps import Drawn, Steps, execute, steps_of, tokens_of
from runtime.tracing.recorder import RECORDER

LoadFamily = Callable[[str, Path, LayoutRequest, DeviceChoice, Progress], FamilyModel]


class Engine:
    """Answers `Generate` on one loaded model."""

    name = "chat"

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
        self._model: FamilyModel | None = None
        self._steps: Steps | None = None
        self._caches: KvKeeper | None = None
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
        self._settle_cancelled()
        model = self._model
        plan = self._scheduler.plan(model.info.prefill_chunk if model else 1)
        if plan is None:
            return self._work_when_quiet()
        if isinstance(plan, Admit):
            self._note_admission(plan)
            self._guarded(plan.request, lambda: self._admit(plan.request, plan.slot))
        else:
            self._compute(plan)
        return True

    def _work_when_quiet(self) -> bool:
        """Nobody waits for anything: measure a little."""
        try:
            with self._call.made_for():
                return self._caches is not None and self._caches.work_when_quiet()
        except DeviceError as error:
            self._lose_model(error)
            return False

    def _guarded(self, request: Request, work: Callable[[], None]) -> None:
        """Do one request's work; it alone fails with what goes wrong, unless the device is gone."""
        try:
            work()
        except Exception as error:  # noqa: BLE001 - the top of one request
            self._fail(request, to_info(error))
            if isinstance(error, DeviceError):
                self._lose_model(error)

    def close(self) -> None:
        """Give the device back; what still runs ends as cancelled."""
        for request in self._scheduler.take_out(lambda _: True):
            self._finish(request, "cancelled")
        self._dispose()

    # -- models -------------------------------------------------------------------------------

    def _load(self, command: LoadModel) -> None:
        self._unload_current()
        loading = self._call.loading(command.model_id, self._post)
        try:
            with loading as progress, RECORDER.span("load model", model=command.model_id):
                self._model = self._load_family(
                    command.model_id, Path(command.folder), command.layout, self._config.device, progress
                )
        except Exception as error:  # noqa: BLE001 - the top of a load; shown with its model
            self._post(ModelFailed(command.model_id, to_info(error)))
            return
        self._steps = steps_of(self._model)
        self._caches = KvKeeper(self._model, self._options.kv, self._config.kv_dir)
        self._ignored_penalties = IgnoredPenalties()
        self._scheduler.resize(self._model.slots, self._model.cards)
        RECORDER.name_thread(f"Chat engine · {self._model.info.title}")
        self._post(ModelLoaded(self._model.info))

    def _unload(self, command: UnloadModel) -> None:
        if self._model is not None and self._model.info.model_id == command.model_id:
            self._unload_current()

    def _unload_current(self) -> None:
        if self._model is None:
            return
        model_id = self._model.info.model_id
        for request in self._scheduler.take_out(lambda _: True):
            self._finish(request, "cancelled")
        self._dispose()
        self._post(ModelUnloaded(model_id))

    def _lose_model(self, error: MbltError) -> None:
        """The device failed: what is queued cannot run, and a reload is needed."""
        assert self._model is not None
        model_id = self._model.info.model_id
        for request in self._scheduler.take_out(lambda _: True):
            self._fail(request, error.info)
        drop_what_it_holds(error)
        self._dispose(save=False)
        self._post(ModelFailed(model_id, error.info))

    def _dispose(self, *, save: bool = True) -> None:
        model, self._model, self._steps = self._model, None, None
        caches, self._caches = self._caches, None
        with self._call.made_for():
            if caches is not None:
                caches.close(save=save)
            if model is not None:
                model.dispose()

    def _forget(self, command: ForgetConversation) -> None:
        conversation_id = command.conversation_id
        for request in self._scheduler.take_out(
            lambda request: request.command.conversation_id == conversation_id
        ):
            self._finish(request, "cancelled")
        if self._caches is not None:
            self._caches.forget(conversation_id)

    def _set_options(self, command: SetEngineOptions) -> None:
        self._options = command.options
        if self._caches is not None:
            self._caches.set_options(command.options.kv)

    def _measure(self, command: MeasurePrompt) -> None:
        try:
            model, _, _ = self._loaded(command.model_id)
            sampling = resolve(command.sampling, model.info.sampling_defaults)
            self._post(measured(model, command.request_id, command.turns, sampling))
        except Exception as error:  # noqa: BLE001 - the top of one command
            self._post(Failed(command.request_id, to_info(error)))

    # -- requests -----------------------------------------------------------------------------

    def _enqueue(self, command: Generate) -> None:
        request = Request.of(command)
        RECORDER.begin_request(request.id, "Answer", "chat")
        self._scheduler.add(request)
        self._post_positions()

    def _admit(self, request: Request, slot: int) -> None:
        """Render, tokenise and find the longest reusable prefix; or go on where the request gave way."""
        if request.running is not None:
            self._resume(request, slot)
            return
        command, clock = request.command, request.clock
        model, steps, caches = self._loaded(command.model_id)
        clock.admitted = time.perf_counter_ns()
        RECORDER.complete("queue", clock.submitted, clock.admitted, request=request.id)
        sampling = steps.accept(resolve(command.sampling, model.info.sampling_defaults))
        self._ignored_penalties.note(sampling)
        fitted = prompt_for(model, request, sampling)
        prompt, total = fitted.prompt, len(fitted.prompt.token_ids)
        with self._call.made_for(request.id):
            lease = caches.admit(request.conversation_id, prompt, fitted.turns, fitted.left_out, slot)
        most, reason = budget(sampling, 0, total, model.info.context_length)
        request.running = Running(
            prompt=prompt,
            turns=fitted.turns,
            left_out=fitted.left_out,
            cache=lease.cache,
            reuse=lease.reuse,
            sampling=sampling,
            sampler=Sampler(sampling, prompt.token_ids, model.eos_ids),
            stream=model.token_stream(),
            stops=StopStrings(sampling.stop),
            prompt_tokens=total,
            cached=lease.kept,
            computed=lease.kept,
            budget=most,
            budget_reason=reason,
        )
        self._post(PrefillProgress(request.id, lease.kept, lease.kept, total))

    def _note_admission(self, plan: Admit) -> None:
        """Write the reason into a recording, and tell those that wait where they are now."""
        RECORDER.instant("admit", request=plan.request.id, slot=plan.slot, reason=plan.reason)
        self._post_positions()

    def _loaded(self, model_id: str) -> tuple[FamilyModel, Steps, KvKeeper]:
        model, steps, caches = self._model, self._steps, self._caches
        if model is None or steps is None or caches is None or model.info.model_id != model_id:
            raise not_loaded(model_id)
        return model, steps, caches

    def _resume(self, request: Request, slot: int) -> None:
        """Go on where the request gave way."""
        assert self._caches is not None
        with self._call.made_for(request.id):
            self._caches.resume(request, slot)

    def _compute(self, plan: Prefill | Decode) -> None:
        """Execute a step in one call, and commit what came of it for each request.

        If the call fails, each request is computed alone, so that only the one at fault fails.
        """
        assert self._steps is not None
        began = time.perf_counter()
        try:
            with self._call.made_for(*(request.id for request in plan.requests)):
                drawn = execute(plan, self._steps)
        except DeviceError as error:
            self._lose_model(error)
            return
        except Exception as error:  # noqa: BLE001 - the top of a step
            if len(plan.requests) == 1:
                self._fail(plan.requests[0], to_info(error))
            for alone in plan.alone() if len(plan.requests) > 1 else ():
                self._compute(alone)
            return
        seconds = time.perf_counter() - began
        if isinstance(plan, Prefill):
            for chunk, row in zip(plan.chunks, drawn, strict=True):
                self._guarded(chunk.request, partial(self._read, chunk, row, seconds))
            return
        for request, row in zip(plan.requests, drawn, strict=True):
            self._guarded(request, partial(self._commit, request, row))

    def _read(self, chunk: Chunk, drawn: Drawn, seconds: float) -> None:
        """So much more of the prompt is in the cache; its last chunk draws the first token."""
        request = chunk.request
        _, running = self._require(request)
        assert self._caches is not None
        running.computed = chunk.end
        identity, total = running.prompt.identity, len(running.prompt.token_ids)
        self._caches.computed(request.conversation_id, identity, chunk.start, chunk.end, seconds)
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
        model, running = self._require(request)
        assert self._caches is not None
        if not request.output_ids:
            request.clock.first_token = time.perf_counter_ns()
        request.output_ids.append(token_id)
        if token_id in model.eos_ids:
            self._finish(request, "end")
            return False
        self._caches.follows(request.conversation_id, token_id)
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
            if self._caches is not None:
                self._caches.said(request.conversation_id, text)

    def _roll(self, request: Request) -> bool:
        """The context is full: leave out the oldest turns, so that the rest is read again and the answer
        goes on. False when it has to end."""
        model, running = self._require(request)
        assert self._caches is not None
        fitted = rolled(model, request) if running.budget_reason == "context" else None
        if fitted is None:
            return False
        prompt = fitted.prompt
        cache, kept = self._caches.read_again(request.conversation_id, prompt)
        running.read_again(fitted, cache, kept)
        running.budget, running.budget_reason = budget(
            running.sampling, len(request.output_ids), len(prompt.token_ids), model.info.context_length
        )
        return True

    def _require(self, request: Request) -> tuple[FamilyModel, Running]:
        assert self._model is not None
        assert request.running is not None
        return self._model, request.running

    # -- endings ------------------------------------------------------------------------------

    def _settle_cancelled(self) -> None:
        for request in self._scheduler.take_out(lambda request: self._marks.is_cancelled(request.id)):
            self._finish(request, "cancelled")

    def _finish(self, request: Request, reason: StopReason) -> None:
        request.clock.finished = time.perf_counter_ns()
        running = request.running
        if running is not None and running.stops.hit is None:
            self._say(request, running.stops.push(running.stream.finish()) + running.stops.finish())
        if running is not None and running.sampler.log is not None and self._model is not None:
            self._post(running.sampler.log.report(request.id, partial(token_text, self._model)))
        device = self._model.info.device if self._model is not None else ""
        self._post(request.finished(reason, device))
        self._leave(request)

    def _fail(self, request: Request, error: ErrorInfo) -> None:
        if error.code == BadLogitsError.code and self._caches is not None:
            self._caches.distrust(request.conversation_id)
        self._post(Failed(request.id, error))
        self._leave(request)

    def _leave(self, request: Request) -> None:
        if self._caches is not None and request.clock.admitted:  # else another may hold the conversation's KV
            self._caches.let_go(request.conversation_id)
        self._scheduler.release(request)
        self._marks.clear(request.id)
        RECORDER.end_request(request.id)
        self._post_positions()

    def _post_positions(self) -> None:
        for place in self._scheduler.moved():
            self._post(place)
