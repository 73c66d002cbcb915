"""Browser for the tests of the page. Without a browser, these tests are skipped with a reason."""

import pytest
from view.chromium import started


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    with started(tmp_path_factory.mktemp("chromium"), (760, 460)) as browser:
        yield browser
