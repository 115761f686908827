"""Every analysis runs on every kind of model, or says in one line why it does not apply."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import get_args

import pytest
import torch
from conftest import tiny_config
from few import fewer

from analyses.answers import answer, fresh_answer
from analyses.claims import Grade
from analyses.command_line.app import main
from analyses.questions.behaviour import accuracy
from analyses.questions.inside import interventions, probing
from analyses.questions.parts import circuits, heads, patching
from analyses.questions.rule import discovery
from analyses.questions.training import emergence
from analyses.questions.words import explanations
from analyses.questions.words import leaderboard as of_run
from interp.heads.logit_attribution import direct_logit_attribution
from interp.heads.qk_and_ov import ov_circuit, qk_circuit
from interp.model import SITES, sites_of
from models.errors import UserError
from models.languages import END_ID
from models.model_config import ModelConfig
from models.runs.run import Run
from models.training.loop import train
from models.transformer.model import HookedTransformer

SIZES = {"n_layers": 2, "n_heads": 2, "d_model": 8, "d_mlp": 12}
KINDS: dict[str, dict[str, str]] = {
    "decoder": {},
    "encoder": {"mask": "bidirectional", "positions": "t5"},
    "strict": {"mask": "strictly_causal", "scores": "additive"},
    "post": {"norm_placement": "post", "norm": "rms", "mlp": "gated"},
    "sandwich": {"norm_placement": "sandwich", "positions": "rotary"},
    "attention only": {"mlp": "none", "norm": "none", "positions": "alibi"},
    "lstm": {"architecture": "lstm"},
    "gru": {"architecture": "gru"},
    "rnn": {"architecture": "rnn"},
    "parallel": {"parallel": True, "qk_norm": "rms", "value_width": 3},
    "identity": {"scores": "identity", "positions": "learned"},
    "no residual": {"residual": False},
    "no residual, post": {"residual": False, "norm_placement": "post", "mask": "strictly_causal"},
    "linear": {"scores": "linear", "dropout": 0.1},
    "cnn": {"architecture": "cnn"},
    "feedforward": {"architecture": "feedforward", "n_ctx": 16},
    "ngram": {"architecture": "ngram"},
}
TASKS: dict[str, tuple[object, object]] = {
    "accuracy": (accuracy, accuracy.Options(max_n=2, count=4)),
    "probing": (probing, probing.Options(words=40, probes=("mlp",))),
    "interventions": (interventions, interventions.Options(words=12, pairs=8, rank=2)),
    "emergence": (emergence, emergence.Options(words=40, count=2)),
    "heads": (heads, heads.Options(words=12)),
    "patching": (patching, patching.Options(n=2, pairs=3)),
    "circuits": (circuits, circuits.Options(pairs=12, goal=0.5)),
    "explanations": (explanations, explanations.Options(n=2, samples=16, draws=2)),
    "leaderboard": (of_run, of_run.Options(2, 6, ("uniform",), samples=16, draws=2)),
    "discovery": (discovery, discovery.Options(words=20, max_states=4, queries=500)),
}


LONG = ("identity", "no residual, post")
"""Kinds that are near to others: `make torture` alone asks every question of them."""

ALIKE = ("sandwich", "linear", "rnn", "post", "strict")
LONGEST = ("interventions", "leaderboard")
FEW = ("encoder", "attention only", "lstm", "cnn", "ngram", "feedforward")
"""Kinds that are asked the longest questions."""
READ_HOOKS = ("probing", "interventions", "emergence", "discovery")
"""Questions that see verdicts and activations alone. One kind of each set of hooks will do for
them; the other questions take a network apart."""


def is_long(kind: str, name: str) -> bool:
    """Is this question, of this kind, near to what other tests ask, and not quick?"""
    if kind == "decoder":  # the tests of each question ask it
        return name in (*READ_HOOKS, "heads", "explanations")
    if name in LONGEST:
        return kind not in FEW
    return kind in LONG or (kind in ALIKE and name in READ_HOOKS)


CASES = [
    pytest.param(kind, name, marks=[pytest.mark.torture] if is_long(kind, name) else [])
    for kind in KINDS
    for name in TASKS
]


@pytest.fixture(
    scope="module",
    params=[pytest.param(k, marks=[pytest.mark.torture] if k in LONG else []) for k in KINDS],
)
def run(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Run:
    """A finished tiny run of each kind, shared by the tests of this file.

    Of one layer but for the plain decoder, whose circuits lead from layer to layer.
    """
    layers = 2 if request.param == "decoder" else 1
    model = ModelConfig(**{**SIZES, "n_layers": layers, **KINDS[request.param]})
    objective = "verdict" if model.sees_ahead else "next-symbols"
    config = tiny_config(model=model, objective=objective, steps=3)
    made = Run.create(tmp_path_factory.mktemp("kinds") / request.param.replace(" ", "-"), config)
    train(made, "cpu")
    return made


def refused(run: Run, name: str) -> str | None:
    """Why an analysis must say that it does not apply."""
    model = run.config.model
    if name in ("heads", "circuits") and model.architecture != "transformer":
        return "no attention heads: "
    if name == "interventions" and model.architecture in ("ngram", "feedforward"):
        return "no activations at every symbol of a word: "
    if name == "circuits" and model.norm_placement == "pre" and not model.residual:
        return "no residual stream that its parts write to: "
    if name == "circuits" and model.norm_placement != "pre":
        return f"{model.norm_placement}-norm blocks: "
    return None


@pytest.mark.sampled
@pytest.mark.parametrize(("run", "name"), CASES, indirect=["run"])
def test_every_analysis_runs_or_says_why_not(run: Run, name: str) -> None:
    module, options = TASKS[name]
    if reason := refused(run, name):
        with pytest.raises(UserError, match=rf"^[^\n]* has {reason}[^\n]*$"):
            answer(run, name, options)
        return
    with fewer():
        result = fresh_answer(run, module.QUESTION, options)
    assert len(result.table)
    assert result.sentence
    assert module.QUESTION.chart(result).to_dict()["$schema"]
    assert result.verdict.grade in get_args(Grade)


def test_predict_and_hooks_answer(run: Run, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["predict", str(run.path), "a a b", "--json"]) == 0
    said = json.loads(capsys.readouterr().out)
    assert [step["symbol"] for step in said["steps"]] == ["a", "a", "b"]
    last = said["steps"][-1]
    assert said["accepted"] == (last["accepted"] if "accepted" in last else "<end>" in last["next"])
    assert ("accepted" in last) == run.objective.verdict_alone
    assert main(["show", str(run.path), "hooks", "--json"]) == 0
    rows = json.loads(capsys.readouterr().out)
    assert {"name", "shape", "meaning"} == set(rows[0])


def test_probing_sees_the_states_of_every_kind(run: Run) -> None:
    model = run.model()
    sites = sites_of(model, SITES)
    assert set(sites.values()) <= set(model.hook_dict)
    wanted = {
        "lstm": "cell",
        "gru": "resid_post",
        "rnn": "resid_post",
        "cnn": "conv_out",
        "feedforward": "resid_post",
    }
    last = f"L{model.cfg.n_layers - 1} {wanted.get(run.config.model.architecture, 'attn_out')}"
    assert (last if run.config.model.architecture != "ngram" else "embed") in sites


@pytest.mark.parametrize("mlp", ["plain", "none"])
@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize(
    ("norm", "placement"),
    [
        ("layer", "pre"),
        ("layer", "post"),
        ("layer", "sandwich"),
        ("rms", "pre"),
        ("rms", "post"),
        ("rms", "sandwich"),
        ("none", "pre"),
    ],
)
def test_the_parts_of_a_word_sum_to_its_logit_wherever_the_norms_stand(
    small_model: Callable[..., HookedTransformer],
    tokens: torch.Tensor,
    norm: str,
    placement: str,
    bias: bool,
    mlp: str,
) -> None:
    model = small_model(norm=norm, norm_placement=placement, bias=bias, mlp=mlp).double()
    last = torch.tensor([6, 7, 5, 7])
    table = direct_logit_attribution(model, tokens, last, END_ID)
    logits = model(tokens)[torch.arange(4), last, END_ID]
    summed = table.groupby("word")["value"].sum().to_numpy()
    assert summed == pytest.approx(logits.detach().numpy(), rel=1e-6, abs=1e-6)
    assert ("norm bias" in set(table["part"])) == (bias and norm == "layer" and placement != "pre")


@pytest.mark.parametrize("placement", ["pre", "post", "sandwich"])
@pytest.mark.parametrize(("mlp", "last"), [("plain", "L1 mlp"), ("none", "L1H0")])
def test_without_a_residual_only_the_last_part_speaks_to_the_logits(
    small_model: Callable[..., HookedTransformer],
    tokens: torch.Tensor,
    placement: str,
    mlp: str,
    last: str,
) -> None:
    model = small_model(residual=False, norm_placement=placement, mlp=mlp).double()
    at = torch.full((4,), 7)
    table = direct_logit_attribution(model, tokens, at, END_ID).set_index("part")["value"]
    logits = model(tokens)[torch.arange(4), at, END_ID].detach().numpy()
    assert table.groupby(table.groupby("part").cumcount()).sum().to_numpy() == pytest.approx(logits)
    assert (table[last] != 0).all()
    assert (table[["embed", "L0H0", "L0H3", "L0 bias"]] == 0).all()
    with pytest.raises(UserError, match=r"^without a residual [^\n]*$"):
        model.accumulated_bias(1)
    for circuit in (qk_circuit, ov_circuit):
        with pytest.raises(ValueError, match=r"has no residual stream that [^\n]*$"):
            circuit(model, 0, 0)


def test_each_head_passes_its_own_norm_in_a_sandwich(
    small_model: Callable[..., HookedTransformer], tokens: torch.Tensor
) -> None:
    """Without the norm on the way the shares would be other ones."""
    model = small_model(norm_placement="sandwich", bias=False).double()
    last = torch.full((4,), 7)
    table = direct_logit_attribution(model, tokens, last, END_ID)
    _, cache = model.run_with_cache(tokens)
    attention = table[table["part"].str.match(r"L0H\d")].groupby("word")["value"].sum()
    added = cache["blocks.0.hook_attn_out"][:, 7]
    centred = added - added.mean(-1, keepdim=True)
    expected = centred / cache["ln_final.hook_scale"][:, 7] @ model.W_U[:, END_ID]
    assert attention.to_numpy() == pytest.approx(expected.detach().numpy())
