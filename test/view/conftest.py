"""A browser for the tests of the page; without a browser, they are skipped with a reason."""

import pytest
from view.chromium import started


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    with started(tmp_path_factory.mktemp("chromium"), (760, 460)) as browser:
        yield browser
