"""Text models: Llama, Qwen2, Qwen3, EXAONE and Cohere through transformers-mblt's own classes."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, cast

from runtime.config import DeviceChoice
from runtime.errors import RequestError
from runtime.families.base import Logits, Progress, Prompt, PromptChunk
from runtime.families.decode_stream import DecodeStream
from runtime.families.faults import device_faults, from_template
from runtime.families.model_info import eos_ids, model_info
from runtime.families.opening import Opening
from runtime.families.user_text import as_data, control_tokens
from runtime.families.vendor import dispose_model, new_slot_cache, slots_of
from runtime.kv.cache import KvCache
from runtime.layout.request import LayoutRequest, from_pretrained_kwargs
from runtime.messages import ImagePart, ModelInfo, Turn


class CausalLm:
    """A loaded text model; each of its slots holds one conversation at a time."""

    def __init__(self, model: Any, tokenizer: Any, info: ModelInfo, eos_ids: frozenset[int]) -> None:
        self.vendor_model = model
        self._tokenizer = tokenizer
        self._control = control_tokens(tokenizer)
        self.info = info
        self.eos_ids = eos_ids
        self._slots = self._find_slots()
        self.slots = len(self._slots)
        self.copies = self._find_copies()

    def render(self, turns: Sequence[Turn]) -> str:
        """The conversation as the model's chat template writes it, with the answer's opening.

        Pictures of earlier turns are passed over: another model may have answered them. Raises RequestError
        when the last turn has one.
        """
        if any(isinstance(part, ImagePart) for part in turns[-1].parts):
            raise RequestError(
                f"{self.info.title} cannot see pictures.", remedy="Choose an image model, or ask without one."
            )
        messages = [{"role": turn.role, "content": as_data(turn.text, self._control)} for turn in turns]
        return from_template(
            self.info.title,
            lambda: self._tokenizer.apply_chat_template(
                messages, tokenize=False, add_generation_prompt=True, enable_thinking=False
            ),
        )

    def tokenise(self, text: str, turns: Sequence[Turn], sharing: int = 1) -> Prompt:
        """The rendered conversation as tokens."""
        # encode_batch releases the GIL, encode does not.
        encoding = self._tokenizer.backend_tokenizer.encode_batch([text], add_special_tokens=False)[0]
        ids = list(encoding.ids)
        return Prompt(token_ids=ids, identity=ids)

    def continued(self, prompt: Prompt, token_ids: Sequence[int]) -> Prompt:
        """The prompt with an answer's next tokens at its end; positions are counted one by one."""
        return prompt.followed_by(token_ids)

    def new_cache(self) -> KvCache:
        """An empty cache for one conversation, on the first slot until it is placed."""
        return new_slot_cache(self.vendor_model, self._slots[0])

    def place(self, cache: KvCache, slot: int) -> KvCache:
        """The cache on that slot; its KV follows when it is used next, through the vendor's owner table."""
        wanted, vendor_cache = self._slots[slot], cast("Any", cache)
        if vendor_cache.slot_of(0) == wanted:
            return cache
        moved = cast("Any", new_slot_cache(self.vendor_model, wanted))
        moved.layers[0] = vendor_cache.layers[0]
        moved.rope_deltas = vendor_cache.rope_deltas
        return cast("KvCache", moved)

    def reusable_prefix(self, prompt: Prompt, length: int) -> int:
        """Text continues after any position."""
        return length

    def prefill(self, chunks: Sequence[PromptChunk]) -> list[Logits]:
        """Compute one chunk on each of some copies of the model, in one call; the logits after each."""
        rows = [chunk.prompt.token_ids[chunk.start : chunk.end] for chunk in chunks]
        return self._forward(rows, [chunk.cache for chunk in chunks])

    def decode(self, token_ids: Sequence[int], caches: Sequence[KvCache]) -> list[Logits]:
        """Compute one more position for each conversation, in one call; their logits, each (vocab,)."""
        return self._forward([[token_id] for token_id in token_ids], caches)

    def token_stream(self) -> DecodeStream:
        """A new incremental detokeniser."""
        return DecodeStream(self._tokenizer)

    def dispose(self) -> None:
        """Give the device memory back; caches of this model are lost."""
        dispose_model(self.vendor_model)

    def _find_slots(self) -> list[tuple[int, int]]:
        backend = self.vendor_model.npu_backend
        if int(getattr(self.vendor_model.config, "max_batch_size", None) or 1) == 1:
            return [(0, 0)]  # told to hold one conversation, the vendor's class uses the first slot only
        return slots_of(len(backend.mxq_models), int(backend.k_per_model))

    def _find_copies(self) -> int:
        return len({model for model, _ in self._slots})

    def _forward(self, rows: Sequence[list[int]], caches: Sequence[KvCache]) -> list[Logits]:
        """One call; the logits after each row's last token."""
        import torch

        lengths = [len(row) for row in rows]
        longest = max(lengths)
        ids = torch.tensor([row + [0] * (longest - len(row)) for row in rows])
        cache, options = self._batch(lengths, caches)
        with torch.inference_mode(), device_faults(self.info.title):
            output = self.vendor_model(
                input_ids=ids,
                past_key_values=cache,
                use_cache=True,
                logits_to_keep=1,
                npu_prefill_chunk_size=ids.shape[1],
                **options,
            )
            logits = output.logits.reshape(len(rows), -1).numpy()
        return [logits[row] for row in range(len(rows))]

    def _batch(self, lengths: Sequence[int], caches: Sequence[KvCache]) -> tuple[Any, dict[str, Any]]:
        """What the vendor's forward takes: one row on the first slot is simple, all else is a batch.

        `lengths` are the tokens of each row; what is behind them, up to the longest, does not count.
        """
        import torch

        first = cast("Any", caches[0])
        if len(caches) == 1 and first.slot_of(0) == (0, 0):
            return first, {}
        mask = torch.arange(max(lengths)) < torch.tensor(lengths)[:, None]
        return type(first).from_rows(caches), {"attention_mask": mask.long()}


def load_causal_lm(
    model_id: str, folder: Path, family: str, layout: LayoutRequest, device: DeviceChoice, progress: Progress
) -> CausalLm:
    """Load a text artifact; raises ModelError, LayoutError or DeviceError with the words for the user."""
    opening = Opening(folder, layout, device, progress)
    from transformers import AutoModelForCausalLM, AutoTokenizer

    (tokenizer,) = opening.read("its tokenizer files", AutoTokenizer)
    model = opening.load(AutoModelForCausalLM, from_pretrained_kwargs(opening.layout))
    info = model_info(model_id, folder, family, "chat", model, opening.active, opening.seconds)
    return CausalLm(model, tokenizer, info, eos_ids(model, tokenizer))
