"""The site of the documentation can be built, needs no other host, and shows its formulas and each public name."""

import functools
import importlib
import os
import re
import subprocess
import sys
import threading
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import numpy as np
import pytest
from view.chromium import started

for package in ("mkdocs", "material", "mathjax"):
    pytest.importorskip(package, reason="`make setup` installs it, colcon does not")

PYTHON = pytest.importorskip("scripts.docs_reference").PYTHON
ROOT = Path(__file__).resolve().parents[1]
WIDTH = 860  # minimum width of text on a screen of 1400 pixels [pixel]
LOADED = re.compile(  # files that a browser loads automatically
    r"""<(?:script|img|iframe|source)\b[^>]*?\bsrc=["']?([^"'\s>]+)|<link\b[^>]*?\bhref=["']?([^"'\s>]+)"""
    r"""|@import\s+(?:url\()?["']?([^"');\s]+)|\burl\(["']?([^"')]+)"""
)
ENTRY = re.compile(r'<h\d id="([^"]+)" class="doc doc-heading">')
FORMULAS = """(async () => {
  await MathJax.startup.promise;
  const all = selector => [...document.querySelectorAll(selector)];
  return {
    sources: all(".arithmatex").length, shown: all("mjx-container").length,
    errors: all("mjx-merror").map(part => part.innerText),
    wide: all("div.arithmatex").filter(part => part.scrollWidth > part.clientWidth + 1).length,
  };
})()"""


class Quiet(SimpleHTTPRequestHandler):
    def log_message(self, *_):
        pass


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(folder)]
    quiet = {**os.environ, "NO_MKDOCS_2_WARNING": "1"}
    built = subprocess.run(command, cwd=ROOT, env=quiet, capture_output=True, text=True, timeout=300.0, check=False)
    assert built.returncode == 0, built.stdout + built.stderr
    return folder


@pytest.fixture(scope="module")
def served(site):
    server = ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Quiet, directory=str(site)))
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()
    thread.join()


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    with started(tmp_path_factory.mktemp("chromium"), (1400, 900)) as browser:
        yield browser


def opened(browser, address):
    browser.open(address)
    browser.wait_until(lambda: browser.value("[document.readyState, location.href]") == ["complete", address])
    return browser


def test_site_loads_nothing_from_other_hosts(site):
    texts = [path for path in site.rglob("*") if path.suffix in (".html", ".css")]
    loaded = {
        (path.name, address)
        for path in texts
        for found in LOADED.findall(path.read_text(encoding="utf-8"))
        for address in found
        if re.match(r"(https?:)?//", address)
    }
    assert loaded == set()
    assert len(texts) > 100


@pytest.mark.parametrize("index", PYTHON)
def test_each_public_name_has_an_entry_with_text(site, index):
    package, folder = PYTHON[index], site / index.removesuffix(".md")
    pages = {page: page.read_text(encoding="utf-8") for page in folder.glob("*.html")}
    entries = {name for text in pages.values() for name in ENTRY.findall(text)}
    assert {f"{package}.{name}" for name in importlib.import_module(package).__all__} <= entries
    empty = [name for text in pages.values() for name in ENTRY.findall(text) if not _text_of(text, name)]
    assert empty == []


def _text_of(page, name):
    """Return the text of an entry without its nested entries."""
    contents = page.partition(f'id="{name}" class="doc doc-heading"')[2].partition('<div class="doc doc-contents')[2]
    own = re.split(r'<div class="doc doc-object|<h\d id=', contents.partition(">")[2])[0]
    return re.sub(r"<[^>]*>|\s", "", own)


def test_each_formula_is_shown_within_the_text(site, served, browser):
    pages = [path for path in site.rglob("*.html") if 'class="arithmatex"' in path.read_text(encoding="utf-8")]
    assert len(pages) > 5
    for page in pages:
        opened(browser, f"{served}/{page.relative_to(site).as_posix()}")
        formulas = browser.value(FORMULAS)
        assert formulas["shown"] == formulas["sources"] > 0, page
        assert (formulas["errors"], formulas["wide"]) == ([], 0), page


@pytest.mark.parametrize(
    "page", ["explanation/updates.html", "benchmarks/solvers.html", "reference/python/ik/Sampler.html"]
)
def test_text_is_wide_search_stays_in_view_and_hosts_are_ours(served, browser, page):
    opened(browser, f"{served}/{page}")
    width = browser.value("document.querySelector('.md-content__inner').getBoundingClientRect().width")
    assert width >= WIDTH
    browser.value("scrollTo(0, 2000)")
    browser.wait_until(lambda: browser.value("scrollY") > 500)
    top, bottom = browser.value(
        "(box => [box.top, box.bottom])(document.querySelector('.md-search__input').getBoundingClientRect())"
    )
    assert 0 <= top < bottom < 100
    hosts = browser.value("[...new Set(performance.getEntriesByType('resource').map(one => new URL(one.name).origin))]")
    assert hosts == [served]


def test_values_in_tables_are_not_wrapped(served, browser):
    opened(browser, f"{served}/benchmarks/solvers.html")
    lines = "cell => cell.getBoundingClientRect().height / parseFloat(getComputedStyle(cell).lineHeight)"
    heights = browser.value(f"[...document.querySelectorAll('td.value')].map({lines})")
    assert len(heights) > 100
    # a cell has the height of one line with padding, or of a long name in its row
    assert np.median(heights) < 2.5


def test_figures_lead_to_their_full_size(site):
    text = (site / "benchmarks/solvers.html").read_text(encoding="utf-8")
    assert re.search(r'<a class="figure" href="([^"]+)"><img [^>]*src="\1"', text)
