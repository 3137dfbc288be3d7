"""Every typed setting, declared once. The settings file, the settings pane and the options of the command
line are made from this table; there is no second list.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import cast

from runtime.config import DeviceChoice, EngineOptions, KvOptions
from runtime.layout.from_settings import PART_PATTERN, layout_request
from runtime.layout.request import LayoutRequest
from runtime.sampling.params import SamplingRequest
from runtime.settings.types import Choice, Setting, SettingValue, TakesEffect

_MODEL = "the model's own"
_NEXT_LOAD: TakesEffect = "when the model is loaded next"
_NEXT_ANSWER: TakesEffect = "with the next answer"

_SAMPLING = (
    Setting(
        "sampling.temperature", "number", None, "Temperature",
        "How freely words are chosen. 0 always takes the likeliest one (greedy); the other values then only "
        "matter through the penalties.",
        minimum=0.0, maximum=2.0, step=0.05, unset=_MODEL, fallback=1.0,
        cli_option="--temperature", takes_effect=_NEXT_ANSWER,
    ),
    Setting(
        "sampling.top_k", "integer", None, "Top-k",
        "Choose among this many likeliest words only. 0 or -1 turns it off, 1 is greedy.",
        minimum=-1, maximum=1_000_000, unset=_MODEL, fallback=0,
        cli_option="--top-k", takes_effect=_NEXT_ANSWER,
    ),
    Setting(
        "sampling.top_p", "number", None, "Top-p",
        "Choose among the likeliest words that together reach this probability. 1 turns it off.",
        minimum=0.0, maximum=1.0, above_minimum=True, step=0.05, unset=_MODEL, fallback=1.0,
        cli_option="--top-p", takes_effect=_NEXT_ANSWER,
    ),
    Setting(
        "sampling.min_p", "number", None, "Min-p",
        "Leave out words less likely than this share of the likeliest one. 0 turns it off.",
        minimum=0.0, maximum=1.0, step=0.01, unset=_MODEL, fallback=0.0,
        cli_option="--min-p", takes_effect=_NEXT_ANSWER,
    ),
    Setting(
        "sampling.seed", "integer", None, "Seed",
        "The same seed, settings and prompt give the same answer again.",
        minimum=0, maximum=2**63 - 1, unset="random",
        cli_option="--seed", takes_effect=_NEXT_ANSWER,
    ),
    Setting(
        "sampling.min_tokens", "integer", 0, "Shortest answer",
        "Before this many tokens the answer ends neither by itself nor at a stop text.",
        minimum=0, maximum=1_000_000, unit="tokens", fallback=0,
        cli_option="--min-tokens", takes_effect=_NEXT_ANSWER,
    ),
    Setting(
        "sampling.max_tokens", "integer", None, "Longest answer",
        "Stop after this many tokens.",
        minimum=1, maximum=1_000_000, unit="tokens", unset="the model's own, else until its context is full",
        cli_option="--max-tokens", takes_effect=_NEXT_ANSWER,
    ),
    Setting(
        "sampling.stop", "items", (), "Stop at",
        "End the answer when one of these texts appears; the text itself is left out.",
        example="###", split=False, cli_option="--stop", takes_effect=_NEXT_ANSWER,
    ),
    Setting(
        "sampling.context_policy", "choice", "stop", "When the context is full",
        "What is left out when a conversation is longer than the model holds. The system prompt "
        "always stays; on your screen and disk everything does.",
        choices=(
            Choice("stop", "Stop", "The answer ends at the limit; a message that is too long is refused."),
            Choice("drop_middle", "Drop the middle", "The first turns stay; older ones after them go."),
            Choice("rolling", "Rolling window", "The oldest turns go, even in the middle of an answer."),
        ),
        cli_option="--context-policy", takes_effect=_NEXT_ANSWER,
    ),
    Setting(
        "sampling.report_candidates", "switch", False, "Report candidates",
        "Shows beside an answer which words were likeliest at each step, before and after each penalty.",
        takes_effect=_NEXT_ANSWER,
    ),
    Setting(
        "sampling.apply_penalties", "switch", True, "Apply penalties",
        "Off leaves out the repetition, presence and frequency penalties, the model's own included.",
        cli_option="--penalties", takes_effect=_NEXT_ANSWER,
    ),
    Setting(
        "sampling.repetition_penalty", "number", None, "Repetition penalty",
        "Above 1 makes words that already occurred in prompt or answer less likely. 1 turns it off.",
        minimum=0.01, maximum=2.0, step=0.05, unset=_MODEL, fallback=1.0,
        cli_option="--repetition-penalty", takes_effect=_NEXT_ANSWER,
    ),
    Setting(
        "sampling.presence_penalty", "number", None, "Presence penalty",
        "Above 0 makes words that already occurred in the answer less likely, however often they did.",
        minimum=-2.0, maximum=2.0, step=0.05, unset=_MODEL, fallback=0.0,
        cli_option="--presence-penalty", takes_effect=_NEXT_ANSWER,
    ),
    Setting(
        "sampling.frequency_penalty", "number", None, "Frequency penalty",
        "Above 0 makes words less likely each time they occur in the answer.",
        minimum=-2.0, maximum=2.0, step=0.05, unset=_MODEL, fallback=0.0,
        cli_option="--frequency-penalty", takes_effect=_NEXT_ANSWER,
    ),
)  # fmt: skip

_LAYOUT = (
    Setting(
        "layout.device", "choice", "auto", "Device",
        "Which kind of device runs the models.",
        choices=(
            Choice("auto", "Automatic", "A Mobilint board when one is present, else the simulated ARIES."),
            Choice("npu", "Mobilint board", "Only a real board; without one the program says so."),
            Choice("simulated", "Simulated ARIES (CPU)", "The same code on this computer's processor."),
        ),
        cli_option="--device", takes_effect="after a restart",
    ),
    Setting(
        "layout.core_mode", "choice", "auto", "Core mode",
        "How a model uses the cores. A model can only use modes it was compiled for.",
        choices=(
            Choice("auto", "Automatic", "The mode the model was compiled for."),
            Choice("single", "Single", "Each copy of the model runs on one core; choose which."),
            Choice("multi", "Multi", "The four cores of a cluster work on several inputs at the same time."),
            Choice("global4", "Global 4", "The four cores of a cluster work together on one input."),
            Choice("global8", "Global 8", "All eight cores of the board work together; needs both clusters."),
        ),
        cli_option="--core-mode", takes_effect=_NEXT_LOAD,
    ),
    Setting(
        "layout.cores", "items", (), "Cores",
        "Cores that single mode may use, each as device:cluster:core. None named means all of them.",
        example="0:0:0,0:0:1", cli_option="--cores", takes_effect=_NEXT_LOAD,
    ),
    Setting(
        "layout.clusters", "items", (), "Clusters",
        "Clusters that the other modes may use, each as device:cluster. None named means all of them.",
        example="0:0,0:1", cli_option="--clusters", takes_effect=_NEXT_LOAD,
    ),
    Setting(
        "layout.dev_no", "numbers", None, "Device numbers",
        "Which boards to use when there are several.",
        minimum=0, maximum=255, example="0,1", unset="the boards that the cores or clusters name, else 0",
        cli_option="--dev-no", takes_effect=_NEXT_LOAD,
    ),
    Setting(
        "layout.max_batch_size", "integer", None, "Parallel conversations",
        "How many conversations the model must hold at the same time. More of them need more device memory.",
        minimum=1, maximum=256, unset="as many as the model was compiled for",
        cli_option="--max-batch-size", takes_effect=_NEXT_LOAD,
    ),
    Setting(
        "layout.parts", "items", (), "Parts of a model",
        "Places one part of a model by itself, such as the encoder: its name, its core mode, and after an @ "
        "the cores (single mode) or clusters that it may use. Parts that are not named follow the rest.",
        pattern=PART_PATTERN, example="encoder=single@0:0:0", split=False, shown=False,
        cli_option="--part", takes_effect=_NEXT_LOAD,
    ),
)  # fmt: skip

_KV = KvOptions()

_CACHE = (
    Setting(
        "advanced.kv_conversations", "integer", _KV.conversations, "Conversations kept",
        "How many conversations keep what the model has computed of them (their KV cache), so that the next "
        "turn only computes what is new. The one used longest ago is dropped first.",
        minimum=1, maximum=1000, takes_effect=_NEXT_ANSWER,
    ),
    Setting(
        "advanced.kv_host_mib", "integer", _KV.host_mib, "Memory for them",
        "Most main memory for the caches of conversations that are not on the device right now.",
        minimum=0, maximum=1_000_000, step=256, unit="MiB", takes_effect=_NEXT_ANSWER,
    ),
    Setting(
        "advanced.kv_minimum_hit", "integer", _KV.minimum_hit, "Shortest reuse",
        "A shorter beginning is computed again rather than loaded back onto the device.",
        minimum=0, maximum=1_000_000, step=128, unit="tokens", takes_effect=_NEXT_ANSWER,
    ),
    Setting(
        "advanced.kv_load_margin", "number", _KV.load_margin, "Loading margin",
        "A cache is loaded back onto the device if that takes less than this share of the time of "
        "computing it again.",
        minimum=0.0, maximum=10.0, above_minimum=True, step=0.05, takes_effect=_NEXT_ANSWER,
    ),
    Setting(
        "advanced.kv_ewma_weight", "number", _KV.ewma_weight, "Weight of a new measurement",
        "How much the latest time of loading or computing counts against the former ones.",
        minimum=0.0, maximum=1.0, above_minimum=True, step=0.05, takes_effect=_NEXT_ANSWER,
    ),
    Setting(
        "advanced.kv_calibrate", "switch", True, "Measure after loading a model",
        "When nothing else is to do after a load, measure how long computing and loading take. A question "
        "that comes meanwhile goes first.",
        takes_effect=_NEXT_LOAD,
    ),
    Setting(
        "advanced.kv_block", "integer", _KV.block, "Block",
        "Times are kept by length: one block, two, four, and so on.",
        minimum=16, maximum=4096, step=16, unit="tokens", takes_effect=_NEXT_LOAD,
    ),
    Setting(
        "advanced.kv_calibration_blocks", "numbers", _KV.calibration_blocks, "Lengths measured",
        "In blocks. What does not fit into the model's context is left out.",
        minimum=1, maximum=1024, example="1, 2, 4, 8", takes_effect=_NEXT_LOAD,
    ),
)  # fmt: skip

_WATCHDOG = (
    Setting(
        "advanced.stall_seconds", "integer", 60, "Time limit of the device",
        "When the device has not answered one call for this long, the answer that waits for it says so and "
        "can be stopped. After twice as long the model is given up and has to be loaded again.",
        minimum=5, maximum=3600, step=5, unit="seconds", takes_effect="after a restart",
    ),
    Setting(
        "advanced.load_stall_seconds", "integer", 600, "Time limit of a load",
        "When loading a model has not got any further for this long, it is given up. A large model on a slow "
        "disk needs some minutes; a load can be cancelled at any time.",
        minimum=30, maximum=36_000, step=60, unit="seconds", takes_effect="after a restart",
    ),
)  # fmt: skip

_OTHERS = (
    Setting(
        "audio.device", "choice", None, "Microphone",
        "Which input is recorded.", unset="the system's default",
    ),
    Setting(
        "audio.language", "text", None, "Spoken language",
        "Saying which language is spoken saves a wrong guess on short or noisy audio.",
        pattern="[a-z]{2,3}", example="en", unset="found out from the audio",
    ),
    Setting(
        "audio.word_times", "switch", True, "Times for every word",
        "Lets the transcript follow the playback word by word; takes a little longer.",
    ),
    Setting(
        "tracing.max_seconds", "number", 600.0, "Longest recording",
        "A recording stops by itself after this time.",
        minimum=1.0, maximum=7200.0, step=60.0, decimals=0, unit="seconds",
    ),
    Setting(
        "tracing.max_events", "integer", 2_000_000, "Most events",
        "A recording stops by itself at this many events; a million events take about 80 MB.",
        minimum=1000, maximum=20_000_000, step=100_000, unit="events",
    ),
    Setting(
        "storage.load_last_model", "switch", True, "Load the last model at start",
        "Have the model you used last ready when the window opens.",
    ),
    Setting(
        "storage.keep_kv", "switch", _KV.keep_on_disk, "Keep caches of conversations on the disk",
        "A long conversation then goes on at once after a restart. Written whenever nobody waits, for every "
        "model but those that describe one picture (BLIP): their next answer cannot use it. The files reveal "
        "what the conversation is about, as the conversation itself does, and are deleted with it.",
        takes_effect=_NEXT_ANSWER,
    ),
    Setting(
        "storage.kv_mib", "integer", _KV.disk_mib, "Disk space for them",
        "Beyond it the caches used longest ago are deleted.",
        minimum=1, maximum=10_000_000, step=1024, unit="MiB", takes_effect=_NEXT_ANSWER,
    ),
    Setting(
        "appearance.theme", "choice", "system", "Theme",
        "The colours of the window.",
        choices=(
            Choice("system", "Like the system"),
            Choice("light", "Light"),
            Choice("dark", "Dark"),
        ),
    ),
    Setting("state.chat_model", "text", "", "Last chat model", "", shown=False),
    Setting("state.image_model", "text", "", "Last image model", "", shown=False),
    Setting("state.speech_model", "text", "", "Last speech model", "", shown=False),
    Setting("state.geometry", "text", "", "Window position", "", shown=False),
)  # fmt: skip

_ALL = (*_SAMPLING, *_LAYOUT, *_CACHE, *_WATCHDOG, *_OTHERS)

SETTINGS: dict[str, Setting] = {setting.key: setting for setting in _ALL}
"""All settings by key, in the order in which they are shown."""


def on_page(page: str) -> list[Setting]:
    """The settings of one page, e.g. "sampling", in order."""
    return [setting for setting in SETTINGS.values() if setting.page == page]


# -- values to requests --------------------------------------------------------------------------


def sampling_request(get: Callable[[str], SettingValue]) -> SamplingRequest:
    """The sampling values that `get` (by setting key) returns, for the runtime."""
    values = {setting.key.split(".", 1)[1]: get(setting.key) for setting in on_page("sampling")}
    return SamplingRequest(**values)  # type: ignore[arg-type]  # checked by each Setting


def engine_options(get: Callable[[str], SettingValue]) -> EngineOptions:
    """What `get` (by setting key) returns for the engine."""
    return EngineOptions(
        KvOptions(
            conversations=cast("int", get("advanced.kv_conversations")),
            host_mib=cast("int", get("advanced.kv_host_mib")),
            minimum_hit=cast("int", get("advanced.kv_minimum_hit")),
            load_margin=float(cast("float", get("advanced.kv_load_margin"))),
            ewma_weight=float(cast("float", get("advanced.kv_ewma_weight"))),
            calibrate=bool(get("advanced.kv_calibrate")),
            block=cast("int", get("advanced.kv_block")),
            calibration_blocks=cast("tuple[int, ...]", get("advanced.kv_calibration_blocks")),
            keep_on_disk=bool(get("storage.keep_kv")),
            disk_mib=cast("int", get("storage.kv_mib")),
        )
    )


ENGINE_KEYS = frozenset(setting.key for setting in _CACHE) | {"storage.keep_kv", "storage.kv_mib"}
"""The settings that `engine_options` reads."""


# -- command line --------------------------------------------------------------------------------


def add_arguments(parser: argparse.ArgumentParser, page: str) -> None:
    """Add the options of one page ("sampling" or "layout"); read them with the functions below."""
    group = parser.add_argument_group(page)
    for setting in on_page(page):
        if not setting.cli_option:
            continue
        dest = _dest(setting)
        if setting.kind == "switch":
            group.add_argument(
                setting.cli_option, dest=dest, action=argparse.BooleanOptionalAction, default=None,
                help=_escaped(setting.help),
            )  # fmt: skip
            continue
        default = setting.default if setting.choices else setting.say(setting.default)
        help_text = f"{setting.help} Takes {setting.allowed()}; default: {default}."
        group.add_argument(
            setting.cli_option, dest=dest, default=None, metavar=_metavar(setting), help=_escaped(help_text),
            action="append" if setting.kind in ("items", "numbers") else "store",
        )  # fmt: skip


def sampling_from_args(args: argparse.Namespace) -> SamplingRequest:
    """The sampling options given; raises SettingError naming the option, the value and what is allowed."""
    return sampling_request(lambda key: _from_args(args, SETTINGS[key]))


def layout_from_args(args: argparse.Namespace) -> LayoutRequest:
    """The layout options given; raises SettingError naming the option, the value and what is allowed."""
    model_id = str(getattr(args, "model", None) or "")
    return layout_request(lambda key: _from_args(args, SETTINGS[key]), model_id)


def device_from_args(args: argparse.Namespace) -> DeviceChoice:
    """The value of --device; raises SettingError for an unknown one."""
    return cast("DeviceChoice", _from_args(args, SETTINGS["layout.device"]))


def _from_args(args: argparse.Namespace, setting: Setting) -> SettingValue:
    given = getattr(args, _dest(setting), None)
    if given is None:
        return setting.default
    return setting.check(given) if isinstance(given, bool) else setting.parse(given)


def _dest(setting: Setting) -> str:
    return setting.key.replace(".", "_")


def _metavar(setting: Setting) -> str:
    if setting.choices:
        return "|".join(choice.value for choice in setting.choices)
    return {"integer": "N", "number": "X", "numbers": "N[,N…]", "items": "ITEM[,ITEM…]"}.get(
        setting.kind if setting.split else "text", "TEXT"
    )


def _escaped(text: str) -> str:
    return text.replace("%", "%%")
