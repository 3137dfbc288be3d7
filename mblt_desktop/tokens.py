"""The named colours of the two appearances."""

from __future__ import annotations

from dataclasses import dataclass

from PySide6.QtGui import QColor


@dataclass(frozen=True, slots=True)
class Theme:
    """The colours of one appearance, by what they are for."""

    dark: bool
    bg: str
    """Behind everything."""
    surface: str
    """Panels, bars, cards."""
    raised: str
    """Buttons and chips on a surface."""
    hover: str
    border: str
    text: str
    muted: str
    faint: str
    """Text and icons of what is disabled; not for words somebody needs to read."""
    accent: str
    accent_hover: str
    accent_soft: str
    """Behind what is selected or said by the user."""
    on_accent: str
    ok: str
    warn: str
    bad: str
    bad_soft: str
    warn_soft: str
    code: str
    """Behind code."""
    tracks: tuple[str, str, str, str, str]
    """Five colours that stay apart: time bars, timelines, charts."""

    def colour(self, name: str) -> QColor:
        """A colour by its name, or one of the tracks as `track0` … `track4`."""
        if name.startswith("track"):
            return QColor(self.tracks[int(name.removeprefix("track"))])
        return QColor(getattr(self, name))


LIGHT = Theme(
    dark=False,
    bg="#F6F7F9",
    surface="#FFFFFF",
    raised="#F1F3F6",
    hover="#E8EBEF",
    border="#DFE3E8",
    text="#1A1D21",
    muted="#5C6570",
    faint="#A6AEB8",
    accent="#2F6BFF",
    accent_hover="#1F5AEA",
    accent_soft="#E8EFFF",
    on_accent="#FFFFFF",
    ok="#1C8F57",
    warn="#A96800",
    bad="#C93A3A",
    bad_soft="#FCECEC",
    warn_soft="#FBF3E4",
    code="#F1F3F7",
    tracks=("#5B8DEF", "#3FB68B", "#E0A33A", "#B07BE0", "#E46C6C"),
)
DARK = Theme(
    dark=True,
    bg="#15171A",
    surface="#1C1F24",
    raised="#24282E",
    hover="#2D323A",
    border="#31363E",
    text="#E7EAEE",
    muted="#98A2AE",
    faint="#5D6672",
    accent="#7AA2FF",
    accent_hover="#93B3FF",
    accent_soft="#22304F",
    on_accent="#10131A",
    ok="#5CC593",
    warn="#E0B050",
    bad="#F08080",
    bad_soft="#3A2427",
    warn_soft="#352D1E",
    code="#1A1D22",
    tracks=("#6C9BF5", "#54C79B", "#E8B454", "#C093EC", "#EE8585"),
)
