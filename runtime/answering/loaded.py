"""A model on the device with what belongs to it; the three live and die together."""

from __future__ import annotations

from dataclasses import dataclass

from runtime.answering.steps import Steps
from runtime.errors import BadLogitsError, DeviceError, MbltError
from runtime.families.base import FamilyModel
from runtime.kv.keeper import KvKeeper


@dataclass(frozen=True, slots=True)
class Loaded:
    """Made by a load, gone with the unload; used by the engine's thread."""

    model: FamilyModel
    steps: Steps
    caches: KvKeeper
    """The KV of its conversations."""

    def distrust(self, conversation_id: str, error: Exception) -> None:
        """Forget the conversation's KV if an answer ended with an error that leaves doubt about it."""
        if isinstance(error, BadLogitsError | DeviceError) or not isinstance(error, MbltError):
            self.caches.distrust(conversation_id)

    def dispose(self, *, save: bool) -> None:
        """Give the device back; `save`: the disk first gets what it should keep of the conversations.

        Raises what caches or model raise, but the model is given back in any case.
        """
        try:
            self.caches.close(save=save)
        finally:
            self.model.dispose()
