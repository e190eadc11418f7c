"""`make screenshots`: the console in a real Chromium, on a fresh stand-in container, as screenshots/serve.png.

The one picture that is not made from a recording: it shows that the browser is a real one, so it differs each time.
"""

from __future__ import annotations

import asyncio
import signal
import sys
import tempfile
import threading
from pathlib import Path

from console.demo import container
from tests.support.browser import chromium
from tests.support.cli import REPO, start_console, wait_until
from tests.support.needs import find
from tests.support.sshd import free_port

PICTURE = REPO / "screenshots" / "serve.png"


async def draw(address: str, folder: Path) -> None:
    """Open the page, wait for the table and the alert, and keep what is seen."""
    async with chromium(folder / "profile", (1240, 740)) as page:
        await page.ask("Page.navigate", url=address)
        await page.until(b"needless")
        await page.until_true("document.body.className.includes('-first-byte')")
        await page.ask("Runtime.evaluate", expression="new Promise(done => setTimeout(done, 2000))", awaitPromise=True)
        await page.picture(PICTURE)


def main() -> int:
    """Make it; without Chromium the one that is there stays."""
    if find("chromium") is None:
        print("screenshots/serve.png is left as it is: no chromium (apt-get install chromium)")
        return 0
    with tempfile.TemporaryDirectory() as name:
        home = Path(name)
        state = home / "state" / "eagle3-console" / "demo"
        container.start(state)
        port = free_port()
        serve = start_console("serve", "demo", "--port", str(port), home=home)
        said: list[str] = []
        threading.Thread(target=said.extend, args=(serve.stderr,), daemon=True).start()
        try:
            wait_until(lambda: any("exposed" in line for line in said), 60, "it serves")
            asyncio.run(draw(f"http://127.0.0.1:{port}", home))
        finally:
            serve.send_signal(signal.SIGTERM)
            serve.wait(20)
            container.stop(state)
    print(f"made {PICTURE.relative_to(REPO)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
