"""What a launch by hand must be stopped by before anything is started: a hold, and somebody else who writes.

The console runs the whole preflight before its launch; the generator itself refuses a missing
library, a tokenizer that does not load, a held lock and another model.
"""

from __future__ import annotations

from remote import audit, figures
from remote.errors import OperatorError
from remote.layout import Layout
from remote.options import Options
from remote.text import clean
from remote.writers import find_writers


def refuse_at_launch(layout: Layout, options: Options, now: float) -> None:
    """Raise OperatorError (`hold`, `writers`) unless `--accept` names it. `now` in Unix seconds."""
    hold = None if "hold" in options.accept else audit.read_hold(layout, now)
    if hold is not None:
        by = f" by {clean(hold['by'], 80)}" if hold.get("by") else ""
        until = f" until {figures.moment(hold['until'], now)} UTC" if hold.get("until") else ""
        raise OperatorError(
            "hold",
            f"a hold{by}{until}: {clean(hold.get('reason'), 200)}",
            "wait, lift it, or repeat with --accept hold",
        )
    writers = [] if "writers" in options.accept else find_writers(layout)
    if writers:
        named = "; ".join(f"pid {writer.pid} ({clean(' '.join(writer.argv), 120)})" for writer in writers)
        raise OperatorError(
            "writers",
            f"somebody else writes under {layout.root}: {named}",
            f"stop it first: kill {' '.join(str(writer.pid) for writer in writers)}",
        )
