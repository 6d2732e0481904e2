"""The magics of notebooks, in a shell of IPython's."""

import re

import pytest

import cudamath as cm

interactive = pytest.importorskip("IPython.core.interactiveshell")


@pytest.fixture
def shell():
    shell = interactive.InteractiveShell.instance()
    shell.run_line_magic("load_ext", "cudamath.magics")
    yield shell
    shell.run_line_magic("unload_ext", "cudamath.magics")
    interactive.InteractiveShell.clear_instance()


def test_gpu_timeit(device, shell, capsys):
    shell.user_ns.update(cm=cm, x=cm.ones((8, 8)), sleep=__import__("time").sleep)
    shell.run_line_magic("gpu_timeit", "y = sleep(0.02); x @ x")
    said = capsys.readouterr().out
    found = re.match(r"(\d+\.?\d*) ms \(([\d.]+) to ([\d.]+)\)", said)
    assert (
        found
        and 20 <= float(found[2]) <= float(found[1]) <= float(found[3])
        and "y" not in shell.user_ns
    )
    assert ("; host " in said) == (device != "cpu")
    body = "text = '''two\n lines'''\nassert text == 'two\\n lines' and z.sum() == 128\n"
    shell.run_cell_magic("gpu_timeit", "z = x + 1", body)
    assert re.match(r"[\d.]+ (ns|us|ms) \(", capsys.readouterr().out) and "z" not in shell.user_ns
    with pytest.raises(ValueError, match="^gpu_timeit: wants a statement"):
        shell.run_line_magic("gpu_timeit", "")
    with pytest.raises(ZeroDivisionError):
        shell.run_line_magic("gpu_timeit", "1 / 0")


def test_roofline(device, shell, capsys):
    shell.user_ns.update(cm=cm, x=cm.ones(1000))
    shell.run_cell_magic("roofline", "", "y = x + 1\n")
    said = capsys.readouterr().out
    assert "GB/s" in said and shell.user_ns["y"].sum().item() == 2000
    assert device != "cpu" or re.search(r"^add +1 ", said, re.MULTILINE)
