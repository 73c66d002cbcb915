"""A browser for the tests of the page; where there is none they are skipped, with the reason."""

import pytest
from view.chromium import NAMES, Browser, chromium_path


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    program = chromium_path()
    if program is None:
        pytest.skip(f"no browser: none of {', '.join(NAMES)} is installed (Debian: apt install chromium)")
    browser = Browser(program, tmp_path_factory.mktemp("chromium"), size=(760, 460))
    yield browser
    browser.close()
