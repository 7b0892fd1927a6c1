"""docs/python.ipynb shows what its cells print. `UPDATE_NOTEBOOK=1` writes the outputs anew."""

import ast
import contextlib
import io
import json
import os


from conftest import ROOT

NOTEBOOK = ROOT / "docs/python.ipynb"


def outputs_of(source, names):
    """What a cell prints, and its last expression, as Jupyter would store them."""
    tree = ast.parse(source)
    last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(compile(tree, "cell", "exec"), names)
        value = None if last is None else eval(compile(ast.Expression(last.value), "cell", "eval"), names)
    outputs = []
    if printed.getvalue():
        text = printed.getvalue().splitlines(keepends=True)
        outputs.append({"name": "stdout", "output_type": "stream", "text": text})
    if value is not None:
        data = {"text/plain": repr(value).splitlines(keepends=True)}
        outputs.append({"data": data, "execution_count": None, "metadata": {}, "output_type": "execute_result"})
    return outputs


def test_the_notebook_shows_what_its_cells_print(monkeypatch):
    monkeypatch.chdir(ROOT)
    notebook = json.loads(NOTEBOOK.read_text())
    names = {}
    for cell in notebook["cells"]:
        if cell["cell_type"] != "code":
            continue
        outputs = outputs_of("".join(cell["source"]), names)
        if os.environ.get("UPDATE_NOTEBOOK"):
            cell["outputs"] = outputs
        assert cell["outputs"] == outputs, "".join(cell["source"])
    if os.environ.get("UPDATE_NOTEBOOK"):
        NOTEBOOK.write_text(json.dumps(notebook, indent=1, ensure_ascii=False) + "\n")


def test_the_examples_of_the_documentation_run(captures, tmp_path, monkeypatch):
    (tmp_path / "cap").symlink_to(captures / "fleet")
    monkeypatch.chdir(tmp_path)
    blocks = (ROOT / "docs/python.md").read_text().split("```python\n")[1:]
    assert len(blocks) >= 5
    names = {}
    for block in blocks:
        source = block.split("```")[0]
        if "spark" not in source:
            outputs_of(source, names)
