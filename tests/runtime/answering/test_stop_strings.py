"""Stop strings: never shown, never eating what is not one, wherever the pieces are cut."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from runtime.answering.stop_strings import StopStrings


def feed(pieces: list[str], stops: list[str]) -> tuple[str, str | None]:
    watch = StopStrings(stops)
    shown = ""
    for piece in pieces:
        shown += watch.push(piece)
        if watch.hit is not None:
            return shown, watch.hit
    return shown + watch.finish(), watch.hit


@given(st.text("ab", max_size=30), st.lists(st.text("ab", min_size=1, max_size=4), max_size=3), st.data())
def test_cuts_do_not_matter(text: str, stops: list[str], data: st.DataObject) -> None:
    cuts = sorted(data.draw(st.lists(st.integers(0, len(text)), max_size=6)))
    pieces = [text[start:end] for start, end in zip([0, *cuts], [*cuts, len(text)], strict=True)]
    shown, hit = feed(pieces, stops)
    ends = [text.find(stop) + len(stop) for stop in stops if stop in text]
    if not ends:
        assert (shown, hit) == (text, None)
    else:
        assert hit in stops
        assert text.startswith(shown + str(hit))
        assert not any(stop in shown for stop in stops)


@given(st.text("ab", max_size=30), st.lists(st.text("ab", min_size=1, max_size=4), max_size=3), st.data())
def test_a_stop_string_counts_where_it_ends(text: str, stops: list[str], data: st.DataObject) -> None:
    """As in vLLM: one that ends within the shortest answer is text, one that only begins there is met."""
    least = data.draw(st.integers(0, len(text)))
    watch, shown = StopStrings(stops), ""
    for place, letter in enumerate(text):
        shown += watch.push(letter, counts=place >= least)
        if watch.hit is not None:
            break
    shown += watch.finish()
    met = [
        (end, end - len(stop))
        for stop in stops
        for end in range(len(stop), len(text) + 1)
        if text[:end].endswith(stop) and end > least
    ]
    if not met:
        assert (shown, watch.hit) == (text, None)
    else:
        first = min(end for end, _ in met)
        assert shown == text[: min(start for end, start in met if end == first)]


def test_what_may_become_a_stop_string_waits() -> None:
    watch = StopStrings(["</end>"])
    assert watch.push("ok </e") == "ok "
    assert watch.push("m>") == "</em>"
    assert watch.push("</end>") == ""
    assert watch.hit == "</end>"
