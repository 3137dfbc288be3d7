"""EAGLE-3: a text model with a draft that proposes several tokens, which the model checks in one call.

The vendor's rounds draw the tokens; greedy rounds give the model's own greedy answer. A prompt is read chunk
by chunk like any other: the draft reads every position's features together with the token after it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

from runtime.config import DeviceChoice
from runtime.errors import LayoutError
from runtime.families.base import Logits, Progress, Prompt, PromptChunk, Round
from runtime.families.causal_lm import CausalLm
from runtime.families.faults import device_faults
from runtime.families.model_info import eos_ids, model_info
from runtime.families.opening import Opening
from runtime.kv.cache import KvCache
from runtime.layout.request import LayoutRequest, from_pretrained_kwargs
from runtime.messages import ModelInfo
from runtime.sampling.params import NOT_IN_ROUNDS
from runtime.sampling.sampler import Sampling, bad_logits

_ROLES = ("base_", "draft_", "fc_")


class SpeculativeLm(CausalLm):
    """A loaded base model with its draft; it holds one conversation at a time."""

    def __init__(self, model: Any, tokenizer: Any, info: ModelInfo, eos_ids: frozenset[int]) -> None:
        super().__init__(model, tokenizer, info, eos_ids)
        model.eagle3_base_model.register_forward_hook(_refuse_bad_logits)

    def new_cache(self) -> KvCache:
        """An empty cache of base and draft for one conversation."""
        from transformers_mblt.utils.cache_utils import MobilintEagle3Cache

        return cast("KvCache", MobilintEagle3Cache(*self.vendor_model.get_cache_mxq_models()))

    def place(self, cache: KvCache, slot: int) -> KvCache:
        """There is one slot."""
        return cache

    def prefill(self, chunks: Sequence[PromptChunk]) -> list[Logits]:
        """Compute the one chunk of a prompt, for base and draft; the base's logits after it, (vocab,)."""
        ((prompt, cache, start, end),) = chunks
        return [self._feed(prompt.token_ids[start:end], prompt.token_ids[end : end + 1], cache)]

    def first(self, prompt: Prompt, cache: KvCache, sampling: Sampling, room: int) -> Round:
        """Compute the rest of the prompt; the answer's first token, with a draft of the next in the cache."""
        import torch

        self._drop_draft(cache)
        with device_faults(self.info.title):
            root = self.vendor_model.eagle3_prefill(
                torch.tensor([prompt.token_ids]),
                cache,
                logits_processor=_processor(sampling),
                max_new_tokens=max(1, room),
            )
        return Round((int(root),), 0, 0)

    def round(self, cache: KvCache, sampling: Sampling, room: int) -> Round:
        """Check the draft in the cache; the next tokens, at most `room`, and how right the draft was."""
        with device_faults(self.info.title):
            step = self.vendor_model.eagle3_decode_step(
                cache,
                logits_processor=_processor(sampling),
                max_new_tokens=room + 1,  # the token before, which is known already, counts
                eos_token_id=sorted(self.eos_ids),
            )
        tokens = step.tokens[0, 1:].tolist()
        if step.next_token is not None:
            tokens.append(int(step.next_token))
        return Round(tuple(tokens), int(step.candidate_draft_tokens), int(step.accepted_draft_tokens))

    def _find_slots(self) -> list[tuple[int, int]]:
        return [(0, 0)]

    def _forward(self, rows: Sequence[list[int]], caches: Sequence[KvCache]) -> list[Logits]:
        return [self._feed(row, [], cache) for row, cache in zip(rows, caches, strict=True)]

    def _feed(self, ids: list[int], following: list[int], cache: KvCache) -> Logits:
        """Compute `ids` in base and draft; `following` is the token after them if it is known."""
        import torch
        from transformers_mblt.utils.cache_utils import note_eagle3_fed_tokens

        vendor_cache = cast("Any", cache)
        fed = torch.tensor([ids])
        self._drop_draft(cache)
        with torch.no_grad(), device_faults(self.info.title):
            outputs, logits = self.vendor_model.eagle3_base_model(
                fed, cache=cache, requires_all_features_logits=False
            )
            vendor_cache.update_base_seen_tokens(len(ids))
            note_eagle3_fed_tokens(cache, fed)
            scores = cast("Logits", logits.reshape(-1).numpy())
            shifted = [*ids[1:], *(following or [int(scores.argmax())])]
            self.vendor_model.eagle3_draft_model(
                outputs["hidden_states"][0].contiguous(), input_ids=torch.tensor([shifted]), cache=cache
            )
            vendor_cache.update_draft_seen_tokens(len(ids))
        return scores

    def _drop_draft(self, cache: KvCache) -> None:
        """Whatever an earlier round left beside the KV: the prompt says what follows."""
        vendor_cache = cast("Any", cache)
        vendor_cache.clear_tree_state()
        vendor_cache.unfed_tokens = None
        vendor_cache.sync_draft_seq_length_to_base()
        self.vendor_model.eagle3_draft_model.reset_draft_mask_state()


def _refuse_bad_logits(_base: Any, _asked: Any, answer: tuple[Any, Any]) -> None:
    """The vendor's rounds take the likeliest token also where there is none. Raises BadLogitsError.

    `answer` is the base's, with logits of shape (…, vocab).
    """
    highest = answer[1].amax(-1)  # NaN if there is one
    if not bool(highest.isfinite().all()):
        raise bad_logits(f"highest logits: {highest.flatten().tolist()}")


def _processor(sampling: Sampling) -> Any:
    """The vendor's processor for the values; None is greedy."""
    from transformers_mblt.utils.eagle3.decoding import prepare_logits_processor

    if sampling.greedy:
        return None
    return prepare_logits_processor(
        temperature=sampling.temperature, top_p=sampling.top_p, top_k=sampling.top_k
    )


def load_speculative(
    model_id: str, folder: Path, family: str, layout: LayoutRequest, device: DeviceChoice, progress: Progress
) -> SpeculativeLm:
    """Load a base with its draft; raises ModelError, LayoutError or DeviceError, with all the words."""
    opening = Opening(folder, layout, device, progress)
    from transformers import AutoModelForCausalLM, AutoTokenizer

    asked = opening.layout
    if (asked.max_batch_size or 1) > 1:
        raise LayoutError(
            "layout.max_batch_size",
            f"A model with a draft holds one conversation at a time, not {asked.max_batch_size}.",
            remedy="Leave the number of parallel conversations to the model, or set it to 1.",
            unharmed="Nothing was loaded; other models and your conversations are unharmed.",
        )
    kwargs = from_pretrained_kwargs(replace(asked, max_batch_size=None), _ROLES)
    (tokenizer,) = opening.read("its tokenizer files", AutoTokenizer)
    model = opening.load(AutoModelForCausalLM, kwargs)
    base = model.eagle3_base_model
    info = model_info(model_id, folder, family, "chat", model, opening.active, opening.seconds, text=base)
    # A draft's branches lie in its cache behind what is settled, all levels but the first.
    model.configure_eagle3_tree()
    draft = model.eagle3_draft_model
    branches = int(draft.top_k) * (int(draft.depth) - 1)
    info = replace(
        info,
        sampling_not_taken=frozenset(NOT_IN_ROUNDS),
        context_length=info.context_length - branches,
    )
    return SpeculativeLm(model, tokenizer, info, eos_ids(model, tokenizer))
