"""The parts all panes are built from. Colours and fonts come from `mblt_desktop.theme`."""

from mblt_desktop.widgets.basics import (
    Button,
    Chip,
    Dot,
    ElidedLabel,
    IconButton,
    Label,
    Line,
    PrimaryButton,
    SearchField,
    plain_tip,
    restyle,
)
from mblt_desktop.widgets.feedback import Bar, ErrorBanner, ProgressRow
from mblt_desktop.widgets.files import ask_for_files, local_files
from mblt_desktop.widgets.layout import EmptyState, Facts, HeaderBar, Page, Scrolled, Section, SidePanel

__all__ = [
    "Bar",
    "Button",
    "Chip",
    "Dot",
    "ElidedLabel",
    "EmptyState",
    "ErrorBanner",
    "Facts",
    "HeaderBar",
    "IconButton",
    "Label",
    "Line",
    "Page",
    "PrimaryButton",
    "ProgressRow",
    "Scrolled",
    "SearchField",
    "Section",
    "SidePanel",
    "ask_for_files",
    "local_files",
    "plain_tip",
    "restyle",
]
