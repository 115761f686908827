"""The drawing's numbers, the steps of a head, the costs, and kernel attention, against oracles."""

from __future__ import annotations

import json
import math
from collections.abc import Callable

import numpy as np
import pytest
import torch

from analyses.charts.architecture import drawing, hooks, parameters
from analyses.lectures.costs import (
    cost_lines,
    cost_table,
    counted,
    example_tokens,
    growth_chart,
    lengths_of,
    measured,
    predicted,
    share_chart,
)
from analyses.lectures.worked_example import (
    head_steps,
    layer_steps,
    step_chart,
    window_step,
    window_table,
)
from models.base import build
from models.choices import Counting
from models.languages import Vocabulary
from models.model_config import ModelConfig
from models.operations import operations
from models.rivals.ngram import HookedNGram
from models.transformer.model import HookedTransformer

VOCABULARY = Vocabulary(("a", "b", "c"))
SIZES = {"n_layers": 2, "n_heads": 2, "d_model": 8, "d_mlp": 12, "n_ctx": 64}
TRANSFORMERS: list[dict[str, object]] = [
    {},
    {"positions": "learned", "norm_placement": "post"},
    {"positions": "sinusoidal", "scores": "dot", "norm": "rms", "norm_placement": "sandwich"},
    {"positions": "rotary", "mlp": "gated", "act_fn": "silu", "bias": False},
    {"positions": "alibi", "scores": "additive", "mask": "strictly_causal", "head_width": 6},
    {"positions": "t5", "mask": "bidirectional", "mlp": "none", "norm": "none", "n_layers": 1},
    {
        "bias": False,
        "counting": Counting(averaging_heads=1, head_norm=True, centred=True),
    },
    {"counting": Counting(averaging_heads=1, counters=True)},
    {"parallel": True, "qk_norm": "layer", "value_width": 3},
    {"parallel": True, "norm": "none", "mlp": "gated"},
    {"scores": "identity", "positions": "rotary"},
    {"positions": "appended"},
    {"positions": "concatenated", "counting": Counting(centred=True)},
    {"residual": False, "norm_placement": "post"},
    {"scores": "linear", "value_width": 5, "norm_placement": "post"},
]
RIVALS: list[dict[str, object]] = [
    {"architecture": "lstm"},
    {"architecture": "gru", "bias": False},
    {"architecture": "rnn"},
    {"architecture": "feedforward"},
    {"architecture": "feedforward", "n_layers": 1},
    {"architecture": "cnn", "kernel_size": 3},
    {"architecture": "cnn", "norm_placement": "post"},
    {"architecture": "ngram"},
    {"architecture": "ngram", "order": 1},
]


def made(changes: dict[str, object]):
    return build(ModelConfig(**{**SIZES, **changes}), VOCABULARY).eval()  # type: ignore[arg-type]


def texts(chart) -> str:
    """All data of a chart, as text."""
    return json.dumps(chart.to_dict()["datasets"], ensure_ascii=False)


@pytest.mark.parametrize("changes", TRANSFORMERS + RIVALS, ids=str)
def test_parameters_are_all_there(changes: dict[str, object]) -> None:
    model = made(changes)
    total = parameters(model)["numbers"].sum()
    if model.config.architecture == "ngram":
        assert total == sum(2 * 5 ** (k + 1) for k in range(model.config.order))
    else:
        assert total == sum(p.numel() for p in model.parameters())


@pytest.mark.parametrize("changes", TRANSFORMERS + RIVALS, ids=str)
def test_the_drawing_counts_every_parameter(changes: dict[str, object]) -> None:
    """Boxes inside the frame stand for every layer, those outside for themselves."""
    model = made(changes)
    drawn = drawing(model, 7).to_dict()
    rows = [row for data in drawn["datasets"].values() for row in data]
    frames = [row for row in rows if set(row) == {"x", "x2", "y", "y2"}]
    total = 0
    for box in (row for row in rows if "shape and parameters" in row):
        said = [part for part in box["shape and parameters"].split("·") if "params" in part]
        times = 1
        if frames and frames[0]["y"] < box["y"] < frames[0]["y2"]:
            times = 1 if "shared" in box["shape and parameters"] else model.config.n_layers
        total += times * sum(int(part.split()[0].replace(",", "")) for part in said)
    assert total == sum(p.numel() for p in model.parameters())


@pytest.mark.slow
def test_the_drawing_shows_the_parts_in_their_places() -> None:
    pre = texts(drawing(made({}), 7))
    assert "7 × 2 × 4" in pre
    assert "q·k / √4" in pre
    assert "× 2 layers" in pre
    assert "final LayerNorm" in pre
    assert "final" not in texts(drawing(made(TRANSFORMERS[1]), 7))
    assert "learned positions" in texts(drawing(made(TRANSFORMERS[1]), 7))
    assert texts(drawing(made(TRANSFORMERS[2]), 7)).count('"RMSNorm", "style"') == 4
    assert "by position" in texts(drawing(made(TRANSFORMERS[3]), 7))
    assert "W_gate" in texts(drawing(made(TRANSFORMERS[3]), 7))
    assert "+ ALiBi" in texts(drawing(made(TRANSFORMERS[4]), 7))
    encoder = texts(drawing(made(TRANSFORMERS[5]), 7))
    assert "+ T5 bias" in encoder
    assert "W_out" not in encoder
    assert "Norm" not in encoder
    assert "<end> at <bos>" in encoder


def test_the_hook_table_is_the_models() -> None:
    table = hooks(ModelConfig(**SIZES))  # type: ignore[arg-type]
    row = table[table["name"] == "blocks.{layer}.attn.hook_pattern"].iloc[0]
    assert row["shape"] == "batch × head × query × key"


@pytest.mark.parametrize("changes", TRANSFORMERS, ids=str)
def test_the_steps_of_a_head_follow_from_each_other(
    small_model: Callable[..., HookedTransformer], changes: dict[str, object]
) -> None:
    model = small_model(**{**SIZES, **changes})
    tokens = example_tokens(model, 7)
    layer = model.config.n_layers - 1
    head = model.config.n_heads - 1  # the first may average
    listed = head_steps(model, tokens, layer, head)
    steps = {step.name: step.values.double() for step in listed}
    allowed = steps["mask"] == 1
    rule = {"causal": np.tril, "strictly_causal": lambda m: np.tril(m, -1)}
    ones = np.ones((7, 7), dtype=bool)
    assert (allowed.numpy() == rule.get(model.config.mask, np.asarray)(ones)).all()
    assert (steps["scores"][~allowed] == -math.inf).all()
    pattern = steps["scores"].softmax(dim=-1).nan_to_num(0.0)  # a row without keys is zero
    torch.testing.assert_close(steps["pattern"], pattern, atol=1e-6, rtol=1e-5)
    z = steps["pattern"] @ steps["v"]
    if model.config.counting.head_norm:
        z = z / z.square().mean(dim=-1, keepdim=True).add(model.config.eps).sqrt()
    torch.testing.assert_close(steps["z"], z, atol=1e-5, rtol=1e-4)
    q, k = (steps.get(f"{name} normed", steps[name]) for name in "qk")
    q, k = (steps.get(f"{name} turned", x) for name, x in (("q", q), ("k", k)))
    if model.config.scores == "additive":
        w = model.blocks[layer].attn.w_score[-1].double()
        scores = (q[:, None] + k[None]).tanh() @ w
    elif model.config.scores == "linear":
        q, k = (torch.where(x > 0, x + 1, x.exp()) for x in (q, k))
        scores = (q @ k.T).log()
    else:
        scores = q @ k.T * (1.0 if model.config.scores == "dot" else 0.5)
    if "bias" in steps:
        torch.testing.assert_close(steps["products"], scores, atol=1e-6, rtol=1e-5)
        scores = scores + steps["bias"]
    torch.testing.assert_close(
        steps["scores"][allowed], scores[allowed], atol=1e-6, rtol=1e-5, check_dtype=False
    )
    for step in listed:
        assert len(step.rows) == step.values.shape[0]
        assert len(step.columns) == step.values.shape[1]


@pytest.mark.parametrize(
    "changes", [{}, {"positions": "alibi"}, {"positions": "t5", "scores": "additive"}]
)
def test_the_steps_of_an_averaging_head(
    small_model: Callable[..., HookedTransformer], changes: dict[str, object]
) -> None:
    model = small_model(**{**SIZES, **changes, "counting": Counting(averaging_heads=1)})
    steps = {step.name: step for step in head_steps(model, example_tokens(model, 7), 0, 0)}
    for name in ("q", "k", "bias"):
        if name in steps:
            assert " = 0" in steps[name].formula
            assert not steps[name].values.any()
    even = torch.ones(7, 7).tril() / torch.arange(1, 8)[:, None]
    torch.testing.assert_close(steps["pattern"].values, even)
    torch.testing.assert_close(steps["z"].values, even @ steps["v"].values)


@pytest.mark.parametrize("mask", ["causal", "strictly_causal", "bidirectional"])
def test_the_steps_of_a_counting_head(
    small_model: Callable[..., HookedTransformer], mask: str
) -> None:
    model = small_model(
        **{
            **SIZES,
            "mask": mask,
            "counting": Counting(averaging_heads=1, counters=True),
        }
    )
    steps = {step.name: step for step in head_steps(model, example_tokens(model, 7), 0, 0)}
    assert "step" in steps["v"].formula
    assert steps["v"].values.abs().max() <= 1
    s = steps["mask"].values @ steps["v"].values
    torch.testing.assert_close(steps["sum"].values, s)
    torch.testing.assert_close(steps["z"].values, s / (1 + s**2).sqrt(), atol=1e-6, rtol=1e-5)


def test_masked_cells_are_marked_and_numbers_stand_where_there_is_room() -> None:
    model = made({})
    assert isinstance(model, HookedTransformer)
    steps = {step.name: step for step in head_steps(model, example_tokens(model, 5), 0, 0)}
    drawn = texts(step_chart(steps["scores"]))
    assert drawn.count('"-∞"') == 5 * 4 // 2
    short = step_chart(steps["scores"]).to_dict()["layer"]
    long = {step.name: step for step in head_steps(model, example_tokens(model, 41), 0, 0)}
    assert len(short) == 5
    assert len(step_chart(long["scores"]).to_dict()["layer"]) == 2


def test_the_states_of_an_lstm_are_pytorchs() -> None:
    model = made({"architecture": "lstm"})
    tokens = example_tokens(model, 6)
    cells, hidden = (step.values.T for step in layer_steps(model, tokens, 0))
    states, (_, last) = model.blocks[0].rnn(model.embed(tokens))
    torch.testing.assert_close(hidden, states[0])
    torch.testing.assert_close(cells[-1], last[0, 0])


@pytest.mark.parametrize("architecture", ["rnn", "gru", "cnn"])
def test_the_last_step_is_what_the_model_reads(architecture: str) -> None:
    model = made({"architecture": architecture, "norm_placement": "pre"})
    tokens = example_tokens(model, 6)
    out = layer_steps(model, tokens, 1)[-1].values.T[None]
    final = model.ln_final(out) if architecture == "cnn" else out
    torch.testing.assert_close(model.unembed(final), model(tokens))


@pytest.mark.parametrize("order", [1, 2, 3])
def test_the_windows_probabilities_are_the_models(order: int) -> None:
    model = made({"architecture": "ngram", "order": order})
    assert isinstance(model, HookedNGram)
    tokens = example_tokens(model, 9)
    target = (torch.arange(9 * 5).view(1, 9, 5) % 3 == 0).float()
    model.count(tokens, target, torch.ones(1, 9, 5))
    table = window_table(model, tokens)
    longest = table[table["length"] == order - 1]
    found = torch.tensor(longest["probability"].to_numpy()).view(9, 5).float()
    torch.testing.assert_close(found, model(tokens)[0].sigmoid(), atol=1e-5, rtol=1e-4)
    step = window_step(table, VOCABULARY)
    assert step.values.shape == (9, 4)  # nothing is ever followed by BOS
    assert step.rows[0] == "0: " + " ".join(["<bos>"] * (order - 1))


@pytest.mark.parametrize("changes", TRANSFORMERS + RIVALS, ids=str)
def test_predicted_operations_are_those_that_pytorch_counts(changes: dict[str, object]) -> None:
    model = made(changes)
    for positions in (5, 16):
        formula, count = predicted(model, [positions]), counted(model, positions)
        assert formula["part"].tolist() == count["part"].tolist()
        assert formula["flops"].tolist() == count["counted"].tolist()


def test_the_lectures_orders() -> None:
    """D = 8, H d = 8: maps 8 N D^2, pairs 4 N^2 D, both in two layers; they meet at N = 2 D."""
    model = made({})
    table = predicted(model, [16]).set_index("part")["flops"]
    assert table["attention: q, k, v, o"] == 2 * 8 * 16 * 64
    assert table["attention: pairs"] == 2 * 4 * 16 * 16 * 8
    assert table["attention: pairs"] == table["attention: q, k, v, o"]
    assert table["MLP"] == 2 * 4 * 16 * 8 * 12
    assert table["unembedding"] == 2 * 16 * 8 * 5
    lines = cost_lines(model.config, 10).set_index("layer")
    assert lines.loc["self-attention", "work"] == "O(N² D) = 800"
    assert lines.loc["recurrent", "sequential steps"] == "O(N) = 10"
    assert lines.loc["convolution, k = 5", "path length"] == "O(N/k) = 2"


@pytest.mark.parametrize("changes", [TRANSFORMERS[0], *RIVALS], ids=str)
def test_the_measured_parts_make_up_the_pass(changes: dict[str, object]) -> None:
    model = made(changes)
    before = sum(len(module._forward_hooks) for module in model.modules())
    seconds = measured(model, 16, repeats=2)
    assert sum(len(module._forward_hooks) for module in model.modules()) == before
    assert (seconds["seconds"] >= 0).all()
    assert seconds["part"].tolist()[:-1] == [part.name for part in operations(model.config, 5)]
    table = cost_table(predicted(model, [16]), [counted(model, 16), seconds])
    assert table["share of time"].sum() == pytest.approx(1)
    assert table["part"].tolist()[-1] == "everything else"
    for chart in (growth_chart(table, "seconds"), share_chart(table)):
        chart.to_dict()
    if model.config.architecture != "ngram":
        assert table["share of flops"].sum() == pytest.approx(1)
        growth_chart(table, "flops").to_dict()


def test_a_learned_table_ends_the_lengths() -> None:
    assert lengths_of(made({"positions": "learned"}).config) == (16, 32, 64)
    assert lengths_of(made({}).config)[-1] == 1024
