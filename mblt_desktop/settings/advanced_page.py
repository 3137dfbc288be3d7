"""Advanced: what nobody needs to touch, for those who want to know."""

from __future__ import annotations

from mblt_desktop.settings.page import SettingsPage
from mblt_desktop.settings.preferences import Preferences


class AdvancedPage(SettingsPage):
    """The engine's settings, by what they are about."""

    def __init__(self, preferences: Preferences) -> None:
        super().__init__(
            "advanced",
            "How the engine works. The defaults suit nearly everybody.",
            preferences,
        )
        self.add_card([key for key in self.rows if key.startswith("advanced.kv_")], "Prefix cache")
        self.add_card(["advanced.stall_seconds", "advanced.load_stall_seconds"], "Watchdog")
