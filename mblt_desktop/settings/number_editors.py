"""Editors for numbers: a slider with a field, or a field alone. Both can say that the value is left open."""

from __future__ import annotations

from typing import Any

from PySide6.QtCore import QSignalBlocker, Qt, Slot
from PySide6.QtWidgets import QAbstractSpinBox, QDoubleSpinBox, QSlider, QSpinBox, QWidget

from mblt_desktop.settings.editor_base import FIELD_WIDTH, Editor, QuietWheel
from runtime.settings.types import Setting, SettingValue

SPIN_LIMIT = 2**31 - 2
"""The largest number a QSpinBox holds, less one for "left open"."""
_SLIDER_STEPS = 1000


class _Slider(QuietWheel, QSlider):
    pass


class _FromBase(QuietWheel):
    """Steps from "left open" to the value that counts then, not to the lowest one."""

    base: float | None = None

    def stepBy(self: Any, steps: int) -> None:
        """Step by some single steps."""
        if self.base is not None and self.specialValueText() and self.value() == self.minimum():
            self.setValue(type(self.minimum())(self.base) + steps * self.singleStep())
        else:
            super().stepBy(steps)  # type: ignore[misc]


class _Spin(_FromBase, QSpinBox):
    pass


class _DoubleSpin(_FromBase, QDoubleSpinBox):
    pass


class NumberEditor(Editor):
    """A slider and a field; the field says so when the value is left open."""

    def __init__(self, setting: Setting) -> None:
        super().__init__(setting)
        self._lowest = float(setting.minimum or 0.0)
        if setting.above_minimum:
            self._lowest += 10.0**-setting.decimals
        self._highest = float(setting.maximum or 0.0)
        self.slider = _Slider(Qt.Orientation.Horizontal)
        self.slider.setFocusPolicy(Qt.FocusPolicy.StrongFocus)
        steps = min(_SLIDER_STEPS, round((self._highest - self._lowest) / setting.step))
        self.slider.setRange(0, max(1, steps))
        self.slider.setMinimumWidth(120)
        self.name_widget(self.slider, ", slider")
        self.slider.setVisible(setting.decimals > 0)
        self.spin = _DoubleSpin()
        self.spin.setFocusPolicy(Qt.FocusPolicy.StrongFocus)
        self.spin.setDecimals(setting.decimals)
        self.spin.setSingleStep(setting.step)
        self.spin.setRange(self._lowest - (setting.step if setting.optional else 0.0), self._highest)
        _dress(self.spin, setting)
        self.name_widget(self.spin)
        self.row.addWidget(self.slider, 1)
        self.row.addWidget(self.spin)
        if setting.decimals == 0:
            self.row.addStretch(1)
        self.slider.valueChanged.connect(self._on_slider_moved)
        self.spin.valueChanged.connect(self._on_spin_changed)

    @property
    def buddy(self) -> QWidget:
        """The field."""
        return self.spin

    def set_base(self, base: float | int | None) -> None:
        """Where the slider stands while the value is left open."""
        self.spin.base = None if base is None else float(base)

    def show_value(self, value: SettingValue) -> None:
        """Show it in both."""
        shown = float(value) if isinstance(value, (int, float)) else None
        with QSignalBlocker(self.spin), QSignalBlocker(self.slider):
            self.spin.setValue(self.spin.minimum() if shown is None else shown)
            place = self.spin.base if shown is None else shown
            self.slider.setValue(self._slider_place(self._lowest if place is None else place))

    def _slider_place(self, value: float) -> int:
        share = (value - self._lowest) / (self._highest - self._lowest)
        return round(min(1.0, max(0.0, share)) * self.slider.maximum())

    @Slot(int)
    def _on_slider_moved(self, place: int) -> None:
        share = place / self.slider.maximum()
        self.take(round(self._lowest + share * (self._highest - self._lowest), self.setting.decimals))

    @Slot(float)
    def _on_spin_changed(self, value: float) -> None:
        left_open = self.setting.optional and value < self._lowest
        self.take(None if left_open else round(value, self.setting.decimals))


class IntegerEditor(Editor):
    """A field for a whole number; it says so when the value is left open."""

    def __init__(self, setting: Setting) -> None:
        super().__init__(setting)
        self.spin = _Spin()
        self.spin.setFocusPolicy(Qt.FocusPolicy.StrongFocus)
        lowest = int(setting.minimum or 0)
        self.spin.setRange(lowest - (1 if setting.optional else 0), int(setting.maximum or 0))
        self.spin.setSingleStep(int(setting.step))
        self.spin.setGroupSeparatorShown(True)
        _dress(self.spin, setting)
        self.name_widget(self.spin)
        self.row.addWidget(self.spin)
        self.row.addStretch(1)
        self.spin.valueChanged.connect(self._on_changed)

    @property
    def buddy(self) -> QWidget:
        """The field."""
        return self.spin

    def set_base(self, base: float | int | None) -> None:
        """Where stepping starts while the value is left open."""
        self.spin.base = base

    def show_value(self, value: SettingValue) -> None:
        """Show it."""
        with QSignalBlocker(self.spin):
            self.spin.setValue(value if isinstance(value, int) else self.spin.minimum())

    @Slot(int)
    def _on_changed(self, value: int) -> None:
        left_open = self.setting.optional and value == self.spin.minimum()
        self.take(None if left_open else value)


def _dress(spin: QAbstractSpinBox, setting: Setting) -> None:
    spin.setMinimumWidth(FIELD_WIDTH)
    spin.setCorrectionMode(QAbstractSpinBox.CorrectionMode.CorrectToNearestValue)
    if isinstance(spin, (QSpinBox, QDoubleSpinBox)):
        if setting.unset:
            spin.setSpecialValueText(setting.unset)
        if setting.unit:
            spin.setSuffix(f" {setting.unit}")
