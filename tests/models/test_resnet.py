"""ResNets: beside torch in float64, in both kinds of blocks; published weights; training on digits,
resumed bit for bit."""

import numpy as np
import pytest

import cudamath as cm
from cudamath.cpu.lib import threads
from cudamath.models import resnet

SMALL = {
    "basic": resnet.Config((1, 2), width=8, channels=3, classes=5),
    "bottleneck": resnet.Config((2, 1), bottleneck=True, width=8, channels=3, classes=5),
    "small": resnet.Config((1, 1, 1), width=8, channels=1, classes=4, small=True),
}


@pytest.fixture(autouse=True)
def one_thread():
    """Two threads of so little work each wait for one another longer than they compute, where other
    tests run beside."""
    with threads.limited(1):
        yield


def made(config, dtype="float64", seed=0):
    """Parameters and statistics none of which is at a special value."""
    rng = cm.random.default_rng(seed)
    params, stats = resnet.create(config, rng=rng)
    params = {
        name: p.astype(dtype) + 0.1 * rng.normal(0, 1, p.shape, dtype) for name, p in params.items()
    }
    stats = {name: s.astype(dtype) + 0.2 * rng.random(s.shape, dtype) for name, s in stats.items()}
    return params, stats


def torch_forward(torch, params, stats, x, config, training):
    """The same network written with torch; names and (K, C, R, S) filters as torchvision has
    them."""
    f = torch.nn.functional

    def normalized(x, name):
        return f.batch_norm(
            x,
            stats[f"{name}.running_mean"],
            stats[f"{name}.running_var"],
            params[f"{name}.weight"],
            params[f"{name}.bias"],
            training=training,
        )

    def convolved(x, name, stride=1):
        return f.conv2d(
            x,
            params[f"{name}.weight"],
            stride=stride,
            padding=params[f"{name}.weight"].shape[-1] // 2,
        )

    x = f.relu(normalized(convolved(x, "conv1", 1 if config.small else 2), "bn1"))
    x = x if config.small else f.max_pool2d(x, 3, 2, 1)
    for stage, count in enumerate(config.blocks):
        for i in range(count):
            at, stride, skipped = f"layer{stage + 1}.{i}", 2 if stage and not i else 1, x
            if f"{at}.downsample.0.weight" in params:
                skipped = normalized(
                    convolved(x, f"{at}.downsample.0", stride), f"{at}.downsample.1"
                )
            if config.bottleneck:
                x = f.relu(normalized(convolved(x, f"{at}.conv1"), f"{at}.bn1"))
                x = f.relu(normalized(convolved(x, f"{at}.conv2", stride), f"{at}.bn2"))
                x = f.relu(normalized(convolved(x, f"{at}.conv3"), f"{at}.bn3") + skipped)
            else:
                x = f.relu(normalized(convolved(x, f"{at}.conv1", stride), f"{at}.bn1"))
                x = f.relu(normalized(convolved(x, f"{at}.conv2"), f"{at}.bn2") + skipped)
    return f.linear(x.mean((2, 3)), params["fc.weight"], params["fc.bias"])


@pytest.mark.parametrize("kind", SMALL)
def test_agrees_with_torch(device, kind):
    torch = pytest.importorskip("torch")
    config = SMALL[kind]
    params, stats = made(config)
    rng = np.random.default_rng(1)
    images, labels = (
        rng.standard_normal((4, config.channels, 17, 18)),
        rng.integers(0, config.classes, 4),
    )
    theirs = {name: torch.tensor(p.to_numpy()) for name, p in params.items()}
    theirs = {
        name: (p.permute(0, 3, 1, 2) if p.ndim == 4 else p).detach().requires_grad_()
        for name, p in theirs.items()
    }
    running = {name: torch.tensor(s.to_numpy()) for name, s in stats.items()}

    logits, same = resnet.forward(params, stats, cm.asarray(images), config)
    expected = torch_forward(torch, theirs, running, torch.tensor(images), config, False)
    assert same is stats
    np.testing.assert_allclose(logits.to_numpy(), expected.detach().numpy(), rtol=1e-9, atol=1e-9)
    assert (
        resnet.classify(params, stats, cm.asarray(images), config).tolist()
        == expected.argmax(1).tolist()
    )

    loss = torch.nn.functional.cross_entropy(
        torch_forward(torch, theirs, running, torch.tensor(images), config, True),
        torch.tensor(labels),
    )
    loss.backward()
    for order in (
        cm.asarray(images),
        cm.asarray(images.transpose(0, 2, 3, 1).copy()).transpose(0, 3, 1, 2),
    ):
        (value, new), grads = cm.value_and_grad(resnet.loss, has_aux=True)(
            params, stats, order, cm.asarray(labels), config
        )
        assert value.dtype == np.float64 and abs(float(value) - loss.item()) < 1e-10
        for name, p in theirs.items():
            g = p.grad.permute(0, 2, 3, 1) if p.ndim == 4 else p.grad
            scale = float(g.abs().max())
            np.testing.assert_allclose(
                grads[name].to_numpy(), g.numpy(), rtol=1e-6, atol=1e-8 * max(scale, 1)
            )
        assert set(new) == set(stats)
        for name, s in running.items():
            np.testing.assert_allclose(new[name].to_numpy(), s.numpy(), rtol=1e-10)


@pytest.mark.parametrize(
    "name, count",
    [
        ("resnet18", 11_689_512),
        ("resnet34", 21_797_672),
        ("resnet50", 25_557_032),
        ("resnet101", 44_549_160),
    ],
)
def test_published_sizes(name, count):
    """Numbers of parameters as torchvision documents them."""
    shapes = {}

    class Counting:  # stands for a generator: shapes alone
        def normal(self, mean, std, shape, dtype, device):
            return cm.broadcast_to(cm.zeros((), dtype), shape)

        def uniform(self, low, high, shape, dtype, device):
            return cm.broadcast_to(cm.zeros((), dtype), shape)

    params, stats = resnet.create(resnet.SIZES[name], rng=Counting())
    shapes = {name: p.shape for name, p in params.items()}
    assert sum(p.size for p in params.values()) == count
    assert shapes["conv1.weight"] == (64, 7, 7, 3) and shapes["fc.weight"][0] == 1000
    assert len(stats) == 2 * sum(name.endswith("running_mean") for name in stats)


def test_published_weights(device, tmp_path):
    pytest.importorskip("safetensors")
    config = SMALL["bottleneck"]
    params, stats = made(config, "float32")
    images = cm.asarray(np.random.default_rng(0).standard_normal((2, 3, 20, 20)).astype(np.float32))
    published = {
        name: p.transpose(0, 3, 1, 2) if p.ndim == 4 else p for name, p in params.items()
    } | stats
    published |= {
        f"{name.removesuffix('.running_mean')}.num_batches_tracked": cm.asarray(np.array(3))
        for name in stats
        if name.endswith("mean")
    }
    cm.save(tmp_path / "weights", published)
    found = resnet.pretrained(tmp_path / "weights", config)
    assert [x.device for x in found[0].values()] == [images.device] * len(params)
    np.testing.assert_array_equal(
        resnet.forward(*found, images, config)[0].to_numpy(),
        resnet.forward(params, stats, images, config)[0].to_numpy(),
    )
    del published["layer2.0.bn1.weight"]
    published["layer9.bias"] = published["fc.bias"]
    published["fc.bias"] = cm.zeros(7, "float32")
    cm.save(tmp_path / "weights", published)
    with pytest.raises(
        ValueError,
        match=r"resnet: .* does not fit .*: layer2.0.bn1.weight is missing, wanted \(16,\); "
        r"fc.bias is \(7,\), wanted \(5,\); layer9.bias is \(5,\), wanted not at all$",
    ):
        resnet.pretrained(tmp_path / "weights", config)


def test_bad_input():
    config = SMALL["basic"]
    params, stats = made(config)
    with pytest.raises(
        ValueError, match=r"resnet: wants images \(N, 3, H, W\), got shape \(2, 1, 8, 8\)"
    ):
        resnet.forward(params, stats, cm.zeros((2, 1, 8, 8)), config)
    with pytest.raises(ValueError, match="resnet: wants stages, and sizes of at least 1"):
        resnet.Config(())
    with pytest.raises(ValueError, match="resnet: wants stages, and sizes of at least 1"):
        resnet.Config((2, 0))


# -------------------- training


def train(digits, epochs, dtype="float32", start=None, stop=None, seed=0, rate=1e-2):
    """Train on the digits; ((parameters, ...) to go on with, losses, parameters to classify
    with)."""
    config = resnet.SIZES["digits"]
    params, stats = resnet.create(config, rng=cm.random.default_rng(seed))
    now = start or {
        "params": params,
        "stats": stats,
        "state": cm.ml.adam_init(params),
        "data": {"epoch": 0, "batch": 0},
    }
    params, stats, state = now["params"], now["stats"], now["state"]
    copies = (
        params if dtype == "float32" else cm.ml.amp.cast(params, dtype, keep=lambda p: p.ndim < 2)
    )
    more = {} if dtype == "float32" else {"copies": copies}
    gradient = cm.value_and_grad(resnet.loss, has_aux=True)
    losses = []
    with cm.data.batches(
        (digits.images, digits.labels), 64, shuffle=True, seed=seed, drop_last=True
    ) as loader:
        loader.state = now["data"]
        total = epochs * len(loader)
        for x, y in loader.steps(total if stop is None else stop):
            lr = cm.ml.schedules.cosine(rate, steps=total, warmup=len(loader))(int(state["step"]))
            (loss, stats), grads = gradient(copies, stats, x, y, config)
            cm.ml.adam_update(params, grads, state, lr=lr, **more)
            losses.append(loss)
        now = {"params": params, "stats": stats, "state": state, "data": loader.state}
    return now, [float(loss) for loss in losses], copies


def accuracy(params, stats, digits):
    found = resnet.classify(
        params, stats, cm.asarray(digits.held_out_images), resnet.SIZES["digits"]
    )
    return float(np.mean(found.to_numpy() == digits.held_out_labels))


@pytest.fixture(scope="module")
def digits():
    pytest.importorskip("sklearn")
    from cudamath.demo.train import load

    return load()


@pytest.mark.slow
@pytest.mark.parametrize("dtype", ["float32", pytest.param("bfloat16", marks=pytest.mark.gpu)])
def test_learns_the_digits(device, digits, dtype):
    if device == "cpu" and dtype != "float32":
        pytest.skip("16-bit numbers are slow on a CPU, and say nothing new there")
    now, losses, params = train(digits, 8, dtype)
    assert np.mean(losses[-22:]) < 0.1 and accuracy(params, now["stats"], digits) >= 0.97


def test_training_resumes_bit_for_bit(device, digits, tmp_path):
    pytest.importorskip("safetensors")
    whole, losses, _ = train(digits, 2, stop=8)
    again, same, _ = train(digits, 2, stop=8)
    assert same == losses
    part, first, _ = train(digits, 2, stop=5)
    cm.save(tmp_path / "run", part)
    rest, second, _ = train(digits, 2, start=cm.load(tmp_path / "run"), stop=3)
    assert first + second == losses and rest["data"] == whole["data"]
    for tree in ("params", "stats"):
        assert all(
            rest[tree][name].tobytes() == value.tobytes() for name, value in whole[tree].items()
        )
