"""How long computing and loading KV take, measured on purpose while nothing else is to do.

One unit of work at a time, a prefill chunk or a load, so that a request waits for one unit at most. The
lengths are measured one after the other, the shortest first; a request that comes meanwhile costs the run
that is under way, and the rest follows in the next quiet moment. Loading from the disk is not measured:
what has just been written would come from the system's memory, so the first real load has to tell.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Generator, Sequence

from runtime.errors import loses_model
from runtime.families.base import FamilyModel, Prompt, PromptChunk
from runtime.kv.cache import KvCache
from runtime.kv.costs import CALIBRATION_RUNS, CostModel, settled
from runtime.kv.prefix_cache import PrefixCache
from runtime.kv.store import KvRejectedError
from runtime.messages import TextPart, Turn

MOST_INTERRUPTIONS = 8
"""After so many it is not begun again: somebody who asks and asks again should not wait for it for ever."""
Load = Callable[[KvCache], float]
"""Puts a cache's KV onto its slot; returns the seconds that took."""
_log = logging.getLogger(__name__)


class Calibration:
    """The measurement of one loaded model."""

    def __init__(
        self,
        model: FamilyModel,
        costs: CostModel,
        load: Load,
        sizes: Sequence[int],
        borrow: Callable[[], int | None],
        clock: Callable[[], float] = time.perf_counter,
    ) -> None:
        """`sizes`: the prompt lengths to measure, in tokens, the shortest first.

        `borrow` is asked for a slot whenever measuring begins; None ends it.
        """
        self._model = model
        self._costs = costs
        self._load = load
        self._left = list(sizes)
        self._borrow = borrow
        self._clock = clock
        self._finished, self._seconds = 0, 0.0
        """The longest length that is measured, and the seconds that computing it takes."""
        self._computing: list[float] = []
        self._loading: list[float] = []
        """Seconds, by run, of the length that is being measured."""
        self._interruptions = 0
        self._cache: KvCache | None = None
        self._work: Generator[None, None, None] | None = None

    def step(self) -> bool:
        """Do one unit; False when all is measured, it was interrupted too often, or cannot be done.

        Raises what loses the model.
        """
        if not self._left:
            return False
        self._work = self._work or self._measure()
        try:
            ended = next(self._work, self) is self
        except Exception as error:  # nobody waits for it: KV that is refused, a template that is
            if loses_model(error):
                raise
            _log.warning("How long KV takes is not measured: %s", type(error).__name__)
            ended = True
        if ended:
            self._left.clear()
            self.interrupt()
        return not ended

    def interrupt(self) -> None:
        """Free the slot; what is measured stays, but for a run that is not finished."""
        if self._work is None:
            return
        self._work = None
        if self._cache is not None:
            self._cache.discard()
            self._cache = None
        self._interruptions += 1
        if self._interruptions >= MOST_INTERRUPTIONS:
            self._left.clear()

    def _measure(self) -> Generator[None, None, None]:
        turns = [Turn("user", (TextPart("1 " * self._left[-1]),))]
        prompt = self._model.tokenise(self._model.render(turns), turns)
        held = len(prompt.token_ids)
        if not self._model.reusable_prefix(prompt, held):  # no prompt ever continues what was kept
            return
        self._left = [size for size in self._left if size <= held]
        slot = self._borrow() if self._left else None
        if slot is None:
            return
        cache = self._cache = self._model.place(self._model.new_cache(), slot)
        yield from self._compute(prompt, cache, self._finished)
        while self._left:
            yield from self._run(prompt, cache)

    def _run(self, prompt: Prompt, cache: KvCache) -> Generator[None, None, None]:
        """Compute the next length beyond the last one and load all of it; the last run settles the times."""
        if not self._finished:
            cache.discard()
        elif cache.get_seq_length() > self._finished:
            cache.set_seq_length(self._finished)
        spent = yield from self._compute(prompt, cache, self._left[0])
        cache.offload()
        nbytes = cache.host_nbytes
        self._loading.append(self._load(cache))
        self._computing.append(spent)
        if len(self._loading) == CALIBRATION_RUNS:
            self._settle(nbytes)
        yield

    def _settle(self, nbytes: int) -> None:
        self._finished = self._left.pop(0)
        self._seconds += settled(self._computing)
        self._costs.observe_prefill(self._finished, self._seconds)
        self._costs.observe_load(nbytes, settled(self._loading))
        self._computing, self._loading = [], []

    def _compute(self, prompt: Prompt, cache: KvCache, length: int) -> Generator[None, None, float]:
        """The prompt up to that length, a chunk at a time; returns the seconds."""
        spent = 0.0
        while (done := cache.get_seq_length()) < length:
            end = min(done + self._model.info.prefill_chunk, length)
            started = self._clock()
            self._model.prefill([PromptChunk(prompt, cache, done, end)])
            spent += self._clock() - started
            yield
        return spent


class Lending:
    """The slots that conversations have, and the one that is borrowed from them for measuring."""

    def __init__(self, caches: PrefixCache, slots: int, load: Load) -> None:
        self._caches = caches
        self._slots = slots
        self._load = load
        self._placed: dict[int, str] = {}
        """The conversation that was put on each slot last."""
        self._lent_by = ""

    def placed(self, conversation_id: str, slot: int) -> None:
        """The conversation has that slot now."""
        if self._lent_by in (conversation_id, self._placed.get(slot)):
            self._lent_by = ""  # its KV comes with its next answer
        self._placed[slot] = conversation_id

    def borrow(self) -> int | None:
        """A free slot, else that of the conversation used longest ago, whose KV is put into host memory.

        None when that has no room: no conversation's KV is lost for a measurement.
        """
        known = dict(self._caches.entries())
        owners = {name: slot for slot, name in self._placed.items() if name in known}
        free = set(range(self._slots)) - set(owners.values())
        if free:
            return min(free)
        name = next(name for name in reversed(known) if name in owners)
        cache = known[name].cache
        if self._caches.over_limit(_host_bytes(cache, [entry.cache for entry in known.values()])):
            return None
        self._lent_by = name
        cache.offload()
        if self._caches.over_limit():  # it was larger than any other
            self.give_back()
            return None
        return owners[name]

    def give_back(self, only_to: str = "") -> None:
        """Put back the KV that had to make room; `only_to`: if it is that conversation's."""
        if only_to not in ("", self._lent_by):
            return
        entry = dict(self._caches.entries()).get(self._lent_by)
        self._lent_by = ""
        if entry is not None and entry.cache.get_seq_length() and not entry.cache.is_resident:
            try:
                self._load(entry.cache)
            except KvRejectedError as error:
                _log.warning("KV could not be put back: %s", error)  # its next answer finds that out, too


def _host_bytes(cache: KvCache, others: Sequence[KvCache]) -> int:
    """How many more bytes of host memory the cache takes off its slot, judged by the others; 1 at least."""
    rates = [other.host_nbytes / max(1, other.get_seq_length()) for other in others]
    return max(1, int(max(rates, default=0.0) * cache.get_seq_length()) - cache.host_nbytes)
