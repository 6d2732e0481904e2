"""The site: it builds without a warning, has a page for each public name, and works in a browser:
every page opens, every internal link leads somewhere, the search finds, the console stays empty.

The browser is Chromium, told what to do over its DevTools protocol.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import http.server
import inspect
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import threading
import urllib.parse
import urllib.request
from collections.abc import Callable, Iterator
from typing import Any

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "chrome"))), None)

pytestmark = pytest.mark.skipif(
    os.environ.get("NUMBA_ENABLE_CUDASIM") == "1", reason="nothing here is simulated"
)


@pytest.fixture(scope="module")
def reference(monkeypatch_module: pytest.MonkeyPatch) -> Any:
    """docs/reference.py."""
    monkeypatch_module.syspath_prepend(str(DOCS))
    import reference

    return reference


@pytest.fixture(scope="module")
def monkeypatch_module() -> Iterator[pytest.MonkeyPatch]:
    with pytest.MonkeyPatch.context() as patch:
        yield patch


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    """The site, built as `make docs` builds it: a warning is an error."""
    for name in ("sphinx", "pydata_sphinx_theme", "numpydoc", "myst_nb"):
        pytest.importorskip(name)
    out = tmp_path_factory.mktemp("site")
    options = ["-q", "-W", "--keep-going", "-b", "html", "-d", str(out / "doctrees")]
    done = subprocess.run(
        [sys.executable, "-m", "sphinx", *options, str(DOCS), str(out / "html")],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=900,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return out / "html"


def test_every_public_name_stands_in_one_chapter(reference: Any) -> None:
    """Of the root and of each public module, whatever other builders add: the chapters are made
    from the package, and a file without a chapter is an error."""
    import cudamath as cm

    names = [page.full for pages in reference.chapters().values() for page in pages]
    assert len(names) == len(set(names)) > 800
    for name in reference.public_names(cm):
        if not inspect.ismodule(getattr(cm, name)):
            assert f"cudamath.{name}" in names
    for space in ("ml", "linalg", "fft", "random", "distributed", "ml.init"):
        module = functools.reduce(getattr, space.split("."), cm)
        for name in getattr(module, "__all__", dir(module)):
            if not name.startswith("_") and not inspect.ismodule(getattr(module, name)):
                assert f"cudamath.{space}.{name}" in names


def test_plain_text_is_shown_as_it_is_written(reference: Any) -> None:
    text = ["The sum |x| of a * b.", "", "name_ and `a * b`", "", "    y = a *", "        b", "End"]
    assert reference.markup(text) == [
        r"The sum \|x\| of a \* b.",
        "",
        r"name\_ and `a * b`",
        "",
        *["", "::", ""],
        "    y = a *",
        "        b",
        "",
        "End",
    ]


@pytest.mark.slow
def test_every_public_name_has_a_page(site: pathlib.Path, reference: Any) -> None:
    for pages in reference.chapters().values():
        for page in filter(lambda page: reference.is_ours(page.item), pages):
            html = (site / "api" / f"{page.full}.html").read_text(encoding="utf-8")
            assert f'id="{page.full}"' in html or inspect.isclass(page.item), page.full
            if inspect.isfunction(page.item) and ">>>" in (inspect.getdoc(page.item) or ""):
                assert "Examples" in html and "&gt;&gt;&gt;" in html, page.full


# -------------------- a browser


class Browser:
    """A headless Chromium with one tab."""

    def __init__(self, process: subprocess.Popen[str], socket: Any):
        self.process, self.socket = process, socket
        self.count, self.events = 0, []  # type: ignore[var-annotated]

    async def send(self, method: str, **params: Any) -> dict[str, Any]:
        """A command of the protocol and its answer; events that come between are kept."""
        self.count += 1
        number = self.count
        await self.socket.write_message(
            json.dumps({"id": number, "method": method, "params": params})
        )
        while True:
            message = json.loads(await asyncio.wait_for(self.socket.read_message(), 60))
            if message.get("id") == number:
                assert "error" not in message, message
                return message["result"]
            self.events.append(message)

    async def wait_for(self, method: str) -> None:
        """Until this event has come since `events` was emptied."""
        while not any(event["method"] == method for event in self.events):
            self.events.append(json.loads(await asyncio.wait_for(self.socket.read_message(), 60)))

    async def visit(self, url: str) -> list[str]:
        """Open a page; what went wrong: console, scripts, requests, and requests to elsewhere."""
        self.events.clear()
        await self.send("Page.navigate", url=url)
        await self.wait_for("Page.loadEventFired")
        return complaints(self.events, url)

    async def value(self, expression: str) -> Any:
        """The value of an expression of the page."""
        found = await self.send("Runtime.evaluate", expression=expression, returnByValue=True)
        return found["result"].get("value")

    async def until(self, expression: str) -> Any:
        """The value of an expression of the page, once it is true."""
        for _ in range(200):
            if value := await self.value(expression):
                return value
            await asyncio.sleep(0.05)
        raise AssertionError(f"never true: {expression}")


def complaints(events: list[dict[str, Any]], url: str) -> list[str]:
    """What a browser's events say went wrong on a page."""
    found = []
    for event in events:
        method, params = event["method"], event["params"]
        if method == "Runtime.exceptionThrown":
            found.append(f"{url}: {params['exceptionDetails']['text']}")
        elif method == "Runtime.consoleAPICalled" and params["type"] in ("error", "warning"):
            found.append(f"{url}: console: {params['args']}")
        elif method == "Log.entryAdded" and params["entry"]["level"] in ("error", "warning"):
            found.append(f"{url}: {params['entry']['text']} {params['entry'].get('url')}")
        elif method == "Network.responseReceived" and params["response"]["status"] >= 400:
            found.append(f"{url}: {params['response']['url']}: {params['response']['status']}")
        elif method == "Network.requestWillBeSent":
            asked = urllib.parse.urlsplit(params["request"]["url"])
            if asked.scheme in ("http", "https") and asked.hostname != "127.0.0.1":
                found.append(f"{url} asks the network for {params['request']['url']}")
    return found


@contextlib.asynccontextmanager
async def browsing(profile: pathlib.Path) -> Any:
    """A browser, started and ended."""
    from tornado.websocket import websocket_connect

    options = ["--headless", "--no-sandbox", "--disable-gpu", "--remote-debugging-port=0"]
    process = subprocess.Popen(
        [str(CHROMIUM), *options, f"--user-data-dir={profile}", "about:blank"],
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stderr is not None
        lines = iter(process.stderr.readline, "")
        port = next(found[1] for line in lines if (found := re.search(r"ws://[^:]+:(\d+)/", line)))
        threading.Thread(target=lambda: [*lines], daemon=True).start()
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/json") as answer:
            tab = next(each for each in json.load(answer) if each["type"] == "page")
        socket = await websocket_connect(tab["webSocketDebuggerUrl"], max_message_size=1 << 28)
        browser = Browser(process, socket)
        for domain in ("Page", "Runtime", "Log", "Network"):
            await browser.send(f"{domain}.enable")
        yield browser
    finally:
        process.kill()
        process.wait()


@contextlib.contextmanager
def served(folder: pathlib.Path) -> Iterator[str]:
    """The address at which a folder is served."""

    class Quiet(http.server.SimpleHTTPRequestHandler):
        def log_message(self, *_: Any) -> None:
            pass

    handler = functools.partial(Quiet, directory=str(folder))
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/"
    finally:
        server.shutdown()


def in_browser(site: pathlib.Path, profile: pathlib.Path, act: Callable[..., Any]) -> None:
    if CHROMIUM is None:
        pytest.skip("Chromium is not installed")
    pytest.importorskip("tornado")

    async def run() -> None:
        with served(site) as address:
            async with browsing(profile) as browser:
                await act(browser, address)

    asyncio.run(run())


@pytest.mark.slow
def test_search(site: pathlib.Path, tmp_path: pathlib.Path) -> None:
    """What is typed into the search leads to the page of a function, by a click."""

    async def act(browser: Browser, address: str) -> None:
        assert await browser.visit(f"{address}search.html?q=cross_entropy") == []
        first = "document.querySelector('#search-results li a')"
        assert "api/cudamath.ml.cross_entropy" in await browser.until(f"{first} && {first}.href")
        browser.events.clear()
        await browser.value(f"{first}.click()")
        await browser.wait_for("Page.loadEventFired")
        assert complaints(browser.events, "search") == []
        title = await browser.until("document.querySelector('h1') && document.title")
        assert "cross_entropy" in title
        assert await browser.visit(f"{address}search.html?q=nosuchwordanywhere") == []
        shown = "document.querySelector('#search-results').innerText.includes('did not match')"
        assert await browser.until(shown)

    in_browser(site, tmp_path, act)


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_every_link_is_followed(site: pathlib.Path, tmp_path: pathlib.Path) -> None:
    """From the first page on, to each page and each place in it."""
    page = """JSON.stringify({
        links: [...document.links].map(a => a.href),
        ids: [...document.querySelectorAll('[id]')].map(e => e.id),
        height: document.body.scrollHeight,
        pictures: [...document.images].filter(i => i.complete && !i.naturalWidth).length,
    })"""

    async def act(browser: Browser, address: str) -> None:
        found, ids, wanted = [], {}, []  # type: ignore[var-annotated]
        queue, seen = [f"{address}index.html"], {f"{address}index.html"}
        while queue:
            url = queue.pop()
            found += await browser.visit(url)
            about = json.loads(await browser.value(page))
            ids[url] = set(about["ids"])
            if about["pictures"] or about["height"] < 100:
                found.append(f"{url}: {about['pictures']} pictures missing, {about['height']} px")
            for link in map(urllib.parse.urldefrag, about["links"]):
                if not link.url.startswith(address):
                    continue
                if not link.url.endswith(".html"):  # a file to be kept, no page
                    name = urllib.parse.unquote(link.url.removeprefix(address))
                    if not (site / name).exists():
                        found.append(f"{url}: {link.url} is not there")
                    continue
                wanted.append((url, link.url, urllib.parse.unquote(link.fragment)))
                if link.url not in seen:
                    seen.add(link.url)
                    queue.append(link.url)
        for url, target, place in wanted:
            if place and place not in ids[target]:
                found.append(f"{url}: {target} has no {place}")
        assert found == []
        built = {path.relative_to(site).as_posix() for path in site.rglob("*.html")}
        reached = {url.removeprefix(address) for url in seen}
        assert {name for name in built if not name.startswith("_")} - reached <= {
            "search.html",
            "genindex.html",
        }

    in_browser(site, tmp_path, act)
