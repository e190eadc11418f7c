"""The application: themes, signals, crash text, and views handed to the screens. What is seen is in `screens/`."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Awaitable, Callable, Iterable, Sequence
from pathlib import Path
from typing import ClassVar

from rich.text import Text
from textual.app import SystemCommand
from textual.binding import Binding, BindingType
from textual.filter import LineFilter, Monochrome, NoColor
from textual.message import Message
from textual.screen import Screen

from console.ascii_filter import AsciiFilter, wants_ascii
from console.calling import Caller
from console.colors import Colors, FewColors, wanted_colors
from console.crash import crash_text
from console.desk import Desk
from console.keys import EVERYWHERE, Key, bindings
from console.observed import Observed, observe
from console.opening import opening_desk
from console.screens.base import ConsoleScreen
from console.screens.dialog import Dialog
from console.screens.main import MainScreen
from console.terminal import GONE_EXIT_CODE, last_line, last_resort, on_signals, terminal_gone
from console.themed_app import ThemedApp
from console.themes import DARK_PALETTE, LIGHT_PALETTE
from console.view import LinkState
from remote.errors import OperatorError
from remote.options import Options
from remote.text import clean

TERMINAL_WATCH_S = 1.0
CLOSE_DEADLINE_S = 1.0
OpenDesk = Callable[[], Awaitable[Desk]]


class ConsoleApp(ThemedApp):
    """Paints first, then asks `open_desk` for the controller and the actions.

    `open_desk` imports what is slow (the SSH library) and raises OperatorError when there is no
    target to open. With a `desk` given instead, that one is used from the start.
    """

    CSS_PATH = Path(__file__).with_name("console.tcss")
    TITLE = "eagle3-console"
    ENABLE_COMMAND_PALETTE = True
    BINDINGS: ClassVar[list[BindingType]] = [
        *bindings(*EVERYWHERE),
        Binding("ctrl+c", "leave", "Leave", show=False, priority=True, system=True),
        Binding("ctrl+q", "leave", "Leave", show=False, system=True),
    ]

    class Viewed(Message):
        """There is a new view."""

        def can_replace(self, message: Message) -> bool:
            return isinstance(message, ConsoleApp.Viewed)

    def __init__(
        self,
        target: str = "",
        options: Options | None = None,
        open_desk: OpenDesk | None = None,
        *,
        desk: Desk | None = None,
        ascii_only: bool | None = None,
        colors: Colors | None = None,
    ) -> None:
        self._ascii = AsciiFilter(wants_ascii() if ascii_only is None else ascii_only)
        self._colors = wanted_colors() if colors is None else colors
        super().__init__()
        self._few = [FewColors((DARK_PALETTE, LIGHT_PALETTE))] if self._colors is Colors.FEW else [NoColor()]
        # Without backgrounds what is chosen is told by reverse video: see console.tcss.
        self.set_class(self._colors is not Colors.FULL, "-few-colors")
        self.desk = desk or opening_desk(target, options or Options(), 0.0)
        self.desk.ascii_only = self._ascii.enabled
        self._open_desk = open_desk
        self._unsubscribe: Callable[[], None] = lambda: None
        self._asked_key, self._caller = "", Caller()
        self._switching = asyncio.Lock()

    def get_line_filters(self) -> Sequence[LineFilter]:
        full = [item for item in super().get_line_filters() if not isinstance(item, Monochrome)]
        filters: list[LineFilter] = full if self._colors is Colors.FULL else list(self._few)
        return [*filters, self._ascii] if self._ascii.enabled else filters

    def get_default_screen(self) -> Screen[None]:
        return MainScreen(self.desk)

    def on_mount(self) -> None:
        """Take over the signals; open the desk once something is painted."""
        on_signals(self.leave_with)
        self.set_interval(TERMINAL_WATCH_S, self._watch_terminal)
        self._watch_desk()
        self.call_after_refresh(self._open)

    def _open(self) -> None:
        if self._open_desk is not None:
            self.run_worker(self._open_now(self._open_desk), name="open", group="open", exit_on_error=False)

    async def _open_now(self, open_desk: OpenDesk) -> None:
        try:
            made = await open_desk()
        except OperatorError as error:
            self.exit(int(error.exit_code), return_code=int(error.exit_code), message=Text(f"eagle3-console: {error}"))
            return
        except Exception as error:
            # A worker's error would end in silence here.
            self._handle_exception(error)
            return
        # Screens hold the desk: it is filled, not replaced.
        self.desk.operations, self.desk.targets, self.desk.clock = made.operations, made.targets, made.clock
        self.use(made)

    def use(self, made: Desk) -> None:
        """Look at another controller from now on."""
        self.desk.controller, self.desk.budget = made.controller, made.budget
        self._asked_key = ""
        self._watch_desk()
        if self.desk.targets is not None and not self.desk.targets.rows():
            from console.screens.first_run import FirstRunScreen

            self.push_screen(FirstRunScreen(self.desk))

    def _watch_desk(self) -> None:
        self._unsubscribe()
        self._unsubscribe = self.desk.controller.subscribe(lambda view: self._viewed())
        self._viewed()

    def _viewed(self) -> None:
        self.post_message(self.Viewed())

    def on_console_app_viewed(self) -> None:
        """Hand the latest view to the screens; a key that nobody knows yet is asked about."""
        self.desk.observed = observe(self.desk.observed, self.desk.view)
        self._caller.call(self, self.desk.view)
        for screen in self.screen_stack:
            if isinstance(screen, ConsoleScreen):
                screen.refresh_view()
        link = self.desk.view.link
        if link.state is LinkState.UNKNOWN_KEY and link.error != self._asked_key and not self._in_dialog():
            self._asked_key = link.error
            from console.screens.hostkey import HostKeyDialog

            self.push_screen(HostKeyDialog(self.desk))

    def _in_dialog(self) -> bool:
        return isinstance(self.screen, Dialog)

    def switch_target(self, name: str) -> None:
        """Show another target; the one before stays connected."""
        # A worker of the app: the screen that asks for it is one of those that go.
        self.run_worker(self._switch(name), name="switch", group="switch", exit_on_error=False)

    async def _switch(self, name: str) -> None:
        targets = self.desk.targets
        if targets is None:
            return
        # One after the other, never one cancelled by the next: Textual's app does not outlive a cancelled pop_screen.
        async with self._switching:
            try:
                controller = await targets.switch(name)
            except OperatorError as error:
                self.notify(clean(error, 300), severity="error", markup=False)
                return
            while len(self.screen_stack) > 1:
                await self.pop_screen()
            self.desk.controller, self.desk.budget, self.desk.observed = controller, None, Observed()
            self._asked_key = ""
            self._watch_desk()

    def action_leave(self) -> None:
        """Leave; a selection is copied instead, as ctrl+c does everywhere. Nothing remote stops."""
        selected = self.screen.get_selected_text()
        if selected:
            self.copy_to_clipboard(selected)
            self.screen.clear_selection()
        else:
            self.exit(0)

    def leave_with(self, code: int) -> None:
        """Leave because of a signal or a lost terminal."""
        last_resort(code)
        self.exit(code, return_code=code)

    def _watch_terminal(self) -> None:
        if not self.is_headless and terminal_gone():
            self.leave_with(GONE_EXIT_CODE)

    async def on_unmount(self) -> None:
        """Close the links; a dead one does not hold the operator up."""
        self._unsubscribe()
        try:
            async with asyncio.timeout(CLOSE_DEADLINE_S):
                await (self.desk.targets or self.desk.controller).close()
        except TimeoutError:
            return

    def action_help(self) -> None:
        """Help for the screen one is on."""
        from console.screens.help import HelpScreen

        screen = self.screen
        if isinstance(screen, ConsoleScreen) and not isinstance(screen, HelpScreen):
            place = type(screen).__name__.removesuffix("Screen").lower()
            self.push_screen(HelpScreen(self.desk, place, screen.KEYS, screen.help_words()))

    def action_reconnect(self) -> None:
        """Try to reconnect now."""
        self._asked_key = ""
        self.desk.controller.reconnect_now()

    def get_system_commands(self, screen: Screen[object]) -> Iterable[SystemCommand]:
        """The palette is the key table: what works here, and what works everywhere."""
        own: Sequence[Key] = screen.KEYS if isinstance(screen, ConsoleScreen) else ()
        for key in (*own, *EVERYWHERE):
            if key.action != "command_palette" and screen.check_action(key.action, ()):
                title, _, more = key.help.partition(": ")
                yield SystemCommand(f"{title}  {key.shown}", more, lambda key=key: self._run_key(screen, key))

    async def _run_key(self, screen: Screen[object], key: Key) -> None:
        await self.run_action(key.action, self if key in EVERYWHERE else screen)

    def _handle_exception(self, error: Exception) -> None:
        # Private to Textual 8: its own text prints local variables, which may hold secrets.
        self._return_code = 1
        if self._exception is None:
            self._exception = error
            self._exception_event.set()
        self.panic(Text(crash_text(error)))


def run_app(app: ConsoleApp) -> int:
    """Run until the operator leaves; print what runs on; the exit code of the process."""
    code = app.run()
    failed = app.return_code or 0
    if failed in (0, None) and sys.stdout.isatty():
        print(last_line(app.desk.view))
    return failed or code or 0
