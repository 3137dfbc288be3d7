"""What came of a layout, read from the installed wheel's own values, and in words."""

from __future__ import annotations

import qbruntime

from runtime.layout.outcome import effective_from_model, say_effective, say_request
from runtime.layout.request import EffectiveLayout, LayoutRequest

ARIES = "aries-rb"
SINGLE = qbruntime.CoreMode.Single


def core(cluster: int, index: int) -> qbruntime.CoreId:
    return qbruntime.CoreId(qbruntime.Cluster[f"Cluster{cluster}"], qbruntime.Core[f"Core{index}"])


class Compiled:
    """What the layout reads of a `qbruntime.Model`, with the real wheel's own values."""

    def __init__(self, mode: qbruntime.CoreMode, cores: list[qbruntime.CoreId]) -> None:
        self._mode = mode
        self._cores = cores

    def get_core_mode(self) -> qbruntime.CoreMode:
        return self._mode

    def get_target_cores(self) -> list[qbruntime.CoreId]:
        return self._cores


class Backend:
    target_device = ARIES

    def __init__(self, compiled: list[Compiled], numbers: list[int], slots: int) -> None:
        self.mxq_models = compiled
        self.model_dev_no = numbers
        self.k_per_model = slots

    def to_dict(self) -> dict[str, object]:
        return {"target_clusters": ["0:1"]}


class Module:
    def __init__(self, backend: Backend | None = None) -> None:
        self.npu_backend = backend


class Model:
    def __init__(self, *modules: Module) -> None:
        self._modules = modules

    def modules(self) -> tuple[Module, ...]:
        return self._modules


def test_the_effective_layout_is_read_from_the_compiled_models() -> None:
    backend = Backend([Compiled(SINGLE, [core(0, 0)]), Compiled(SINGLE, [core(1, 3)])], [0, 1], slots=4)
    layout = effective_from_model(Model(Module(), Module(backend), Module(backend)))
    assert layout == EffectiveLayout(ARIES, "single", ("0:0:0", "1:1:3"), ("0:0", "1:1"), (0, 1), 2, 4)


def test_submodels_are_taken_together_and_a_host_model_has_no_layout() -> None:
    encoder = Backend(
        [Compiled(qbruntime.CoreMode.Global4, [core(0, index) for index in range(4)])], [0], slots=1
    )
    decoder = Backend([Compiled(SINGLE, [core(1, 0)])], [0], slots=1)
    layout = effective_from_model(Model(Module(encoder), Module(decoder)))
    assert layout is not None
    assert layout.core_mode == "global4 + single"
    assert layout.clusters == ("0:0", "0:1")
    assert effective_from_model(Model(Module())) is None


def test_requested_and_effective_in_words() -> None:
    assert say_request(LayoutRequest()) == "auto, as the model says"
    assert say_request(LayoutRequest(dev_no=(1,))) == "auto on the whole device 1"
    assert say_request(LayoutRequest("single", ("0:0:0", "0:0:1"))) == "single on cores 0:0:0, 0:0:1"
    assert say_request(LayoutRequest("global8", (), ("0:0", "0:1"))) == "global8 on all clusters of device 0"
    effective = EffectiveLayout(ARIES, "global4", (), ("0:0",), (0,), 1, 1)
    assert say_effective(effective) == "global4 on cluster 0:0, room for 1 conversation"
    assert say_effective(EffectiveLayout(ARIES, "auto", (), (), (0,), 2, 16)).endswith(
        "room for 32 conversations in 2 copies"
    )
