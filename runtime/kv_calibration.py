"""How long computing and loading KV take, measured on purpose while nothing else is to do.

One unit of work at a time, a prefill chunk or a load, so that a request waits for one unit at most. The first
request ends it for good: the KV of conversations is on the slots then, and requests teach the same.
"""

from __future__ import annotations

import logging
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence

from runtime.errors import loses_model
from runtime.families.base import FamilyModel, KvCache, PromptChunk
from runtime.kv_costs import CALIBRATION_RUNS, CostModel, settled
from runtime.messages import TextPart, Turn

_log = logging.getLogger(__name__)


class Calibration:
    """The measurement of one loaded model."""

    def __init__(
        self,
        model: FamilyModel,
        costs: CostModel,
        load: Callable[[KvCache], float],
        sizes: Sequence[int],
        clock: Callable[[], float] = time.perf_counter,
    ) -> None:
        """`sizes`: the prompt lengths to measure, in tokens, the shortest first."""
        self._model = model
        self._costs = costs
        self._load = load
        self._sizes = sizes
        self._clock = clock
        self._cache: KvCache | None = None
        self._work: Iterator[None] | None = self._measure()

    def step(self) -> bool:
        """Do one unit; False when all is measured, it was stopped, or cannot be done.

        Raises what loses the model.
        """
        if self._work is None:
            return False
        try:
            ended = next(self._work, self) is self
        except Exception as error:  # nobody waits for it: KV that is refused, a template that is
            if loses_model(error):
                raise
            _log.warning("How long KV takes is not measured: %s", type(error).__name__)
            ended = True
        if ended:
            self.stop()
        return not ended

    def stop(self) -> None:
        """Free the slot; what is measured so far is forgotten."""
        self._work = None
        if self._cache is not None:
            self._cache.discard()
            self._cache = None

    def _measure(self) -> Iterator[None]:
        if not self._sizes:
            return
        turns = [Turn("user", (TextPart("1 " * self._sizes[-1]),))]
        prompt = self._model.tokenise(self._model.render(turns), turns)
        sizes = [size for size in self._sizes if size <= len(prompt.token_ids)]
        prefill: defaultdict[int, list[float]] = defaultdict(list)
        loads: defaultdict[int, list[float]] = defaultdict(list)
        for _ in range(CALIBRATION_RUNS):
            cache = self._cache = self._model.place(self._model.new_cache(), 0)
            done, spent = 0, 0.0
            for size in sizes:
                while done < size:
                    end = min(done + self._model.info.prefill_chunk, size)
                    started = self._clock()
                    self._model.prefill([PromptChunk(prompt, cache, done, end)])
                    spent += self._clock() - started
                    done = end
                    yield
                prefill[size].append(spent)
                cache.offload()
                nbytes = cache.host_nbytes
                loads[nbytes].append(self._load(cache))
                yield
            cache.discard()
        for tokens, samples in prefill.items():
            self._costs.observe_prefill(tokens, settled(samples))
        for nbytes, samples in loads.items():
            self._costs.observe_load(nbytes, settled(samples))
