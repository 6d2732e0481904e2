"""GPT-2: the architecture against PyTorch, training that can be stopped and resumed, sampling, the
command line.

The architecture's truth is written out with PyTorch's functions, on the names and (transposed)
weights that Hugging Face publishes; PyTorch also makes the optimizer's steps.
"""

import dataclasses
import math
import pathlib

import numpy as np
import pytest

import cudamath as cm
from cudamath.__main__ import main
from cudamath.models import command, gpt2, sampling, training

TEXT = pathlib.Path(__file__).parents[1] / "data" / "tinyshakespeare.txt"
SMALL = gpt2.Config(vocabulary=200, context=24, layers=2, heads=3, width=12)


def weights(config, seed=0):
    """Parameters large enough for their places to matter, as NumPy arrays."""
    rng = np.random.default_rng(seed)
    out = {
        name: rng.normal(size=shape).astype(np.float32) * 0.3
        for name, shape in gpt2.shapes(config).items()
    }
    out["wte.weight"][config.vocabulary :] = 0
    return out


def tokens(config, batch, length, seed=1):
    rows = (
        np.random.default_rng(seed)
        .integers(0, config.vocabulary, (batch, length + 1))
        .astype(np.int32)
    )
    return rows[:, :-1], rows[:, 1:]


def theirs(torch, params, ids, config):
    """Logits of GPT-2 by PyTorch's functions."""
    f = torch.nn.functional
    batch, length = ids.shape
    x = params["wte.weight"][ids] + params["wpe.weight"][:length]
    hidden = torch.full((length, length), -math.inf).triu(1)
    for i in range(config.layers):
        p = {name.removeprefix(f"h.{i}."): value for name, value in params.items()}
        y = f.layer_norm(x, (config.width,), p["ln_1.weight"], p["ln_1.bias"])
        q, k, v = f.linear(y, p["attn.c_attn.weight"], p["attn.c_attn.bias"]).split(config.width, 2)
        q, k, v = (a.view(batch, length, config.heads, -1).transpose(1, 2) for a in (q, k, v))
        scores = q @ k.transpose(2, 3) / math.sqrt(q.shape[-1]) + hidden
        y = (scores.softmax(3) @ v).transpose(1, 2).reshape(x.shape)
        x = x + f.linear(y, p["attn.c_proj.weight"], p["attn.c_proj.bias"])
        y = f.layer_norm(x, (config.width,), p["ln_2.weight"], p["ln_2.bias"])
        y = f.linear(y, p["mlp.c_fc.weight"], p["mlp.c_fc.bias"])
        y = 0.5 * y * (1 + torch.tanh(math.sqrt(2 / math.pi) * (y + 0.044715 * y**3)))
        x = x + f.linear(y, p["mlp.c_proj.weight"], p["mlp.c_proj.bias"])
    x = f.layer_norm(x, (config.width,), params["ln_f.weight"], params["ln_f.bias"])
    return (x @ params["wte.weight"].T)[..., : config.vocabulary]


def ours(values):
    return {name: cm.asarray(x) for name, x in values.items()}


# -------------------- the architecture


def test_sizes():
    """The published numbers of parameters, biases and both tables included."""
    for name, millions in (
        ("124m", 124.44),
        ("355m", 354.82),
        ("774m", 774.03),
        ("1558m", 1557.61),
    ):
        config = gpt2.SIZES[name]
        count = (
            sum(math.prod(s) for s in gpt2.shapes(config).values())
            - (config.rows - config.vocabulary) * config.width
        )
        assert round(count / 1e6, 2) == millions, name
    assert gpt2.SIZES["124m"].rows == 50304
    assert gpt2.flops_per_token(gpt2.SIZES["124m"], 1024) == pytest.approx(
        6 * 123.6e6 + 6 * 12 * 768 * 1024, rel=1e-3
    )
    with pytest.raises(ValueError, match="heads that divide the width"):
        gpt2.Config(width=10, heads=3)


def test_initial_weights():
    config = gpt2.Config(vocabulary=1000, context=64, layers=8, heads=4, width=64)
    params = gpt2.create(config, rng=cm.random.default_rng(3))
    assert {name: p.shape for name, p in params.items()} == gpt2.shapes(config)
    assert float(params["h.3.mlp.c_fc.weight"].std()) == pytest.approx(0.02, rel=0.05)
    assert float(params["h.3.mlp.c_proj.weight"].std()) == pytest.approx(0.02 / 4, rel=0.05)
    assert not params["wte.weight"][1000:].to_numpy().any() and params["wte.weight"].shape == (
        1024,
        64,
    )
    assert (params["ln_f.weight"].to_numpy() == 1).all() and not params[
        "h.0.attn.c_attn.bias"
    ].to_numpy().any()
    again = gpt2.create(config, rng=cm.random.default_rng(3))
    assert all(np.array_equal(params[name].to_numpy(), again[name].to_numpy()) for name in params)


def test_logits_loss_and_gradients_are_pytorchs(device):
    torch = pytest.importorskip("torch")
    values = weights(SMALL)
    ids, targets = tokens(SMALL, 2, 17)
    params = {name: torch.from_numpy(x).double().requires_grad_() for name, x in values.items()}
    scores = theirs(torch, params, torch.from_numpy(ids).long(), SMALL)
    loss = torch.nn.functional.cross_entropy(
        scores.reshape(-1, SMALL.vocabulary), torch.from_numpy(targets).long().reshape(-1)
    )
    loss.backward()
    wide = {name: x.astype("float64") for name, x in ours(values).items()}
    found = gpt2.logits(wide, gpt2.forward(wide, cm.asarray(ids), SMALL), SMALL)
    np.testing.assert_allclose(found.to_numpy(), scores.detach().numpy(), rtol=1e-9, atol=1e-9)
    value, grads = cm.value_and_grad(gpt2.loss)(wide, cm.asarray(ids), cm.asarray(targets), SMALL)
    assert float(value) == pytest.approx(loss.item(), rel=1e-12)
    for name, g in grads.items():
        np.testing.assert_allclose(
            g.to_numpy(), params[name].grad.numpy(), rtol=1e-7, atol=1e-10, err_msg=name
        )
    assert not grads["wte.weight"][SMALL.vocabulary :].to_numpy().any()


def test_published_weights(device, tmp_path):
    """A file with Hugging Face's names, masks, and weights of products lying (in, out)."""
    safetensors = pytest.importorskip("safetensors.numpy")
    values = weights(SMALL)
    file = {}
    for name, x in values.items():
        x = x[: SMALL.vocabulary] if name == "wte.weight" else x
        file["transformer." + name] = np.ascontiguousarray(
            x.T if name.startswith("h.") and x.ndim == 2 else x
        )
    file["transformer.h.0.attn.bias"] = np.ones((1, 1, 24, 24), np.float32)
    safetensors.save_file(file, tmp_path / "model.safetensors")
    params = gpt2.pretrained(tmp_path / "model.safetensors", SMALL)
    assert all(np.array_equal(params[name].to_numpy(), values[name]) for name in values) and set(
        params
    ) == set(values)
    with pytest.raises(ValueError, match=r"wte.weight in .* has shape \(200, 12\)"):
        gpt2.pretrained(tmp_path / "model.safetensors", dataclasses.replace(SMALL, vocabulary=201))
    with pytest.raises(ValueError, match=r"holds no h.2.ln_1.weight"):
        gpt2.pretrained(tmp_path / "model.safetensors", dataclasses.replace(SMALL, layers=3))


def test_wrong_tokens():
    params = ours(weights(SMALL))
    with pytest.raises(ValueError, match=r"length of at most 24, got shape \(1, 25\)"):
        gpt2.forward(params, cm.zeros((1, 25), "int32"), SMALL)
    for bad in (256, 200, -1):  # beyond the table; in its padding; before it
        with (
            cm.device("cpu"),
            pytest.raises(
                IndexError, match=rf"embedding: index {bad} .* 0 \.\. 199 \(200 classes\)"
            ),
        ):
            gpt2.forward(ours(weights(SMALL)), cm.full((1, 2), bad, dtype="int32"), SMALL)


# -------------------- training


def made(dtype="float32", dropout=0.0, config=SMALL):
    schedule = cm.ml.schedules.cosine(1e-2, steps=30, warmup=3)
    return training.Trainer(
        gpt2.loss,
        ours(weights(config)),
        config,
        schedule=schedule,
        dtype=dtype,
        dropout=dropout,
        seed=5,
    )


def curve(trainer, first, last):
    return [float(trainer.step(*tokens(SMALL, 3, 10, seed=i))[0]) for i in range(first, last)]


def test_steps_are_pytorchs(device):
    """Losses of AdamW's steps, gradients clipped, from the same weights on the same batches."""
    torch = pytest.importorskip("torch")
    values = weights(SMALL)
    params = {name: torch.from_numpy(x.copy()).requires_grad_() for name, x in values.items()}
    groups = [
        {"params": [p for p in params.values() if p.ndim > 1], "weight_decay": 0.1},
        {"params": [p for p in params.values() if p.ndim == 1], "weight_decay": 0.0},
    ]
    optimizer = torch.optim.AdamW(groups, betas=(0.9, 0.95))
    schedule = cm.ml.schedules.cosine(1e-2, steps=30, warmup=3)
    expected = []
    for i in range(12):
        ids, targets = (torch.from_numpy(a).long() for a in tokens(SMALL, 3, 10, seed=i))
        scores = theirs(torch, params, ids, SMALL).reshape(-1, SMALL.vocabulary)
        loss = torch.nn.functional.cross_entropy(scores, targets.reshape(-1))
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(params.values(), 1.0)
        for group in optimizer.param_groups:
            group["lr"] = schedule(i)
        optimizer.step()
        expected.append(loss.item())
    np.testing.assert_allclose(curve(made(), 0, 12), expected, rtol=1e-4)
    np.testing.assert_allclose(curve(made("bfloat16"), 0, 12), expected, rtol=2e-2)


@pytest.mark.parametrize("dtype, dropout", [("float32", 0.1), ("bfloat16", 0.0), ("bfloat16", 0.1)])
def test_resumed_runs_have_the_same_bits(device, tmp_path, dtype, dropout):
    pytest.importorskip("safetensors")
    whole = curve(made(dtype, dropout), 0, 8)
    assert curve(made(dtype, dropout), 0, 8) == whole
    first = made(dtype, dropout)
    begun = curve(first, 0, 5)
    first.save(tmp_path / "run.safetensors", note="five")
    second = made(dtype, dropout)
    curve(second, 20, 22)  # whatever it did before is gone
    assert second.load(tmp_path / "run.safetensors")["note"] == "five" and second.steps == 5
    assert begun + curve(second, 5, 8) == whole
    for name, p in second.copies.items():
        assert p.dtype == dtype and np.array_equal(
            p.to_numpy(), second.params[name].astype(dtype).to_numpy()
        ), name


@pytest.mark.gpu
@pytest.mark.parametrize("dtype, dropout", [("float32", 0.1), ("bfloat16", 0.0)])
def test_a_step_is_one_graph(dtype, dropout):
    """The first step runs as it is, one of the next is recorded, the others replay it: the bits are
    those without a graph."""
    with cm.device("cuda"):
        graphed, plain = made(dtype, dropout), made(dtype, dropout)
        runs, step = [], graphed._step._fn
        graphed._step._fn = lambda *args: (runs.append(1), step(*args))[1]
        plain._step = plain._step._fn
        assert curve(graphed, 0, 8) == curve(plain, 0, 8)
        assert len(runs) <= 3 and graphed._step.graphs == 1
        for name, p in graphed.params.items():
            assert np.array_equal(p.to_numpy(), plain.params[name].to_numpy()), name


def test_checkpoints_of_other_models_change_nothing(tmp_path):
    pytest.importorskip("safetensors")
    trainer = made()
    other = made(config=dataclasses.replace(SMALL, layers=1))
    other.save(tmp_path / "other.safetensors")
    trainer.save(tmp_path / "good.safetensors")
    before = {name: p.to_numpy() for name, p in trainer.params.items()}

    def damaged(change):
        tree = cm.load(tmp_path / "good.safetensors")
        change(tree)
        file = tmp_path / f"{len(list(tmp_path.iterdir()))}.safetensors"
        cm.save(file, tree)
        return file

    for words, file in [
        (
            r"does not fit Config.*: params.h.1.attn.c_attn.bias is missing, wanted float32 "
            r"\(36,\); .*; and \d+ more",
            tmp_path / "other.safetensors",
        ),
        ("params.z is not wanted", damaged(lambda tree: tree["params"].update(z=cm.ones(2)))),
        (
            r"params.ln_f.bias is int32 \(12,\), wanted float32 \(12,\)$",
            damaged(lambda tree: tree["params"].update({"ln_f.bias": cm.ones(12, dtype="int32")})),
        ),
        (
            r"state.m.ln_f.bias is float32 \(13,\), wanted float32 \(12,\)$",
            damaged(
                lambda tree: tree["state"]["m"].update({"ln_f.bias": cm.ones(13, dtype="float32")})
            ),
        ),
        ("state.step is missing", damaged(lambda tree: tree["state"].pop("step"))),
        ("rng.* is missing", damaged(lambda tree: tree.pop("rng"))),
        ("params.* is missing", damaged(lambda tree: tree.update(params=cm.ones(2)))),
    ]:
        with pytest.raises(ValueError, match="^load: .*" + words):
            trainer.load(file)
    cm.save(tmp_path / "list.safetensors", [cm.ones(2)])
    with pytest.raises(ValueError, match="^load: .*params.h.0.attn.c_attn.bias is missing"):
        trainer.load(tmp_path / "list.safetensors")
    assert all(np.array_equal(before[name], p.to_numpy()) for name, p in trainer.params.items())
    with pytest.raises(ValueError, match="'bfloat16' or 'float32', got 'float16'"):
        made("float16")


def test_a_loss_that_is_no_number_changes_nothing(device):
    trainer = made()
    trainer.step(*tokens(SMALL, 3, 10))
    trainer.params["h.0.mlp.c_fc.weight"][0, 0] = math.nan
    before = {name: p.to_numpy() for name, p in trainer.params.items()}
    loss, norm = trainer.step(*tokens(SMALL, 3, 10))
    assert math.isnan(float(loss)) and not math.isfinite(float(norm)) and trainer.steps == 1
    assert all(
        np.array_equal(before[name], p.to_numpy(), equal_nan=True)
        for name, p in trainer.params.items()
    )


@pytest.mark.slow
def test_learns_to_write(device):
    """Characters of a text: a loss below 2.0 on what it is trained on, and words in what it
    writes."""
    config = gpt2.Config(vocabulary=128, context=48, layers=2, heads=4, width=64)
    text = command.Text(TEXT, 12, 48, 0)
    trainer = training.Trainer(
        gpt2.loss,
        gpt2.create(config, rng=cm.random.default_rng(0)),
        config,
        dtype="float32",
        schedule=cm.ml.schedules.cosine(8e-3, steps=STEPS, warmup=STEPS // 10, end=8e-4),
    )
    losses = [float(trainer.step(*pair)[0]) for pair in text.training.steps(STEPS)]
    assert losses[0] == pytest.approx(math.log(128), rel=0.02)
    assert np.mean(losses[-50:]) < 2.0
    assert trainer.evaluate(text.held_out) < 2.2
    prompt = np.frombuffer(b"ROMEO:\n", np.uint8)[None].astype(np.int64)
    found = sampling.generate(
        trainer.params, prompt, 41, config, rng=cm.random.default_rng(1), temperature=0.6
    )
    words = bytes(found.to_numpy()[0].astype(np.uint8)).decode().lower().split()
    known = set(TEXT.read_text().lower().split())
    assert len(words) >= 4 and np.mean([word in known for word in words]) >= 0.4, words


STEPS = 750


# -------------------- sampling


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_the_cache_changes_nothing(device, dtype):
    """The likeliest tokens, one by one through the cache, are those of the whole sequence."""
    params = cm.ml.amp.cast(ours(weights(SMALL, 4)), dtype)
    prompt = tokens(SMALL, 2, 5)[0].astype(np.int64)
    sequence = prompt
    for _ in range(12):
        states = gpt2.forward(params, cm.asarray(sequence), SMALL)
        best = cm.argmax(gpt2.logits(params, states[:, -1], SMALL), axis=-1)
        sequence = np.concatenate([sequence, best.to_numpy()[:, None]], 1)
    found = sampling.generate(params, prompt, 12, SMALL, temperature=0)
    if dtype == "float32":
        assert np.array_equal(found.to_numpy(), sequence[:, 5:])
    writer = sampling.Writer(params, SMALL, rows=2, length=20, temperature=0)
    writer.feed(prompt[:, :1])
    writer.feed(prompt[:, 1:])
    parts = [writer.write(7).to_numpy(), writer.write(5).to_numpy()]
    assert np.array_equal(np.concatenate(parts, 1), found.to_numpy())
    writer.feed(sequence[:, -1:])
    assert writer.write(1).shape == (2, 1)


def test_choices_follow_the_probabilities(device):
    p = np.array([0.1, 0.2, 0.3, 0.4])
    scores = cm.asarray(np.tile(np.log(p).astype(np.float32), (100_000, 1)))
    for options, expected in [
        ({}, p),
        ({"top_k": 2}, [0, 0, 3 / 7, 4 / 7]),
        ({"top_p": 0.65}, [0, 0, 3 / 7, 4 / 7]),
        ({"temperature": 0.5}, p**2 / (p**2).sum()),
        ({"temperature": 0}, [0, 0, 0, 1]),
        ({"top_k": 3, "top_p": 0.7}, [0, 0, 3 / 7, 4 / 7]),
        ({"top_k": 9, "top_p": 1.0}, p),
    ]:
        found = sampling.choose(scores, cm.random.default_rng(2), **options)
        share = np.bincount(found.to_numpy(), minlength=4) / len(scores)
        np.testing.assert_allclose(share, expected, atol=0.008, err_msg=str(options))
    same = [sampling.choose(scores[:9], cm.random.default_rng(7)).tolist() for _ in range(2)]
    assert same[0] == same[1]


def beyond_its_length(writer):
    writer.feed(np.zeros((1, 20), int))
    writer.write(5)


@pytest.mark.parametrize("length", [3, 24, 30])
def test_the_window_slides(device, length):
    """The likeliest tokens of a window that begins anew with its latter half when it is full, each
    by the model of the whole window."""
    params = ours(weights(SMALL, 4))
    prompt = tokens(SMALL, 2, length)[0].astype(np.int64)
    window, expected = prompt, []
    for _ in range(50):
        if window.shape[1] >= SMALL.context:
            window = window[:, -(SMALL.context // 2) :]
        states = gpt2.forward(params, cm.asarray(window), SMALL)
        best = cm.argmax(gpt2.logits(params, states[:, -1], SMALL), axis=-1).to_numpy()[:, None]
        window = np.concatenate([window, best], 1)
        expected.append(best)
    found = sampling.generate(params, prompt, 50, SMALL, temperature=0)
    np.testing.assert_array_equal(found.to_numpy(), np.concatenate(expected, 1))


def test_sampling_errors():
    params = ours(weights(SMALL))
    scores = cm.ones((1, 4))
    for words, call in [
        (
            "temperature >= 0",
            lambda: sampling.choose(scores, cm.random.default_rng(0), temperature=-1),
        ),
        (
            "top_k must be at least 1",
            lambda: sampling.choose(scores, cm.random.default_rng(0), top_k=0),
        ),
        (
            r"top_p in \(0, 1\]",
            lambda: sampling.choose(scores, cm.random.default_rng(0), top_p=1.5),
        ),
        (
            "20 tokens and 5 more are beyond the length of 24",
            lambda: beyond_its_length(sampling.Writer(params, SMALL)),
        ),
        ("feed the writer first", lambda: sampling.Writer(params, SMALL).write(1)),
        (
            r"wants tokens \(2, n\) with at least one, got shape \(1, 3\)",
            lambda: sampling.Writer(params, SMALL, rows=2).feed(np.zeros((1, 3), int)),
        ),
        ("length of 1 to 24, got 1 and 25", lambda: sampling.Writer(params, SMALL, length=25)),
    ]:
        with pytest.raises(ValueError, match=words):
            call()


# -------------------- the command line


def test_command_line(tmp_path, capsys, monkeypatch):
    pytest.importorskip("safetensors")
    monkeypatch.setitem(
        gpt2.SIZES, "tiny", gpt2.Config(vocabulary=256, context=16, layers=1, heads=2, width=16)
    )
    out = str(tmp_path / "model.safetensors")
    common = ["--text", str(TEXT), "--batch", "2", "--out", out, "--device", "cpu", "--every", "4"]
    assert main(["train", "gpt2", *common, "--steps", "6"]) == 0
    printed = capsys.readouterr().out
    assert (
        "float32 on cpu, steps 0 to 6" in printed and "held out" in printed and "written" in printed
    )
    assert main(["train", "gpt2", *common, "--steps", "9", "--resume"]) == 0
    assert "steps 6 to 9" in capsys.readouterr().out
    assert (
        main(
            [
                "sample",
                "gpt2",
                "--checkpoint",
                out,
                "--prompt",
                "To be",
                "--count",
                "9",
                "--device",
                "cpu",
            ]
        )
        == 0
    )
    assert capsys.readouterr().out.startswith("To be")
    long = ["--prompt", "x" * 40, "--count", "50"]
    assert main(["sample", "gpt2", "--checkpoint", out, *long, "--device", "cpu"]) == 0
    assert capsys.readouterr().out.startswith("x" * 40)  # beyond the context of 16
    (tmp_path / "short.txt").write_text("too short")
    assert main(["train", "gpt2", "--text", str(tmp_path / "short.txt"), "--device", "cpu"]) == 2
    assert "has 9 bytes, too few for sequences of 16" in capsys.readouterr().err
    tree = cm.load(out, device="cpu")
    other = {**tree["params"], "wpe.weight": cm.ones((3, 2))}
    for change, says in (
        ({"params": other}, "wpe.weight is (3, 2), wanted (16, 16)"),
        ({"params": {}}, "wte.weight is missing, wanted (256, 16)"),
        ({"config": {"a": 1}}, "is no checkpoint"),
        ({"config": 3}, "is no checkpoint"),
        ({"params": 1.0}, "is no checkpoint"),
    ):
        cm.save(tmp_path / "other.safetensors", tree | change)
        assert main(["sample", "gpt2", "--checkpoint", str(tmp_path / "other.safetensors")]) == 2
        assert says in capsys.readouterr().err
    for wrong, says in (
        (
            ["train", "gpt2", *common, "--length", "17"],
            "train: length must be at most 16, the context of tiny",
        ),
        (["train", "gpt2", *common, "--dropout", "2"], "train: dropout must be in [0, 1], got 2.0"),
        (
            ["train", "gpt2", *common, "--out", "x.npy"],
            "train: cannot write x.npy: a checkpoint is",
        ),
        (
            ["sample", "gpt2", "--checkpoint", out, "--prompt", ""],
            "sample: the prompt must have at least one",
        ),
        (
            ["sample", "gpt2", "--checkpoint", out, "--count", "0"],
            "sample: count must be at least 1, got 0",
        ),
    ):
        assert main(wrong) == 2
        found = capsys.readouterr()
        assert says in found.err and found.err.count("\n") == 1 and not found.out


def test_a_resumed_command_sees_the_same_batches(tmp_path, monkeypatch, capsys):
    """Stopped after 5 of 12 steps, in the middle of an epoch, or not: the same parameters bit for
    bit."""
    pytest.importorskip("safetensors")
    monkeypatch.setitem(
        gpt2.SIZES, "tiny", gpt2.Config(vocabulary=256, context=16, layers=1, heads=2, width=16)
    )
    (tmp_path / "text").write_bytes(TEXT.read_bytes()[:180])
    monkeypatch.setattr(
        command.ml.schedules, "cosine", lambda *_, **__: cm.ml.schedules.constant(1e-3)
    )  # whatever --steps
    found = []
    for name, stops in (("whole", [12]), ("parts", [5, 12])):
        out = str(tmp_path / name)
        for i, stop in enumerate(stops):
            options = [
                "--text",
                str(tmp_path / "text"),
                "--batch",
                "8",
                "--out",
                out,
                "--device",
                "cpu",
                "--dropout",
                "0.1",
            ]
            assert main(["train", "gpt2", *options, "--steps", str(stop), *["--resume"][:i]]) == 0
        found.append(cm.load(out, device="cpu"))
    assert main(["train", "gpt2", *options, "--steps", "12", "--resume"]) == 2
    assert "has seen 12 steps already" in capsys.readouterr().err
    whole, parts = found
    assert whole["data"] == parts["data"] == {"epoch": 1, "batch": 3}
    assert all(
        np.array_equal(p.to_numpy(), parts["params"][name].to_numpy())
        for name, p in whole["params"].items()
    )
    cm.save(tmp_path / "whole", {name: value for name, value in whole.items() if name != "data"})
    assert main(["train", "gpt2", *options, "--out", str(tmp_path / "whole"), "--resume"]) == 2
    assert "does not say where in its text it stopped" in capsys.readouterr().err


def test_batches_of_a_text():
    """Every eighth of a length a sequence begins; what is held out is never among them."""
    with cm.device("cpu"):
        text = command.Text(TEXT, 4, 32, 7)
    raw = TEXT.read_bytes()
    cut = len(raw) * 9 // 10
    pairs = [[a.to_numpy() for a in pair] for pair in text.training.steps(20)]
    assert all(
        x.shape == y.shape == (4, 32)
        and x.dtype == np.int32
        and np.array_equal(x[:, 1:], y[:, :-1])
        for x, y in pairs
    )
    places = [raw.find(bytes(row.astype(np.uint8))) for x, _ in pairs for row in x]
    assert (
        all(at >= 0 and at % 4 == 0 and at + 33 <= cut for at in places) and len(set(places)) == 80
    )
    assert len(text.held_out) == 8
    assert all(
        bytes(row.astype(np.uint8)) in raw[cut:] for x, _ in text.held_out for row in x.to_numpy()
    )
    text.training.close()
