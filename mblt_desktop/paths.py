"""Where the program's files live."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

import platformdirs

from runtime.errors import SettingError

APP = "mblt-desktop"


@dataclass(frozen=True, slots=True)
class Paths:
    """The folders of one user; nothing is created until it is written to."""

    data: Path
    config: Path
    cache: Path
    state: Path

    @property
    def settings_file(self) -> Path:
        """Preferences as JSON."""
        return self.config / "settings.json"

    @property
    def database(self) -> Path:
        """Conversations, transcripts and images."""
        return self.data / "library.db"

    @property
    def media(self) -> Path:
        """Pictures and microphone takes that belong to saved work."""
        return self.data / "media"

    @property
    def recordings(self) -> Path:
        """Perfetto recordings."""
        return self.data / "recordings"

    @property
    def crash_log(self) -> Path:
        """What faulthandler wrote if the last run ended in a crash."""
        return self.logs / "crash.log"

    @property
    def logs(self) -> Path:
        """What the program did, without any words of the user's."""
        return self.state / "log"


def default_paths() -> Paths:
    """The user's folders; MBLT_DESKTOP_HOME puts all of them under one folder.

    Raises SettingError when that names the home of somebody unknown.
    """
    home = os.environ.get("MBLT_DESKTOP_HOME")
    if home:
        try:
            root = Path(home).expanduser()
        except RuntimeError as error:
            raise SettingError(
                "MBLT_DESKTOP_HOME",
                f"MBLT_DESKTOP_HOME is “{home}”, and the home folder it begins with is not known.",
                remedy="Give it the full path of a folder, or leave it unset.",
                unharmed="Nothing was read or changed.",
            ) from error
        return Paths(root / "data", root / "config", root / "cache", root / "state")
    return Paths(
        Path(platformdirs.user_data_dir(APP)),
        Path(platformdirs.user_config_dir(APP)),
        Path(platformdirs.user_cache_dir(APP)),
        Path(platformdirs.user_state_dir(APP)),
    )
