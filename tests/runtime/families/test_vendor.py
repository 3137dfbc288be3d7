"""What all loaded classes of the vendor's have in common."""

from __future__ import annotations

import pytest

from runtime.families.vendor import dispose_model


class Network:
    """A submodel on the device, or one that the device does not give back."""

    def __init__(self, failure: Exception | None = None) -> None:
        self.there = True
        self._failure = failure

    def dispose(self) -> None:
        if self._failure is not None:
            raise self._failure
        self.there = False


class Whole:
    """A composite model: it has parts, and no `dispose`."""

    def __init__(self, *networks: Network) -> None:
        self._networks = networks

    def modules(self) -> list[object]:
        return [self, *self._networks]


def test_a_network_that_cannot_be_given_back_keeps_none_of_the_others_on_the_device() -> None:
    networks = Network(), Network(OSError("first")), Network(OSError("second")), Network()
    with pytest.raises(OSError, match="first"):
        dispose_model(Whole(*networks))
    assert [network.there for network in networks] == [False, True, True, False]
