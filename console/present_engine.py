"""The engine and the GPUs, in a few lines. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import PurePosixPath
from typing import TYPE_CHECKING

from rich.cells import cell_len
from rich.text import Text

from console import text
from console.view import View
from widgets.bars import sparkline
from widgets.card_value import CardValue
from widgets.tones import ACT, CURVE, DIM, GOOD, LOOK, STRONG, UNKNOWN

if TYPE_CHECKING:
    from console.model import Engine, Gpu, Snapshot

IDLE_PERCENT = 10
HOT_C = 88

HEALTH = {
    "healthy": ("●", "healthy", GOOD),
    "unhealthy": ("✗", "unhealthy", ACT),
    "loading": ("◌", "loading", LOOK),
    "down": ("✗", "down", ACT),
    "unknown": ("?", "not known", DIM),
}


def engine_card(view: View, history: Sequence[float | None] = (), inner: int = 52, lines: int = 4) -> CardValue:
    """The card of the main screen: the engine in two lines, the GPUs in the rest."""
    snapshot = view.snapshot
    if snapshot is None:
        return CardValue("engine and GPUs", (Text("not known yet", DIM),), not view.link.fresh)
    out = [engine_line(snapshot.engine), load_line(snapshot.engine, history)]
    out += gpu_lines(snapshot.gpus.rows, snapshot.gpus.detail, inner, lines - len(out), has_work(snapshot))
    return CardValue("engine and GPUs", tuple(out[:lines]), not view.link.fresh)


def has_work(snapshot: Snapshot) -> bool:
    """Whether anything should keep the GPUs busy: one that idles then is news, one that idles otherwise is not."""
    generator = snapshot.generator
    return bool((generator.running and not generator.paused) or snapshot.writers or snapshot.engine.running)


def health_words(engine: Engine) -> Text:
    """`● healthy`."""
    mark, words, tone = HEALTH.get(engine.health, ("?", engine.health, LOOK))
    return Text(f"{mark} {words}", tone)


def model_name(engine: Engine) -> str:
    """The served name, else the model's path, by its last part."""
    return PurePosixPath(engine.served_name or engine.model_path or "").name or UNKNOWN


def engine_line(engine: Engine) -> Text:
    """Version, health, model, and what is wrong with it."""
    out = Text("SGLang", no_wrap=True)
    if engine.version:
        out.append(f" {engine.version}")
    out.append(" ").append_text(health_words(engine))
    if engine.health in ("healthy", "loading"):
        out.append("  ").append(model_name(engine), ACT if engine.expected_model is False else "")
        if engine.expected_model is False:
            out.append(" NOT THE MODEL ASKED FOR", ACT)
    if engine.detail:
        out.append("  ").append(engine.detail, DIM if engine.health == "healthy" else LOOK)
    return out


def load_line(engine: Engine, history: Sequence[float | None] = ()) -> Text:
    """Requests, tokens a second with the last hour beside it, share of the KV cache."""
    out = Text(no_wrap=True)
    out.append(f"{text.count(engine.running)} running, {text.count(engine.queued)} queued")
    out.append("  ").append(f"{text.about(engine.tokens_s)} tok/s", STRONG if engine.tokens_s else "")
    if any(value is not None for value in history):
        out.append(" ").append(sparkline(history, 12), CURVE)
    usage = None if engine.token_usage is None else engine.token_usage * 100
    out.append("  ").append(f"KV {text.percent(usage, 100)}")
    return out


def gpu_lines(gpus: Sequence[Gpu], detail: str, inner: int, lines: int, has_work: bool) -> list[Text]:
    """The GPUs as two rows of figures, one column a GPU; a summary when they do not fit."""
    if lines < 1:
        return []
    if not gpus:
        return [Text(f"GPUs: {detail or 'not known'}", LOOK if detail else DIM)]
    if lines < 2 or 7 + 4 * len(gpus) > inner:
        return [Text("GPU ").append_text(gpu_summary(gpus, has_work))]
    busy, hot = Text("GPU %  ", no_wrap=True), Text("   °C  ", no_wrap=True)
    for gpu in gpus:
        busy.append(_figure(gpu.utilisation), _busy_tone(gpu, has_work))
        warm = gpu.temperature_c is not None and gpu.temperature_c >= HOT_C
        hot.append(_figure(gpu.temperature_c), ACT if warm else DIM)
    room = inner - busy.cell_len
    memory, power = f"  {_memory_words(gpus)}", f"  {_power_words(gpus)}"
    busy.append(memory if cell_len(memory) <= room else "", DIM)
    hot.append(power if cell_len(power) <= room else "", DIM)
    return [busy, hot]


def _figure(value: float | None) -> str:
    return f"{UNKNOWN if value is None else round(value):>3} "


def _memory_words(gpus: Sequence[Gpu]) -> str:
    used = [gpu.memory_used_bytes for gpu in gpus if gpu.memory_used_bytes is not None]
    return f"{round(sum(used) / len(used) / 2**30)} GiB each" if used else ""


def _power_words(gpus: Sequence[Gpu]) -> str:
    power = [gpu.power_w for gpu in gpus if gpu.power_w is not None]
    return f"{sum(power) / 1000:.2f} kW" if power else ""


def _idle(gpu: Gpu) -> bool:
    return gpu.utilisation is not None and gpu.utilisation < IDLE_PERCENT


def _busy_tone(gpu: Gpu, has_work: bool) -> str:
    return (LOOK if has_work else DIM) if _idle(gpu) else ""


def gpu_summary(gpus: Sequence[Gpu], has_work: bool) -> Text:
    """`8× 97 %`: how many and how busy on average; how many idle while there is work."""
    known = [gpu.utilisation for gpu in gpus if gpu.utilisation is not None]
    if not gpus:
        return Text(UNKNOWN, DIM)
    mean = sum(known) / len(known) if known else None
    idle = sum(map(_idle, gpus)) if has_work else 0
    out = Text(f"{len(gpus)}× ").append(text.percent(mean, 100), LOOK if idle else "")
    return out.append(f" ({idle} idle)", LOOK) if idle else out


def gpu_bar_lines(
    gpus: Sequence[Gpu], history: Sequence[Sequence[float | None]], width: int, has_work: bool
) -> list[Text]:
    """One line a GPU for the engine's screen: utilisation now and over time, memory, temperature, power."""
    out = []
    for place, gpu in enumerate(gpus):
        line = Text(no_wrap=True)
        line.append(f"{UNKNOWN if gpu.index is None else gpu.index:>3} ", STRONG)
        line.append(f"{text.percent(gpu.utilisation, 100):>6}", _busy_tone(gpu, has_work))
        used, total = gpu.memory_used_bytes, gpu.memory_total_bytes
        line.append(f"  {_gib(used):>4}/{_gib(total)} GiB")
        warm = UNKNOWN if gpu.temperature_c is None else f"{gpu.temperature_c:.0f}"
        power = UNKNOWN if gpu.power_w is None else f"{gpu.power_w:.0f}"
        line.append(f"  {warm:>3} °C  {power:>4} W  ")
        nights = history[place] if place < len(history) else ()
        line.append(sparkline(nights, max(0, width - line.cell_len), 100.0), CURVE)
        out.append(line)
    return out


def _gib(number_bytes: int | None) -> str:
    return UNKNOWN if number_bytes is None else f"{number_bytes / 2**30:.0f}"
