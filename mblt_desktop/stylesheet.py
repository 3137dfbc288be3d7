"""The application's one stylesheet, made from a theme's colours.

Widgets choose a look by dynamic property: `kind` on buttons (primary, danger, flat, link), `tone` on labels
(muted, ok, warn, bad, accent), `role` on frames (panel, panel-right, bar, status, rail, card, chip, …).
Fonts are set on widgets with `theme.font()`, never here, so that the system's font size is respected.
"""

from __future__ import annotations

from string import Template

from mblt_desktop.tokens import Theme

_SHEET = Template("""
QWidget { color: $text; }
QMainWindow, QDialog, QWidget[role="page"] { background: $bg; }
QToolTip { background: $raised; color: $text; border: 1px solid $border; padding: 4px 8px; }

QFrame[role="panel"] { background: $surface; border: 0; border-right: 1px solid $border; }
QFrame[role="panel-right"] { background: $surface; border: 0; border-left: 1px solid $border; }
QFrame[role="rail"] { background: $surface; border: 0; border-right: 1px solid $border; }
QFrame[role="bar"] { background: $surface; border: 0; border-bottom: 1px solid $border; }
QFrame[role="footer"] { background: $surface; border: 0; border-top: 1px solid $border; }
QFrame[role="status"] { background: $surface; border: 0; border-top: 1px solid $border; }
QFrame[role="card"] { background: $surface; border: 1px solid $border; border-radius: 8px; }
QFrame[role="card"][current="true"] { border: 1px solid $accent; }
QFrame[role="composer"] { background: $surface; border: 1px solid $border; border-radius: 12px; }
QFrame[role="composer"][current="true"] { border: 1px solid $accent; }
QFrame[role="drop"] { background: transparent; border: 1px dashed $border; border-radius: 8px; }
QFrame[role="drop"][current="true"] { background: $accent_soft; border: 1px dashed $accent; }
QFrame[role="toast"] { background: $raised; border: 1px solid $border; border-radius: 8px; }
QFrame[role="banner-bad"] { background: $bad_soft; border: 1px solid $bad; border-radius: 8px; }
QFrame[role="banner-warn"] { background: $warn_soft; border: 1px solid $warn; border-radius: 8px; }
QFrame[role="banner-info"] { background: $accent_soft; border: 1px solid $border; border-radius: 8px; }
QFrame[role="chip"] { background: $raised; border: 1px solid $border; border-radius: 6px; }
QFrame[role="line"] { background: $border; border: 0; }

QLabel { background: transparent; }
QLabel[tone="muted"] { color: $muted; }
QLabel[tone="ok"] { color: $ok; }
QLabel[tone="warn"] { color: $warn; }
QLabel[tone="bad"] { color: $bad; }
QLabel[tone="accent"] { color: $accent; }

QPushButton { background: $raised; border: 1px solid $border; border-radius: 6px; padding: 5px 12px; }
QPushButton:hover { background: $hover; }
QPushButton:pressed { background: $border; }
QPushButton:focus { border: 1px solid $accent; }
QPushButton:disabled { color: $faint; background: $raised; }
QPushButton:checked { background: $accent_soft; color: $accent; border: 1px solid $accent; }
QPushButton[kind="primary"] { background: $accent; border: 1px solid $accent; color: $on_accent; }
QPushButton[kind="primary"]:hover { background: $accent_hover; border: 1px solid $accent_hover; }
QPushButton[kind="primary"]:focus { border: 1px solid $text; }
QPushButton[kind="primary"]:disabled { background: $raised; border: 1px solid $border; color: $faint; }
QPushButton[kind="danger"] { color: $bad; }
QPushButton[kind="danger"]:hover { background: $bad_soft; }
QPushButton[kind="flat"] { background: transparent; border: 1px solid transparent; }
QPushButton[kind="flat"]:hover { background: $hover; }
QPushButton[kind="flat"]:focus { border: 1px solid $accent; }
QPushButton[kind="link"] { background: transparent; border: 0;
  color: $accent; padding: 2px; text-align: left; }
QPushButton[kind="link"]:hover, QPushButton[kind="link"]:focus { text-decoration: underline; }
QPushButton[kind="link"]:disabled { color: $faint; }
QPushButton::menu-indicator { image: url("$down"); width: 12px; height: 12px;
  subcontrol-origin: padding; subcontrol-position: right center; right: 8px; }
QPushButton[menu="true"] { padding: 5px 22px 5px 4px; }

QToolButton { background: transparent; border: 1px solid transparent; border-radius: 6px; padding: 3px; }
QToolButton:hover { background: $hover; }
QToolButton:pressed { background: $border; }
QToolButton:focus { border: 1px solid $accent; }
QToolButton:checked { background: $accent_soft; color: $accent; }
QToolButton::menu-indicator { image: none; }
QToolButton[role="rail"] { border-radius: 10px; color: $muted; padding: 8px 2px 6px 2px; }
QToolButton[role="rail"]:hover { background: $hover; }
QToolButton[role="rail"]:checked { background: $accent_soft; color: $accent; }

QLineEdit, QPlainTextEdit, QTextEdit, QTextBrowser, QComboBox, QAbstractSpinBox {
  background: $surface; border: 1px solid $border; border-radius: 6px; color: $text;
  selection-background-color: $accent; selection-color: $on_accent; }
QLineEdit, QComboBox, QAbstractSpinBox { padding: 4px 8px; min-height: 20px; }
QPlainTextEdit, QTextEdit, QTextBrowser { padding: 4px; }
QLineEdit[quiet="true"] { background: transparent; border: 1px solid transparent; padding: 1px 6px; }
QLineEdit[quiet="true"]:hover { background: $raised; border: 1px solid $border; }
QLineEdit:focus, QPlainTextEdit:focus, QTextEdit:focus, QTextBrowser:focus, QComboBox:focus,
QAbstractSpinBox:focus { border: 1px solid $accent; }
QLineEdit:disabled, QComboBox:disabled, QAbstractSpinBox:disabled { color: $faint; background: $raised; }
QLineEdit[quiet="true"]:focus { background: $surface; border: 1px solid $accent; }
QLineEdit[invalid="true"], QAbstractSpinBox[invalid="true"] { border: 1px solid $bad; }
QTextBrowser[role="transcript"], QTextEdit[role="transcript"] {
  background: $bg; border: 0; border-radius: 0; padding: 0; }
QPlainTextEdit[role="composer"], QTextEdit[role="composer"] { background: transparent;
  border: 0; padding: 0; }
QAbstractSpinBox QLineEdit, QComboBox QLineEdit {
  background: transparent; border: 0; padding: 0; min-height: 0; }
QComboBox::drop-down { border: 0; width: 24px; subcontrol-position: right center; }
QComboBox::down-arrow { image: url("$down"); width: 12px; height: 12px; }
QComboBox QAbstractItemView { background: $surface; border: 1px solid $border; padding: 4px;
  selection-background-color: $accent_soft; selection-color: $accent; outline: 0; }
QAbstractSpinBox::up-button { border: 0; width: 20px; subcontrol-position: top right; }
QAbstractSpinBox::down-button { border: 0; width: 20px; subcontrol-position: bottom right; }
QAbstractSpinBox::up-arrow { image: url("$up"); width: 10px; height: 10px; }
QAbstractSpinBox::down-arrow { image: url("$down"); width: 10px; height: 10px; }

QDialogButtonBox { dialogbuttonbox-buttons-have-icons: 0; }

QCheckBox, QRadioButton { spacing: 8px; background: transparent; }
QCheckBox::indicator { width: 16px; height: 16px;
  border: 1px solid $faint; border-radius: 4px; background: $surface; }
QCheckBox::indicator:checked { background: $accent; border: 1px solid $accent; image: url("$check"); }
QCheckBox::indicator:focus, QCheckBox::indicator:hover { border: 1px solid $accent; }
QRadioButton::indicator { width: 14px; height: 14px; border: 1px solid $faint; border-radius: 8px;
  background: $surface; }
QRadioButton::indicator:checked { border: 5px solid $accent; width: 6px; height: 6px; }
QRadioButton::indicator:focus, QRadioButton::indicator:hover { border-color: $accent; }
QCheckBox:disabled { color: $faint; }

QListView, QTreeView, QTableView { background: transparent; border: 0; outline: 0;
  selection-background-color: $accent_soft; selection-color: $accent; gridline-color: $border; }
QListView::item { border-radius: 6px; padding: 8px 10px; }
QListView::item:hover, QTreeView::item:hover { background: $raised; }
QListView::item:selected, QTreeView::item:selected { background: $accent_soft; color: $accent; }
QListView::item:disabled { background: transparent; color: $muted; }
QHeaderView { background: transparent; border: 0; }
QHeaderView::section { background: transparent; border: 0;
  border-bottom: 1px solid $border; color: $muted; padding: 6px 8px; }

QScrollArea { background: transparent; border: 0; }
QScrollArea > QWidget > QWidget { background: transparent; }
QScrollBar:vertical { background: transparent; width: 10px; margin: 2px; }
QScrollBar:horizontal { background: transparent; height: 10px; margin: 2px; }
QScrollBar::handle { background: $border; border-radius: 3px; min-height: 28px; min-width: 28px; }
QScrollBar::handle:hover { background: $faint; }
QScrollBar[empty="true"]::handle { background: transparent; }
QScrollBar::add-line, QScrollBar::sub-line { width: 0; height: 0; }
QScrollBar::add-page, QScrollBar::sub-page { background: transparent; }
QSplitter::handle { background: $border; }
QSplitter::handle:horizontal { width: 1px; }
QSplitter::handle:vertical { height: 1px; }

QProgressBar { background: $hover; border: 0; border-radius: 2px; max-height: 4px; min-height: 4px; }
QProgressBar::chunk { background: $accent; border-radius: 2px; }
QProgressBar[tone="ok"]::chunk { background: $ok; }
QProgressBar[tone="warn"]::chunk { background: $warn; }
QProgressBar[tone="bad"]::chunk { background: $bad; }
QSlider::groove:horizontal { background: $hover; height: 4px; border-radius: 2px; }
QSlider::sub-page:horizontal { background: $accent; border-radius: 2px; }
QSlider::handle:horizontal { background: $accent; width: 14px;
  height: 14px; margin: -5px 0; border-radius: 7px; }

QMenu { background: $surface; border: 1px solid $border; padding: 4px; }
QMenu::item { padding: 6px 24px 6px 12px; border-radius: 4px; }
QMenu::item:selected { background: $accent_soft; color: $accent; }
QMenu::item:disabled { color: $faint; }
QMenu::separator { height: 1px; background: $border; margin: 4px 8px; }
QMenuBar { background: $surface; border-bottom: 1px solid $border; }
QMenuBar::item { padding: 4px 10px; background: transparent; border-radius: 4px; }
QMenuBar::item:selected { background: $hover; }
QTabWidget::pane { border: 0; border-top: 1px solid $border; }
QTabBar::tab { background: transparent; border: 0;
  border-bottom: 2px solid transparent; padding: 6px 12px; color: $muted; }
QTabBar::tab:selected { color: $accent; border-bottom: 2px solid $accent; }
QTabBar::tab:hover { color: $text; }
QGroupBox { border: 1px solid $border; border-radius: 8px; margin-top: 12px; padding-top: 8px; }
QGroupBox::title { subcontrol-origin: margin; left: 12px; color: $muted; }
""")


def stylesheet(theme: Theme, images: dict[str, str]) -> str:
    """The stylesheet in one theme; `images` holds the paths of the arrow and check pictures."""
    colours = {
        name: getattr(theme, name) for name in Theme.__dataclass_fields__ if name not in ("dark", "tracks")
    }
    return _SHEET.substitute(colours | images)
