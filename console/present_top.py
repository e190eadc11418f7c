"""The top line and the alert line: where one is, whether it is true now, and what is wrong. Pure."""

from __future__ import annotations

from rich.cells import cell_len
from rich.text import Text

from console import text
from console.present_engine import gpu_summary, has_work, health_words
from console.present_table import NARROW_BELOW, Width
from console.view import Alert, Level, LinkState, View
from widgets.tones import ACT, DIM, GOOD, LOOK, NOTE, STRONG

_STATES = {
    LinkState.CONNECTING: ("◌", "connecting", NOTE),
    LinkState.LIVE: ("●", "live", GOOD),
    LinkState.STALE: ("◌", "STALE", ACT),
    LinkState.RECONNECTING: ("◌", "STALE", ACT),
    LinkState.FAILED: ("✗", "NO LINK", ACT),
    LinkState.UNKNOWN_KEY: ("✗", "HOST KEY UNKNOWN", LOOK),
    LinkState.CHANGED_KEY: ("✗", "HOST KEY CHANGED", ACT),
    LinkState.CLOSED: ("○", "closed", DIM),
}
ROOMY = 100
LEVEL_TONES = {Level.CRITICAL: ACT, Level.WARNING: LOOK, Level.NOTE: NOTE}


def link_words(view: View) -> Text:
    """`● live 0.4 s`, or `◌ STALE 42 s`."""
    link = view.link
    mark, words, tone = _STATES[link.state]
    out = Text(f"{mark} {words}", tone)
    if link.age_s is not None and link.state in (LinkState.LIVE, LinkState.STALE, LinkState.RECONNECTING):
        out.append(f" {text.duration(link.age_s)}", tone if link.state is not LinkState.LIVE else DIM)
    return out


def host_name(view: View) -> str:
    """The container's own name, else the target as it was given."""
    snapshot = view.snapshot
    known = snapshot.host.hostname if snapshot is not None else None
    return known or view.link.target or "no target"


def top_line(view: View, columns: int, width: Width) -> Text:
    """The first line of every screen; what matters most survives the narrowest terminal."""
    if not view.link.fresh and view.link.state is not LinkState.CONNECTING:
        return _fit(columns, _parts_without_link(view, width))
    return _fit(columns, _parts_live(view, width))


def _parts_live(view: View, width: Width) -> list[tuple[int, Text]]:
    link, snapshot = view.link, view.snapshot
    parts: list[tuple[int, Text]] = []
    if width is Width.WIDE:
        parts.append((4, Text("eagle3-console", DIM)))
    parts.append((9, Text(host_name(view), STRONG)))
    if width is Width.WIDE and link.target and link.target != host_name(view):
        parts.append((5, Text(f"({link.target})", DIM)))
    parts.append((10, link_words(view)))
    if view.options.read_only:
        parts.append((8, Text("READ-ONLY", LOOK)))
    if snapshot is None:
        parts.append((6, Text(link.stage, DIM)))
        return parts
    if snapshot.hold is not None:
        parts.append((8, Text("HOLD", LOOK)))
    parts.append((6, _clock_words(view, width)))
    if width is Width.COMPACT:
        engine = Text("SGLang ").append_text(health_words(snapshot.engine).copy()[:1])
        if snapshot.engine.health != "healthy":
            engine = Text("SGLang ").append_text(health_words(snapshot.engine))
        elif snapshot.engine.tokens_s is not None:
            engine.append(f" {text.about(snapshot.engine.tokens_s)} tok/s")
        parts.append((5, engine))
        parts.append((4, Text("GPU ").append_text(gpu_summary(snapshot.gpus.rows, has_work(snapshot)))))
    elif width is Width.WIDE:
        parts.append((3, Text(short_path(snapshot.root), DIM)))
    return parts


def short_path(path: str) -> str:
    """A long path by its first and last part: `/data/…/prepared`."""
    parts = path.strip("/").split("/")
    return path if len(parts) <= 2 or len(path) <= 24 else f"/{parts[0]}/…/{parts[-1]}"


def _clock_words(view: View, width: Width) -> Text:
    words = f"{text.clock(view.container_now)} UTC"
    out = Text(f"container {words}" if width is Width.WIDE else words)
    skew = None if view.link.skew_s is None else round(view.link.skew_s, 1) + 0.0
    if skew is not None and (width is Width.WIDE or abs(skew) >= 30):
        out.append(f", {text.offset(skew)}", LOOK if abs(skew) >= 30 else DIM)
    return out


def _parts_without_link(view: View, width: Width) -> list[tuple[int, Text]]:
    link = view.link
    parts: list[tuple[int, Text]] = [(9, Text(host_name(view), STRONG)), (10, link_words(view))]
    if view.options.read_only:
        parts.append((4, Text("READ-ONLY", LOOK)))
    if link.last_seen_at is not None:
        seen = link.last_seen_at + (link.skew_s or 0.0)
        parts.append((6, Text(f"last seen {text.clock(seen)} UTC")))
    if link.next_try_at is not None:
        wait = text.duration(max(0.0, round(link.next_try_at - view.now)))
        parts.append((7, Text(f"next try in {wait} (try {link.attempt})")))
    elif link.state in (LinkState.RECONNECTING, LinkState.STALE):
        parts.append((7, Text("reconnecting" if link.state is LinkState.RECONNECTING else "waiting for an answer")))
    if link.error and view.snapshot is not None:
        parts.append((3, Text(link.error, DIM)))
    parts.append(
        (8, Text("R now" if link.state in (LinkState.STALE, LinkState.RECONNECTING) else "R tries again", STRONG))
    )
    return parts


def _fit(columns: int, parts: list[tuple[int, Text]]) -> Text:
    """Join the parts with gaps; the least important go first when there is no room."""
    room = columns - 2
    kept = list(parts)
    gap = 3 if columns >= ROOMY else 2

    def size() -> int:
        return sum(part.cell_len for _, part in kept) + gap * (len(kept) - 1)

    while len(kept) > 1 and size() > room:
        weakest = min(kept, key=lambda item: item[0])
        over = size() - room
        # A long text is cut before it is dropped, as long as enough of it stays to be read.
        if weakest[1].cell_len - over >= 12:
            cut = weakest[1].copy()
            cut.truncate(weakest[1].cell_len - over, overflow="ellipsis")
            kept[kept.index(weakest)] = (weakest[0], cut)
        else:
            kept.remove(weakest)
    return Text(" " * gap, no_wrap=True).join([part for _, part in kept])


def alert_lines(view: View, columns: int, most: int) -> list[Text]:
    """The loudest alerts in at most `most` lines: whole sentences where there is room, one line each where not."""
    head = [_link_alert(view)] if not view.link.fresh and view.snapshot is not None else []
    alerts = sorted(_open(view), key=lambda alert: (-alert.level.rank, alert.since))
    if not alerts and not head:
        return [_all_well(view)]
    room = most - len(head)
    whole = [alert_block(alert, view, columns) for alert in alerts]
    if sum(len(block) for block in whole) <= room:
        return head + [line for block in whole for line in block]
    if len(alerts) <= room:
        # Whole sentences for the first ones, as long as each of the rest keeps its line.
        out: list[Text] = []
        for at, block in enumerate(whole):
            rest = len(alerts) - at - 1
            fits = len(out) + len(block) + rest <= room
            out += block if fits else [alert_line(alerts[at], view, columns)]
        return head + out
    if room < 1:
        return head[:most]
    out = [alert_line(alert, view, columns) for alert in alerts[: max(1, room - 1)]]
    if room > 1:
        out.append(Text(f"  and {len(alerts) - len(out)} more: a shows them", DIM))
    return head + out


def lines_wanted(view: View, columns: int) -> int:
    """How many lines `alert_lines` would fill if it could."""
    head = 1 if not view.link.fresh and view.snapshot is not None else 0
    return max(1, head + sum(len(alert_block(alert, view, columns)) for alert in _open(view)))


def _open(view: View) -> list[Alert]:
    return [alert for alert in view.alerts if not alert.acked_by]


def _all_well(view: View) -> Text:
    if view.snapshot is None:
        return Text("")
    seen = len(view.alerts)
    return Text(f"✓ no alerts ({seen} seen)" if seen else "✓ no alerts", GOOD)


_LEVEL_WIDTH = max(len(level.value) for level in Level)


def _alert_head(alert: Alert, view: View, columns: int) -> Text:
    out = Text(no_wrap=True)
    mark = "▲" if alert.level is not Level.NOTE else "·"
    # Sentences begin in one column where there is room for that.
    word = alert.level.value.upper().ljust(_LEVEL_WIDTH if columns >= ROOMY else 0)
    out.append(f"{mark} {word} ", LEVEL_TONES[alert.level])
    since = text.moment(alert.since, view.container_now)
    if columns < NARROW_BELOW:
        since = text.age(view.age_s(alert.since))
    return out.append(f"{since}  ", DIM)


def alert_line(alert: Alert, view: View, columns: int) -> Text:
    """`▲ CRITICAL 03:01  sentence …   d`: one line, the key at its end."""
    out = _alert_head(alert, view, columns)
    hint = alert.press
    room = max(10, columns - 2 - out.cell_len - (cell_len(hint) + 2 if hint else 0))
    sentence = Text(alert.sentence)
    if sentence.cell_len > room:
        sentence.truncate(room, overflow="ellipsis")
    out.append_text(sentence)
    if hint:
        out.append(" " * max(2, columns - 2 - out.cell_len - cell_len(hint))).append(hint, STRONG)
    return out


def alert_block(alert: Alert, view: View, columns: int) -> list[Text]:
    """An alert in full: its sentence wrapped, and on the last line the key and what it does."""
    head = _alert_head(alert, view, columns)
    first, *more = text.wrap(alert.sentence, max(20, columns - 2 - head.cell_len))
    # Where lines are short, what follows begins at the left, or there would be more lines than words.
    indent = head.cell_len if columns >= ROOMY else 2
    more = text.wrap(" ".join(more), max(20, columns - 2 - indent)) if more else []
    lines = [head.append(first), *(Text(" " * indent + part) for part in more)]
    if alert.next_step:
        step = Text(" " * indent, no_wrap=True)
        step.append("→ ", DIM).append(f"{alert.press} " if alert.press else "", STRONG).append(alert.next_step)
        lines.append(step)
    return lines


def _link_alert(view: View) -> Text:
    snapshot = view.snapshot
    runs = snapshot is not None and (snapshot.generator.running or snapshot.writers)
    words = "What ran there runs on. " if runs else ""
    return Text.assemble(("▲ NO LINK  ", ACT), f"{words}These figures are {text.duration(view.link.age_s)} old.")
