"""What the documentation shows runs: the Python of a page, from its top to its end."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
PAGES = ["docs/collisions.md", "docs/from_scikit_learn.md", "docs/from_zuko.md", "docs/viewer.md", "README.md"]
BLOCK = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def blocks(page: str) -> list[str]:
    return BLOCK.findall((ROOT / page).read_text(encoding="utf-8"))


@pytest.mark.parametrize("page", PAGES)
def test_python_of_the_page_runs(page, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    found, namespace = blocks(page), {"__name__": "__main__"}
    assert found
    for block in found:
        if "import rclpy" in block:
            continue  # it asks a running server
        if "from sklearn" in block:
            pytest.importorskip("sklearn")
        exec(compile(block, page, "exec"), namespace)
    assert capsys.readouterr().out
