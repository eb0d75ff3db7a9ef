"""Write docs/tutorials/figure.ipynb, the first tutorial as a notebook: python scripts/notebook.py."""

import json
import re
from pathlib import Path
from typing import Any

PAGE = Path(__file__).resolve().parents[1] / "docs" / "tutorials" / "figure.md"
NOTEBOOK = PAGE.with_suffix(".ipynb")
_BLOCK = re.compile(r"(?:<!--[^>]*-->\n)?^```([\w{}]+)\n(.*?)^```\n", flags=re.MULTILINE | re.DOTALL)


def notebook(page: str) -> str:
    """Return a page as a notebook with its text and its commands, without their output."""
    cells, end = [], 0
    for block in _BLOCK.finditer(page):
        cells.append(_cell("markdown", page[end : block.start()]))
        if block[1] == "bash":
            commands = [f"!{line}" for line in block[2].splitlines() if line]
            cells.append(_cell("code", "\n".join(commands)))
        end = block.end()
    cells.append(_cell("markdown", page[end:]))
    kept = [cell | {"id": f"cell-{number}"} for number, cell in enumerate(cells) if cell["source"]]
    kernel = {"display_name": "Python 3", "language": "python", "name": "python3"}
    content = {"cells": kept, "metadata": {"kernelspec": kernel}, "nbformat": 4, "nbformat_minor": 5}
    return json.dumps(content, indent=1, ensure_ascii=False) + "\n"


def _cell(kind: str, text: str) -> dict[str, Any]:
    code = {"execution_count": None, "outputs": []} if kind == "code" else {}
    return {"cell_type": kind, "metadata": {}, "source": text.strip().splitlines(keepends=True)} | code


if __name__ == "__main__":
    NOTEBOOK.write_text(notebook(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
