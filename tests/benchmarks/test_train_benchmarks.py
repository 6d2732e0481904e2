"""The benchmarks of training: what they compare is the same training, and what they write is what
the report reads."""

import json
import pathlib

import pytest

from benchmarks import decode_gpt2, models, train_gpt2, train_resnet
from cudamath.models import gpt2, resnet

TEXT = str(pathlib.Path(__file__).parents[1] / "data" / "tinyshakespeare.txt")


def test_losses_are_pytorchs(tmp_path, monkeypatch):
    """--check on a small model: all its questions answered with yes, and with no where the curves
    are not the same."""
    pytest.importorskip("torch")
    pytest.importorskip("safetensors")
    monkeypatch.setitem(
        gpt2.SIZES, "tiny", gpt2.Config(vocabulary=256, context=16, layers=1, heads=2, width=16)
    )
    file = tmp_path / "losses.json"
    arguments = [
        "--check",
        TEXT,
        "--size",
        "tiny",
        "--device",
        "cpu",
        "--steps",
        "24,30",
        "--json",
        str(file),
    ]
    assert train_gpt2.main(arguments) == 0
    record = json.loads(file.read_text())
    found = record["float32"]["curves"]
    assert [len(losses) for losses in record["bfloat16"]["curves"].values()] == [30] * 4
    assert [len(found[name]) for name in ("ours", "resumed", "torch", "nudged")] == [24] * 4
    assert found["ours"] == found["resumed"] and found["nudged"] != found["ours"]
    assert (
        "float32, 24 steps" in models.losses(record)[0]
        and "bfloat16, 30 steps" in models.losses(record)[0]
    )
    assert (
        "bfloat16" not in models.losses({**record, "bfloat16": {"curves": {}}})[0]
    )  # a run that was cut off
    for name, change in (("resumed", 1e-6), ("torch", 0.1)):
        wrong = {**found, name: [loss + change for loss in found[name]]}
        assert not train_gpt2.verdict("float32", wrong)["good"]


def test_records_are_merged(tmp_path):
    row = {
        "peer": "cudamath",
        "batch": 32,
        "length": 8,
        "ms": 1.0,
        "tokens_per_second": 100.0,
        "mfu": 0.5,
        "peak_bytes": 10**9,
        "reserved_bytes": 2 * 10**9,
    }
    head = {
        "device": "d",
        "commit": "c",
        "date": "today",
        "versions": {},
        "size": "tiny",
        "nominal": 1e12,
    }
    first, second, other, out = (tmp_path / name for name in ("a", "b", "c", "out"))
    first.write_text(
        json.dumps({**head, "rows": [row, {**row, "peer": "torch", "tokens_per_second": 50.0}]})
    )
    second.write_text(
        json.dumps({**head, "rows": [{**row, "batch": 8, "tokens_per_second": 90.0}]})
    )
    assert train_gpt2.main(["--merge", str(first), str(second), "--json", str(out)]) == 0
    lines = models.gpt2(json.loads(out.read_text()))
    assert ": speedup 2.00. Model FLOPs utilisation 50%" in lines[0]
    assert lines[-2:] == [
        "| 8 | 90 |  | 1.0 GB (2.0) |  |",
        "| 32 | 100 | 50 | 1.0 GB (2.0) | 1.0 GB (2.0) |",
    ]
    other.write_text(json.dumps({**head, "commit": "another", "rows": [row]}))
    with pytest.raises(ValueError, match=r"merge: commit differs: \['c', 'another'\]"):
        train_gpt2.main(["--merge", str(first), str(other)])


def test_a_run_that_is_cut_off_leaves_its_batches(tmp_path, monkeypatch):
    file = tmp_path / "gpt2.json"

    def compare(_config, names, batch, length, _rounds):
        if batch == 8:
            raise KeyboardInterrupt
        return [{"peer": name, "batch": batch, "length": length} for name in names]

    monkeypatch.setattr(train_gpt2, "compare", compare)
    monkeypatch.setattr(train_gpt2, "environment", lambda device: {"device": device, "commit": "c"})
    with pytest.raises(KeyboardInterrupt):
        train_gpt2.main(
            ["--batches", "32,16,8,4", "--peers", "cudamath,torch", "--json", str(file)]
        )
    found = json.loads(file.read_text())
    assert [(row["batch"], row["peer"]) for row in found["rows"]] == [
        (32, "cudamath"),
        (32, "torch"),
        (16, "cudamath"),
        (16, "torch"),
    ]
    assert found["device"] == "cuda" and found["size"] == "124m"


def test_quantized_weights_write(tmp_path, monkeypatch):
    """Every kind of weights: nearly the loss of 16 bits, in fewer bytes."""
    monkeypatch.setitem(
        gpt2.SIZES, "tiny", gpt2.Config(vocabulary=256, context=48, layers=1, heads=2, width=128)
    )
    file = tmp_path / "decode.json"
    options = [
        "--size",
        "tiny",
        "--device",
        "cpu",
        "--steps",
        "12",
        "--tokens",
        "5",
        "--rounds",
        "2",
        "--json",
        str(file),
    ]
    assert decode_gpt2.main([TEXT, *options]) == 0
    record = json.loads(file.read_text())
    assert [row["weights"] for row in record["rows"]] == ["bfloat16", *decode_gpt2.WEIGHTS]
    base, *others = record["rows"]
    assert base["change"] == 0 and all(
        abs(row["change"]) < 0.02 and row["bytes"] < 0.6 * base["bytes"] for row in others
    )
    assert all(len(row["seconds"]) == 2 and row["tokens_per_second"] > 0 for row in record["rows"])
    assert "| int8 |" in "\n".join(models.decode(record))


def test_resnet_is_pytorchs(tmp_path, monkeypatch, capsys):
    """Both sides of the comparison begin with the same loss and the same gradients."""
    pytest.importorskip("torch")
    monkeypatch.setitem(
        resnet.SIZES,
        "small",
        resnet.Config(blocks=(1, 1), width=4, classes=5, channels=1, small=True),
    )
    assert train_resnet.main(["--check", "--device", "cpu", "--model", "small"]) == 0
    said = capsys.readouterr().out.split("\n")
    ours, theirs = (float(word) for word in said[0].replace("float32 loss", "").split(", torch"))
    assert ours == pytest.approx(theirs, rel=1e-5)
    assert all(float(part.split()[-1]) < 1e-4 for part in said[1].split(": ")[1].split(", "))
    rows = [
        {"name": name, "batch": 8, "size": 32, "images_per_second": rate, "peak": 10**9}
        for name, rate in (("cudamath", 1234.0), ("torch.compile", 1000.0))
    ]
    lines = models.resnet(
        {"model": "resnet50", "commit": "c", "date": "today", "versions": {}, "rows": rows}
    )
    assert lines[-1] == "| 8 | 1,234 | 1,000 | 1.0 GB | 1.0 GB |"
