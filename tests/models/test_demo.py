"""The demo's parts: the data, the comparisons, the training, the picture. (The whole demo is `make
demo`.)"""

from __future__ import annotations

import json
import os
import pathlib

import numpy as np
import pytest

import cudamath as cm

pytest.importorskip("sklearn")
pytest.importorskip("matplotlib")
from cudamath.demo import compare, run, train

pytestmark = pytest.mark.skipif(
    os.environ.get("NUMBA_ENABLE_CUDASIM") == "1", reason="the demo runs on real devices"
)


def test_split_is_fixed_and_disjoint() -> None:
    digits = train.load()
    assert digits.images.shape == (1437, 1, 8, 8) and digits.held_out_images.shape == (360, 1, 8, 8)
    assert (
        digits.images.dtype == np.float32 and digits.images.min() == 0 and digits.images.max() == 1
    )
    assert np.bincount(digits.held_out_labels).min() >= 34  # stratified
    train_set = {image.tobytes() for image in digits.images}
    assert not any(image.tobytes() in train_set for image in digits.held_out_images)
    np.testing.assert_array_equal(train.load().held_out_labels, digits.held_out_labels)


def test_shifted_moves_a_share_of_the_images_by_one_pixel() -> None:
    images = np.random.default_rng(0).random((200, 1, 8, 8), dtype=np.float32)
    moved = train.shifted(images, np.random.default_rng(1), share=1.0)
    for before, after in zip(images[:, 0], moved[:, 0], strict=True):
        padded = np.pad(before, 1)
        assert any(
            np.array_equal(after, padded[i : i + 8, j : j + 8]) for i in range(3) for j in range(3)
        )
    assert (
        0.8 < np.mean([not np.array_equal(a, b) for a, b in zip(images, moved, strict=True)]) < 0.95
    )  # 8 of 9
    np.testing.assert_array_equal(
        train.shifted(images, np.random.default_rng(1), share=0.0), images
    )


def test_numpy_versions_are_right() -> None:
    """The demo's NumPy code, against the definitions written as loops."""
    rng = np.random.default_rng(0)
    x, w = rng.random((1, 2, 4, 4)), rng.random((3, 2, 3, 3))
    padded = np.pad(x, ((0, 0), (0, 0), (1, 1), (1, 1)))
    expected = np.array(
        [
            [
                [
                    [(padded[n, :, i : i + 3, j : j + 3] * w[f]).sum() for j in range(4)]
                    for i in range(4)
                ]
                for f in range(3)
            ]
            for n in range(1)
        ]
    )
    np.testing.assert_allclose(compare.conv2d(x, w), expected)
    np.testing.assert_array_equal(
        compare.max_pool2d(x)[0, 1, 1], [x[0, 1, 2:, :2].max(), x[0, 1, 2:, 2:].max()]
    )
    y = compare.batch_norm(
        rng.random((4, 3, 5, 5)) * 7, np.zeros(3), np.ones(3), np.full(3, 2.0), np.full(3, 0.5)
    )
    np.testing.assert_allclose(y.mean((0, 2, 3)), 0.5)
    np.testing.assert_allclose(y.std((0, 2, 3)), 2, rtol=1e-5)
    np.testing.assert_allclose(compare.softmax(np.log([[1.0, 2.0, 5.0]])), [[0.125, 0.25, 0.625]])


@pytest.mark.parametrize("case", list(compare.cases()), ids=lambda case: case.name)
def test_comparison_is_within_tolerance(case: compare.Case, device: str) -> None:
    comparison = compare.compare(case, rounds=1)
    assert comparison.passed and comparison.error < 1e-5
    assert comparison.time.median > 0 and comparison.numpy_time.median > 0


def test_comparison_catches_a_wrong_result() -> None:
    with cm.device("cpu"):
        case = compare.Case("sum", "", (np.ones(8, np.float32),), lambda x: cm.sum(x) + 1, np.sum)
        assert not compare.compare(case, rounds=1).passed


@pytest.mark.slow
def test_training_learns(device: str) -> None:
    digits = train.load()
    epochs = []
    first = train.train(
        digits, epochs=3, after_epoch=lambda loss, accuracy: epochs.append((loss, accuracy))
    )
    assert first.accuracy >= 0.9 and len(first.losses) == 3 * train.steps_per_epoch(digits)
    assert [accuracy for _, accuracy in epochs] == first.accuracies
    assert epochs[2][0] < epochs[0][0] / 2
    assert first.predictions.shape == (360,)
    assert np.mean(first.predictions == digits.held_out_labels) == first.accuracy


def test_same_seed_same_network(device: str) -> None:
    digits = train.load()
    one, two = (train.train(digits, epochs=1) for _ in range(2))
    assert one.losses == two.losses  # bit for bit
    for name, value in one.params.items():
        np.testing.assert_array_equal(value.to_numpy(), two.params[name].to_numpy())


@pytest.mark.slow
def test_demo_reports_accuracy_and_writes_a_picture(
    tmp_path: pathlib.Path, capsys: pytest.CaptureFixture, device: str
) -> None:
    figures = tmp_path / "demo.json"
    assert run(device=device, epochs=10, out=tmp_path / "new" / "folder", json=figures)
    record = json.loads(figures.read_text())
    assert record["training"]["accuracy"] >= 0.98
    assert len(record["operations"]) == len(list(compare.cases()))
    assert (tmp_path / "new" / "folder" / "demo.png").read_bytes().startswith(b"\x89PNG")
    printed = capsys.readouterr().out
    assert f"Device  {device}" in printed and "Held-out accuracy" in printed


@pytest.mark.gpu
def test_second_process_compiles_nothing(tmp_path: pathlib.Path) -> None:
    import subprocess
    import sys

    figures = tmp_path / "demo.json"
    for _ in range(2):
        subprocess.run(
            [
                sys.executable,
                "-m",
                "cudamath",
                "demo",
                "--device",
                "cuda",
                "--epochs",
                "1",
                "--out",
                str(tmp_path),
                "--json",
                str(figures),
            ],
            check=True,
            timeout=300,
            capture_output=True,
            cwd=pathlib.Path(__file__).resolve().parents[2],
            env=os.environ | {"CUDAMATH_CACHE_DIR": str(tmp_path / "cache")},
        )
    assert json.loads(figures.read_text())["kernels"]["compiled"] == 0
