"""The KV of a loaded model's conversations: what of it a prompt reuses, where it comes from, and why no more.

It joins the parts that know one thing each: `prefix_cache` which positions are held, `costs` whether loading
them pays, `calibration` how long it takes, `reuse` why a prompt differs, `store` what the disk keeps. Used by
the model's thread.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from runtime.config import KvOptions
from runtime.errors import loses_model
from runtime.families import vendor_caches
from runtime.families.base import FamilyModel, Prompt, token_text
from runtime.kv.cache import KvCache
from runtime.kv.calibration import Calibration, Lending
from runtime.kv.costs import CostModel, calibration_sizes, size_class
from runtime.kv.prefix_cache import Entry, PrefixCache, common_prefix
from runtime.kv.reuse import HISTORY, Said, came_before, compare
from runtime.kv.store import KvRejectedError, KvStore, ModelKey
from runtime.messages import MissCause, Reuse, Turn
from runtime.tracing.recorder import RECORDER

SAVE_SECONDS = 5.0
"""After this time no further conversation is written to the disk when the model goes."""
_MIB = 2**20
_log = logging.getLogger(__name__)


@dataclass(slots=True)
class Lease:
    """A conversation's cache, for one answer."""

    cache: KvCache
    kept: int
    """Positions of the prompt that it holds."""
    reuse: Reuse


class KvKeeper:
    """One for each loaded model."""

    def __init__(self, model: FamilyModel, options: KvOptions, folder: Path) -> None:
        self._model = model
        self._options = options
        self._caches = PrefixCache(
            model.new_cache, options.conversations, options.host_mib * _MIB, self._on_drop
        )
        self._costs = CostModel(options.load_margin, options.ewma_weight, options.minimum_hit, options.block)
        self._store = KvStore(folder)
        self._key: ModelKey | None = None
        self._said: dict[str, Said] = {}
        self._changed: set[str] = set()
        """Conversations whose KV is not what the disk keeps of them."""
        self._refused: set[str] = set()
        """Those of them that the disk has refused to take."""
        self._spent: dict[str, float] = {}
        """Seconds that computing a prompt took so far, of those computed from their first position."""
        self._lending = Lending(self._caches, model.slots, vendor_caches.load)
        blocks = options.calibration_blocks if options.calibrate else ()
        lengths = calibration_sizes(model.info.context_length, options.block, blocks)
        self._calibration = Calibration(model, self._costs, vendor_caches.load, lengths, self._lending.borrow)

    def set_options(self, options: KvOptions) -> None:
        """Go on with other settings."""
        self._options = options
        self._refused.clear()
        if options.keep_on_disk:
            self._store.trim(options.disk_mib * _MIB)
        self._costs.set_rule(options.load_margin, options.ewma_weight, options.minimum_hit)
        self._caches.limit(options.conversations, options.host_mib * _MIB)

    # -- an answer ----------------------------------------------------------------------------------

    def admit(
        self, conversation_id: str, prompt: Prompt, turns: Sequence[Turn], left_out: int, slot: int
    ) -> Lease:
        """The conversation's cache on that slot, holding as much of the prompt as is worth it.

        It is held for the conversation until `let_go`.
        """
        self._calibration.interrupt()
        self._lending.give_back(only_to=conversation_id)
        now = Said.of(turns, left_out)
        absent = None
        from_disk = not self._caches.held(conversation_id)
        if from_disk:
            absent = self._bring_back(conversation_id, prompt, turns, now, slot)
        held, before = self._caches.held(conversation_id), self._said.get(conversation_id)
        reuse = absent or compare(held, before, prompt.identity, now)
        reuse = self._explained(reuse, prompt, turns)
        taken = self._take(conversation_id, prompt)
        if taken.cheaper:
            reuse = replace(reuse, cause="cheaper")
        cache, intact = self.resume(conversation_id, slot)
        if not intact:
            taken, reuse = _Taken(), replace(reuse, cause="rejected")
        self._said[conversation_id] = now
        if self._model.reusable_prefix(prompt, len(prompt.identity)):  # else nothing would ever be reused
            self._changed.add(conversation_id)
            self._refused.discard(conversation_id)
        HISTORY.note(conversation_id, self._model.info)
        from_disk = from_disk and taken.positions > 0
        return Lease(cache, taken.positions, replace(reuse, from_disk=from_disk))

    def read_again(self, conversation_id: str, prompt: Prompt) -> tuple[KvCache, int]:
        """The cache for another prompt in the middle of an answer, and the positions it holds of it."""
        return self._caches.take(
            conversation_id, prompt.identity, lambda length: self._model.reusable_prefix(prompt, length)
        )

    def resume(self, conversation_id: str, slot: int) -> tuple[KvCache, bool]:
        """The conversation's cache on that slot, and whether its KV is what it was.

        KV that cannot be used any more is dropped: the cache is an empty one then.
        """
        try:
            return self._place(conversation_id, slot), True
        except KvRejectedError as error:
            _log.warning("KV in memory is not used: %s", error)
            self._caches.forget(conversation_id)
            return self._place(conversation_id, slot), False

    def _place(self, conversation_id: str, slot: int) -> KvCache:
        """The conversation's cache on that slot, its KV loaded if it was in host memory.

        Raises KvRejectedError when that is lost or does not fit.
        """
        entry = self._caches.open(conversation_id)
        cache = self._model.place(entry.cache, slot)
        self._caches.move(conversation_id, cache)
        self._lending.placed(conversation_id, slot)
        if cache.get_seq_length() and not cache.is_resident:
            nbytes = cache.host_nbytes
            with RECORDER.span("load KV", tokens=cache.get_seq_length(), bytes=nbytes):
                seconds = vendor_caches.load(cache)
            if seconds:
                self._costs.observe_load(nbytes, seconds)
            self._caches.trim()
        return cache

    def computed(
        self, conversation_id: str, identity: Sequence[Hashable], start: int, end: int, seconds: float
    ) -> None:
        """Positions `start..end` of a prompt of that identity were computed in so many seconds."""
        self._caches.extend(conversation_id, identity[start:end])
        if start == 0:
            self._spent[conversation_id] = 0.0
        if conversation_id in self._spent:
            self._spent[conversation_id] += seconds
            if end == len(identity) or end == size_class(end, self._costs.block):
                self._costs.observe_prefill(end, self._spent[conversation_id])
        if end == len(identity):
            self._spent.pop(conversation_id, None)

    def undo(self, conversation_id: str, held: int) -> None:
        """A step ended early: nothing that it did behind the first `held` positions of the cache counts."""
        self._caches.cut(conversation_id, held)

    def follows(self, conversation_id: str, token_id: int) -> None:
        """The answer goes on with the token, whose position is computed with the next step."""
        self._caches.extend(conversation_id, (token_id,))

    def said(self, conversation_id: str, text: str) -> None:
        """The answer goes on with that text."""
        known = self._said.get(conversation_id)
        if known is not None:
            known.answer.append(text)

    def let_go(self, conversation_id: str) -> None:
        """The answer has ended; its KV may be dropped when room is needed."""
        self._spent.pop(conversation_id, None)
        self._caches.let_go(conversation_id)

    def distrust(self, conversation_id: str) -> None:
        """What the cache holds after bad numbers is not to be trusted."""
        self._lose(conversation_id, self._caches.held(conversation_id), "distrusted")
        self._drop(conversation_id)
        self._store.forget(conversation_id)

    def forget(self, conversation_id: str) -> None:
        """The conversation is deleted, here and on the disk."""
        self._drop(conversation_id)
        self._store.forget(conversation_id)
        HISTORY.forget(conversation_id)

    # -- when nothing else is to do -----------------------------------------------------------------

    def work_when_quiet(self) -> bool:
        """Write a conversation to the disk, or measure a little; True while there is more to do.

        Raises DeviceError when the model is lost.
        """
        changed = self._changed - self._refused if self._options.keep_on_disk else set()
        # The one used last comes last, so that it is the one on the slot afterwards.
        waiting = [known for known in reversed(self._caches.entries()) if known[0] in changed]
        if waiting:
            self._save(*waiting[0])
        elif not self._calibration.step():
            self._lending.give_back()
            return False
        return True

    def close(self, *, save: bool) -> None:
        """The model goes: write to the disk what should stay and can be saved in time."""
        self._calibration.interrupt()
        until = time.monotonic() + SAVE_SECONDS
        for conversation_id, entry in self._caches.entries():
            if save and time.monotonic() < until:
                self._save(conversation_id, entry)
            self._lose(conversation_id, entry.held(), "reloaded")
            if save:
                self._caches.forget(conversation_id)  # so that nobody saves it to host memory any more

    # -- parts of an admission ----------------------------------------------------------------------

    def _explained(self, reuse: Reuse, prompt: Prompt, turns: Sequence[Turn]) -> Reuse:
        """The same with the token that differs, and the right cause where only tokens can tell."""
        different = reuse.first_different
        if different is None:
            return reuse
        if reuse.turn and not prompt.inputs:
            reuse = came_before(reuse, self._begin_of(reuse.turn, prompt, turns))
        return replace(reuse, token=token_text(self._model, prompt.token_ids[different]))

    def _begin_of(self, turn: int, prompt: Prompt, turns: Sequence[Turn]) -> int:
        """The position at which that turn begins; 0 if the template refuses to render less than all turns."""
        before = turns[:turn]
        try:
            shorter = self._model.tokenise(self._model.render(before), before)
        except Exception:  # noqa: BLE001 - a template may raise anything, and the marks are a good answer too
            return 0
        return common_prefix(shorter.identity, prompt.identity)

    def _take(self, conversation_id: str, prompt: Prompt) -> _Taken:
        cache = self._caches.open(conversation_id).cache
        taken = _Taken()

        def reusable(length: int) -> int:
            length = self._model.reusable_prefix(prompt, length)
            if length and not cache.is_resident and not self._costs.should_load(length, cache.host_nbytes):
                taken.cheaper = True
                return 0
            return length

        _, taken.positions = self._caches.take(conversation_id, prompt.identity, reusable)
        return taken

    # -- the disk -----------------------------------------------------------------------------------

    def _bring_back(
        self, conversation_id: str, prompt: Prompt, turns: Sequence[Turn], now: Said, slot: int
    ) -> Reuse | None:
        """Load what the disk keeps of the conversation; returns why not, or None when it is there."""
        absent = HISTORY.why_absent(conversation_id, turns, self._model.info)
        if not self._options.keep_on_disk:
            return absent
        try:
            return self._load_from_disk(conversation_id, prompt, absent, now, slot)
        except KvRejectedError as error:
            _log.warning("KV from the disk is not used: %s", error)
        except Exception as error:  # whatever the vendor's loader dislikes: it is recomputed
            if loses_model(error):
                raise
            _log.warning("KV from the disk is not used: %s", type(error).__name__)
        self._caches.forget(conversation_id)
        self._store.forget(conversation_id)
        return replace(absent, cause="rejected")

    def _load_from_disk(
        self, conversation_id: str, prompt: Prompt, absent: Reuse, now: Said, slot: int
    ) -> Reuse | None:
        key = self._model_key()
        record = self._store.find(key, conversation_id)
        if record is None:
            return absent
        held = len(record.identity)
        if record.key.model_id != key.model_id:
            return replace(absent, cause="model", held=held)
        if record.key.layout != key.layout:
            return replace(absent, cause="layout", held=held)
        if record.key != key:
            raise KvRejectedError("the model's files are not those it was computed with")
        useful = common_prefix(record.identity, prompt.identity[:-1])
        if not useful:
            return compare(record.identity, record.said, prompt.identity, now)
        if not self._costs.should_load(useful, record.nbytes, "disk"):
            return Reuse(held, "cheaper")
        started = time.perf_counter()
        with RECORDER.span("load KV", tokens=held, bytes=record.nbytes, disk=True):
            data = record.checked()
            cache = self._place(conversation_id, slot)
            vendor_caches.load(cache)
            cache.load_cache_memory_from(str(data))
        self._costs.observe_load(record.nbytes, time.perf_counter() - started, "disk")
        if cache.get_seq_length() != held:
            raise KvRejectedError(f"{data} holds {cache.get_seq_length()} positions instead of {held}")
        self._caches.extend(conversation_id, record.identity)
        self._said[conversation_id] = record.said
        return None

    def _on_drop(self, conversation_id: str, entry: Entry) -> None:
        """Room is needed: what is on the disk is not lost."""
        held = entry.held()
        self._save(conversation_id, entry)
        self._lose(conversation_id, held, "unsaved" if conversation_id in self._refused else "evicted")
        self._changed.discard(conversation_id)
        self._refused.discard(conversation_id)

    def _drop(self, conversation_id: str) -> None:
        """Forget all that is known of the conversation in memory."""
        self._caches.forget(conversation_id)
        self._said.pop(conversation_id, None)
        self._changed.discard(conversation_id)
        self._refused.discard(conversation_id)

    def _save(self, conversation_id: str, entry: Entry) -> None:
        """Bring the disk up to date if the user wants that; it is no reason to fail if it cannot be."""
        identity, said = entry.held(), self._said.get(conversation_id)
        if not self._options.keep_on_disk or conversation_id not in self._changed:
            return
        self._changed.discard(conversation_id)
        if not identity or said is None:
            return
        try:
            key = self._model_key()
            with RECORDER.span("keep KV", tokens=len(identity)):
                self._store.save(key, conversation_id, identity, said, entry.cache.dump_cache_memory_to)
                self._store.trim(self._options.disk_mib * _MIB)
        except Exception as error:  # noqa: BLE001 - a full disk or a lost board: it is computed again
            _log.warning("KV is not kept on the disk: %s", error)
            self._changed.add(conversation_id)
            self._refused.add(conversation_id)
        else:
            self._refused.discard(conversation_id)

    def _lose(self, conversation_id: str, held: Sequence[Hashable], cause: MissCause) -> None:
        if held:
            HISTORY.note(conversation_id, self._model.info, len(held), cause)

    def _model_key(self) -> ModelKey:
        if self._key is None:
            self._key = vendor_caches.model_key(self._model.info, self._model.new_cache())
        return self._key


@dataclass(slots=True)
class _Taken:
    """What became of a prefix."""

    positions: int = 0
    cheaper: bool = False
    """Computing it again is faster than loading it."""
