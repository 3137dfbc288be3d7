"""Times of a recording in the form a person reads them."""

from __future__ import annotations


def clock(seconds: float) -> str:
    """Seconds as m:ss, or h:mm:ss from one hour on."""
    whole = max(0, int(seconds))
    hours, rest = divmod(whole, 3600)
    minutes, last = divmod(rest, 60)
    return f"{hours}:{minutes:02d}:{last:02d}" if hours else f"{minutes}:{last:02d}"
