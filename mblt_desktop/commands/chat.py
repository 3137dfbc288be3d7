"""`mblt-desktop chat`: one answer, or one after the other in a conversation, on standard output."""

from __future__ import annotations

import argparse
import json
import sys
import time
import uuid
from collections.abc import Sequence
from pathlib import Path

from mblt_desktop.commands.answer_output import document, summary, write
from mblt_desktop.commands.each_image import ask_each, check_each
from mblt_desktop.commands.layout_notes import asked_layout
from mblt_desktop.commands.model_choice import choose_model
from mblt_desktop.commands.recording import recorded
from mblt_desktop.commands.start import check_layout, config_for, say_overdue
from mblt_desktop.session import Session
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
    TextDelta,
    TextPart,
    Turn,
)
from runtime.sampling.params import SamplingRequest
from runtime.settings.table import add_arguments, layout_from_args, sampling_from_args

_JSON_HELP = """\
With --json each turn, or with --each-image each picture, is an object with text, reason, usage, timings,
tokens_per_second, model, device, simulated, sampling, left_out, speculation, layout, and reuse: how its
prompt met what was kept of the conversation (null if the turn ended before that was known).

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

With --each-image the object also has image, the picture's path, and comes when it is complete. That of a
picture that failed has image and error only; the others are answered all the same, and the exit status is 1.
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
    parser.add_argument(
        "--each-image",
        action="store_true",
        help="ask the prompt about each picture by itself, several at once where the model can",
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
    check_each(args)
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
        if args.each_image:
            return ask_each(session, info, turns, prompts[0], args)
        for prompt in prompts:
            turns.append(Turn("user", (*pictures, TextPart(prompt))))
            text, finished = _ask(session, info, conversation_id, turns, sampling, show=not args.json)
            turns.append(Turn("assistant", (TextPart(text),)))
            pictures = ()
            if args.json:
                write(json.dumps(document(text, info, finished), ensure_ascii=False) + "\n")
            else:
                write("\n")
                print(summary(finished), file=sys.stderr)  # noqa: T201 - the command line's output
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
                write(event.text)

    with session.cancelling(request_id):
        finished = session.wait_for(Finished, watch)
    return "".join(answer), finished


def _say_loading(event: Event) -> None:
    if isinstance(event, ModelLoading) and sys.stderr.isatty():
        print(f"\r\x1b[K{event.stage}…", end="", file=sys.stderr, flush=True)  # noqa: T201


def _clear_line() -> None:
    if sys.stderr.isatty():
        print("\r\x1b[K", end="", file=sys.stderr, flush=True)  # noqa: T201
