"""Names of the date groups in the list of conversations."""

from __future__ import annotations

from datetime import date, timedelta

_MONTHS = (
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
)


def group_name(day: date, today: date) -> str:
    """Today, Yesterday, the last days, then months."""
    if day >= today:
        return "Today"
    if day == today - timedelta(days=1):
        return "Yesterday"
    if day > today - timedelta(days=7):
        return "Last 7 days"
    name = _MONTHS[day.month - 1]
    return name if day.year == today.year else f"{name} {day.year}"
