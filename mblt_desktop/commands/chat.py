"""`mblt-desktop chat`: one answer, or one after the other in a conversation, on standard output."""

from __future__ import annotations

import argparse
import dataclasses
import json
import sys
import time
import uuid
from collections.abc import Sequence
from pathlib import Path

from mblt_desktop.chat.reuse_words import reuse_words
from mblt_desktop.commands.layout_notes import asked_layout
from mblt_desktop.commands.model_choice import choose_model
from mblt_desktop.commands.recording import recorded
from mblt_desktop.commands.start import check_layout, config_for, say_overdue
from mblt_desktop.session import Session
from mblt_desktop.store.export import speculation_words
from runtime.errors import SettingError
from runtime.messages import (
    Event,
    Finished,
    Generate,
    ImagePart,
    LoadModel,
    ModelInfo,
    ModelLoaded,
    ModelLoading,
    Part,
    Reuse,
    TextDelta,
    TextPart,
    Turn,
    Usage,
)
from runtime.sampling_params import SamplingRequest, ignored_penalties
from runtime.settings import add_arguments, layout_from_args, sampling_from_args

_JSON_HELP = """\
With --json each turn is an object with text, reason, usage, timings, tokens_per_second, model, device,
simulated, sampling, left_out, speculation, layout, and reuse: how its prompt met what was kept of the
conversation (null if the turn ended before that was known).

  reuse.reused           prompt tokens that were reused
  reuse.recomputed       prompt tokens that were computed
  reuse.held             tokens that the turn before had left
  reuse.cause            why no more was reused (null: all that could be was), such as new, edited, system,
                         template, image, layout, evicted, cheaper, rejected
  reuse.first_different  position (from 0) of the first prompt token that is not the one kept, or null
  reuse.token            its text
  reuse.turn             number (from 0) of the turn that changed, the system prompt counted, or null
  reuse.from_disk        whether what was reused was kept on the disk
  reuse.words            all of it in a sentence
"""


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Declare the command."""
    parser = subparsers.add_parser(
        "chat",
        help="answer one prompt",
        description="Answer one prompt, or several as one conversation.",
        epilog=_JSON_HELP,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("-m", "--model", required=True, help="an installed model's id, or a model folder")
    parser.add_argument(
        "-p",
        "--prompt",
        action="append",
        help="the prompt; without it, standard input is read. Given again, it is the next turn of the "
        "conversation",
    )
    parser.add_argument(
        "--image",
        action="append",
        type=Path,
        default=[],
        help="a picture (an image model) for the first prompt",
    )
    parser.add_argument("--system", default="", help="the system prompt")
    parser.add_argument("--trace", type=Path, help="record a trace here (.pftrace, .json or .json.gz)")
    parser.add_argument("--json", action="store_true", help="print one JSON document a turn, each on a line")
    add_arguments(parser, "sampling")
    add_arguments(parser, "layout")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Load the model, ask, print."""
    prompts = _prompts(args)
    turns = [Turn("system", (TextPart(args.system),))] if args.system else []
    pictures: tuple[Part, ...] = tuple(ImagePart(str(path)) for path in args.image)
    conversation_id = uuid.uuid4().hex
    sampling = sampling_from_args(args)
    config = config_for(args)
    model = choose_model(config, args.model)
    check_layout(layout_from_args(args), model.folder, config)
    layout = asked_layout(args)
    with Session(config) as session, recorded(session, config, args.trace):
        session.submit(LoadModel(model.model_id, str(model.folder), layout))
        info = session.wait_for(ModelLoaded, _say_loading).info
        _clear_line()
        for prompt in prompts:
            turns.append(Turn("user", (*pictures, TextPart(prompt))))
            text, finished = _ask(session, info, conversation_id, turns, sampling, show=not args.json)
            turns.append(Turn("assistant", (TextPart(text),)))
            pictures = ()
            if args.json:
                _write(json.dumps(_document(text, info, finished), ensure_ascii=False) + "\n")
            else:
                _write("\n")
                print(_summary(finished), file=sys.stderr)  # noqa: T201 - the command line's output
    return 0


def _prompts(args: argparse.Namespace) -> list[str]:
    prompts: list[str] = args.prompt or []
    if not prompts and sys.stdin is not None and not sys.stdin.isatty():  # None: it is closed
        prompts = [sys.stdin.read()]
    if not prompts or not all(prompt.strip() for prompt in prompts):
        raise SettingError("--prompt", "There is no prompt.", remedy='Give one with -p "…", or pipe it in.')
    return prompts


def _ask(
    session: Session,
    info: ModelInfo,
    conversation_id: str,
    turns: Sequence[Turn],
    sampling: SamplingRequest,
    *,
    show: bool,
) -> tuple[str, Finished]:
    """The answer to the last turn, and how it came out; `show` writes it as it comes."""
    request_id = uuid.uuid4().hex
    session.submit(
        Generate(request_id, conversation_id, info.model_id, tuple(turns), sampling, time.perf_counter_ns())
    )
    answer: list[str] = []

    def watch(event: Event) -> None:
        say_overdue(event)
        if isinstance(event, TextDelta):
            answer.append(event.text)
            if show:
                _write(event.text)

    with session.cancelling(request_id):
        finished = session.wait_for(Finished, watch)
    return "".join(answer), finished


def _say_loading(event: Event) -> None:
    if isinstance(event, ModelLoading) and sys.stderr.isatty():
        print(f"\r\x1b[K{event.stage}…", end="", file=sys.stderr, flush=True)  # noqa: T201


def _clear_line() -> None:
    if sys.stderr.isatty():
        print("\r\x1b[K", end="", file=sys.stderr, flush=True)  # noqa: T201


def _write(text: str) -> None:
    sys.stdout.write(text)
    sys.stdout.flush()


def _summary(finished: Finished) -> str:
    usage, timings = finished.usage, finished.timings
    rate = timings.tokens_per_second(usage.completion)
    more = [f"{finished.left_out} earlier turns left out"] if finished.left_out else []
    more += [speculation_words(finished.speculation)] if finished.speculation else []
    more += [f"not applied: {one.name} {one.value}" for one in ignored_penalties(finished.sampling)]
    return " · ".join(
        (
            "— tok/s" if rate is None else f"{rate:.1f} tok/s",
            f"first token {timings.first_token:.2f} s",
            f"{usage.completion} tokens",
            f"prompt {usage.prompt}: {usage.cached} reused, {usage.new} new",
            f"stopped: {finished.reason}",
            *more,
            finished.device,
        )
    )


def _document(text: str, info: ModelInfo, finished: Finished) -> dict[str, object]:
    return {
        "text": text,
        "reason": finished.reason,
        "usage": {**dataclasses.asdict(finished.usage), "new": finished.usage.new},
        "timings": dataclasses.asdict(finished.timings),
        "tokens_per_second": finished.timings.tokens_per_second(finished.usage.completion),
        "model": info.model_id,
        "device": info.device,
        "simulated": info.simulated,
        "sampling": {one.name: {"value": one.value, "source": one.source} for one in finished.sampling},
        "left_out": finished.left_out,
        "reuse": _reuse(finished.usage, finished.reuse) if finished.reuse else None,
        "speculation": dataclasses.asdict(finished.speculation) if finished.speculation else None,
        "layout": dataclasses.asdict(info.layout) if info.layout else None,
    }


def _reuse(usage: Usage, reuse: Reuse) -> dict[str, object]:
    """What `_JSON_HELP` says."""
    return {
        "reused": usage.cached,
        "recomputed": usage.new,
        **dataclasses.asdict(reuse),
        "words": reuse_words(usage, reuse),
    }
