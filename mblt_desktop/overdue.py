"""How a pane says that the device does not answer."""

from __future__ import annotations

import time

from runtime.messages import CallOverdue


def overdue_words(event: CallOverdue, button: str = "Stop") -> str:
    """Since when the request has been waiting, and what can be done about it: `button` ends the waiting."""
    since = time.strftime("%H:%M:%S", time.localtime(event.since))
    words = f"The device has not answered since {since}."
    return f"{words} {button} gives the model up; it can then be loaded again."
