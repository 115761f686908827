"""Embeddings that sum to zero: equal counts cancel, and training keeps it so."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest
import torch
from conftest import TINY, tiny_config

from models.base import build
from models.choices import Counting
from models.errors import UserError
from models.languages import FIRST_SYMBOL_ID, language
from models.model_config import ModelConfig
from models.runs.run import Run
from models.training.loop import train
from models.training.together import train_together
from models.transformer.model import HookedTransformer

CENTRED = replace(TINY, counting=Counting(centred=True))


def imbalance(weight: torch.Tensor) -> float:
    """How far the symbols' embeddings are from summing to zero, in their own size."""
    symbols = weight[FIRST_SYMBOL_ID:]
    return float(symbols.sum(0).norm() / symbols.norm())


@pytest.mark.parametrize("architecture", ["transformer", "lstm", "cnn"])
def test_symbols_sum_to_zero_and_the_rest_is_as_drawn(architecture: str) -> None:
    config = replace(TINY, architecture=architecture)
    vocabulary = language("anbncn").vocabulary
    free = build(config, vocabulary, 3).state_dict()
    centred = build(replace(config, counting=Counting(centred=True)), vocabulary, 3).state_dict()
    free_symbols = free["embed.weight"][FIRST_SYMBOL_ID:]
    assert imbalance(free["embed.weight"]) > 0.1
    assert imbalance(centred["embed.weight"]) < 1e-6
    torch.testing.assert_close(
        centred["embed.weight"][FIRST_SYMBOL_ID:], free_symbols - free_symbols.mean(0)
    )
    for name, value in free.items():
        same = slice(FIRST_SYMBOL_ID) if name == "embed.weight" else slice(None)
        assert torch.equal(centred[name][same], value[same]), name


@pytest.mark.slow
def test_training_keeps_the_sum(tmp_path: Path) -> None:
    alone = Run.create(tmp_path / "alone", tiny_config(model=CENTRED))
    train(alone, "cpu")
    runs = [
        Run.create(tmp_path / f"s{seed}", tiny_config(model=CENTRED, seed=seed))
        for seed in range(2)
    ]
    train_together(runs, "cpu")
    for run in (alone, *runs):
        before, after = (run.model(step).state_dict()["embed.weight"] for step in (0, None))
        assert not torch.equal(before, after)
        assert imbalance(before) < 1e-6
        assert imbalance(after) < 1e-6
    for name, value in runs[0].model().state_dict().items():
        expected = alone.model().get_parameter(name)
        torch.testing.assert_close(value, expected, rtol=1e-3, atol=1e-4)


def test_without_a_choice_nothing_is_centred(trained: Run) -> None:
    assert imbalance(trained.model().state_dict()["embed.weight"]) > 0.01


@pytest.mark.parametrize("norm", ["layer", "rms"])
def test_under_equal_attention_equal_counts_cancel(norm: str) -> None:
    """What a head gathers from a^n b^n is then the share of BOS, and nothing else."""
    shape = ModelConfig(
        n_layers=1,
        n_heads=2,
        d_model=16,
        d_mlp=16,
        norm=norm,
        bias=False,
        eps=1e-12,
        counting=Counting(centred=True),
    )
    model = build(shape, language("anbn").vocabulary, 0).double()
    with torch.no_grad():
        model.blocks[0].attn.q.weight.zero_()

    def gathered(word: str) -> torch.Tensor:
        tokens = model.to_tokens(word)
        _, cache = model.run_with_cache(tokens)
        return cache["blocks.0.attn.hook_z"][0, -1] * tokens.shape[1]

    one, many, more = (gathered("a" * n + "b" * m) for n, m in ((1, 1), (40, 40), (40, 41)))
    torch.testing.assert_close(one, many, rtol=1e-4, atol=1e-6)
    assert not torch.allclose(many, more, rtol=1e-2, atol=1e-3)


@pytest.mark.slow
def test_averaging_heads_read_a_difference_alike_at_every_length() -> None:
    """Their norm takes the length away: what holds for short words then does for long ones."""
    shape = ModelConfig(
        n_heads=4,
        counting=Counting(averaging_heads=2, head_norm=True, centred=True),
        bias=False,
        eps=1e-12,
    )
    model = build(shape, language("anbn").vocabulary, 0).double()

    def read(n: int, difference: int) -> torch.Tensor:
        word = "a" * n + "b" * (n - difference)
        _, cache = model.run_with_cache(model.to_tokens(word))
        return cache["blocks.0.attn.hook_z"][0, -1]

    short = [read(4, difference) for difference in (-1, 0, 1, 2)]
    for n in (9, 150):
        for difference, expected in zip((-1, 0, 1, 2), short, strict=True):
            found = read(n, difference)
            torch.testing.assert_close(found[:2], expected[:2], rtol=0, atol=1e-4)
            assert (found[2:] - expected[2:]).abs().max() > 1e-2  # those that learn where to look
    for one, other in pairwise(short):
        assert (one[:2] - other[:2]).abs().max() > 0.1


@pytest.mark.slow
def test_counters_read_equal_counts_alike_at_every_length() -> None:
    """Of an untrained model: some cancel a with b, and some are near -1 or 1 after few symbols."""
    shape = ModelConfig(
        d_model=128, counting=Counting(averaging_heads=3, counters=True), bias=False
    )
    model = build(shape, language("anbncn").vocabulary, 0)

    def heard(word: str, hook: str) -> torch.Tensor:
        _, cache = model.run_with_cache(model.to_tokens(word))
        return cache[f"blocks.0.attn.hook_{hook}"][0, :, :3].flatten(1)

    values = heard("abc", "v")
    bos, a, b, c = values.round()
    settled = ((values - values.round()).abs() < 1e-5).all(dim=0)
    for word, sums in (
        ("a" * 10 + "b" * 10, a + b),
        ("a" * 400 + "b" * 400, a + b),
        ("a" * 9 + "b" * 9 + "c" * 9, a + b + c),
    ):
        found = heard(word, "z")[-1]
        cancel, add = settled & (sums == 0), settled & (sums != 0)
        assert cancel.sum() > 3
        assert add.sum() > 3
        torch.testing.assert_close(
            found[cancel], (bos / (1 + bos**2).sqrt())[cancel], atol=0.01, rtol=0
        )
        assert (found[add].abs() > 0.98).all()
    differ = settled & (a + b == 0) & (a != 0)
    short, equal = (heard("a" * 400 + "b" * n, "z")[-1, differ] for n in (399, 400))
    assert ((short - equal).abs() > 0.2).all()


@pytest.mark.parametrize("coarse", [torch.bfloat16, torch.half])
@pytest.mark.parametrize("counting", [{"counters": True}, {"head_norm": True}, {}])
def test_heads_that_count_refuse_a_precision_in_which_they_cannot(
    small_model: Callable[..., HookedTransformer],
    tokens: torch.Tensor,
    coarse: torch.dtype,
    counting: dict[str, bool],
) -> None:
    model = small_model(counting=Counting(averaging_heads=2, **counting))
    with torch.autocast("cpu", dtype=coarse), pytest.raises(UserError, match="keep float32"):
        model(tokens)
    with pytest.raises(UserError, match="keep float32"):
        model.to(coarse)(tokens)
    small_model().to(coarse)(tokens)
