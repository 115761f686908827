"""A network of the lab as GPT-2 or GPT-NeoX: the same logits, in memory, from a folder, bridged."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from conftest import tiny_config
from torch import Tensor
from transformer_lens import patching
from transformer_lens.tools.analysis import logit_lens
from transformers import AutoModelForCausalLM, AutoTokenizer

from analyses.command_line.app import main
from models.base import LanguageModel, build
from models.errors import UserError
from models.foreign.export import exported, network_files
from models.foreign.folder import read
from models.foreign.network import Asked, bridged
from models.languages import END_ID, language
from models.model_config import ModelConfig
from models.runs.run import Run
from models.training.loop import train
from models.transformer.model import HookedTransformer

KNOWN = language("dieren").vocabulary
SHAPES: dict[str, dict[str, Any]] = {
    "learned": {"positions": "learned"},
    "no positions, relu": {"positions": "none", "act_fn": "relu"},
    "sinusoids, no MLP": {"positions": "sinusoidal", "mlp": "none"},
    "no biases, silu": {"positions": "learned", "bias": False, "act_fn": "silu"},
    "unscaled, softmax": {"positions": "learned", "scores": "dot", "output": "softmax"},
    "one layer, one head": {"n_layers": 1, "n_heads": 1},
    "rotary": {"positions": "rotary"},
    "rotary, parallel": {"positions": "rotary", "parallel": True},
    "rotary, unscaled, no MLP": {"positions": "rotary", "mlp": "none", "scores": "dot"},
    "rotary, no biases, softmax": {
        "positions": "rotary",
        "bias": False,
        "output": "softmax",
        "position_base": 500.0,
    },
}


def network(**config: Any) -> LanguageModel:
    """A network with large random weights, so that each part changes the logits."""
    model = build(ModelConfig(**{"d_model": 32, "d_mlp": 48, "n_ctx": 32, **config}), KNOWN)
    chance = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for weight in model.parameters():
            weight += 0.3 * torch.randn(weight.shape, generator=chance)
    return model.eval()


def tokens() -> Tensor:
    words = torch.randint(2, len(KNOWN), (6, 20), generator=torch.Generator().manual_seed(2))
    return torch.cat([torch.zeros(6, 1, dtype=torch.long), words], dim=1)


@torch.no_grad()
def assert_same(ours: LanguageModel, theirs: Any) -> None:
    one, other = ours(tokens()), theirs(tokens())
    other = getattr(other, "logits", other)
    if ours.softmax:
        one, other = one.log_softmax(dim=-1), other.log_softmax(dim=-1)
    torch.testing.assert_close(other, one, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("shape", SHAPES)
def test_logits_are_the_same_everywhere(shape: str, tmp_path: Path) -> None:
    """In memory; read from the folder by transformers and by the lab; and in TransformerLens."""
    ours = network(**SHAPES[shape])
    made = exported(ours)
    assert_same(ours, made)
    for name, content in network_files(ours).items():
        (tmp_path / name).write_bytes(content)
    assert_same(ours, AutoModelForCausalLM.from_pretrained(tmp_path).eval())
    tokenizer = AutoTokenizer.from_pretrained(tmp_path)
    assert tokenizer("aap kat olifant")["input_ids"] == [
        KNOWN.ids[symbol] for symbol in ("aap", "kat", "olifant")
    ]
    assert (tokenizer.bos_token_id, tokenizer.eos_token_id) == (0, 1)
    foreign = read(tmp_path, Asked(), torch.device("cpu"))
    assert_same(ours, foreign.model)
    bridge = bridged(made)
    assert_same(ours, bridge)


@pytest.mark.parametrize(
    ("config", "why"),
    [
        ({"mask": "bidirectional"}, "another mask than the causal one"),
        ({"window": 4}, "another mask than the causal one"),
        ({"norm": "rms"}, "another norm than LayerNorm"),
        ({"norm_placement": "post"}, "post-norm blocks"),
        ({"qk_norm": "rms"}, "a norm of queries and keys"),
        ({"residual": False}, "no residual stream"),
        ({"mlp": "gated"}, "a gated MLP"),
        ({"scores": "additive"}, "other scores than dot products"),
        ({"head_width": 4}, "heads that do not make up the stream's width"),
        ({"positions": "alibi"}, "alibi positions"),
        ({"parallel": True}, "parallel blocks without rotary positions"),
        ({"architecture": "lstm"}, "architecture lstm is no standard Transformer"),
        ({"d_model": 4, "n_heads": 1}, "do not fit into 4 dimensions"),
    ],
)
def test_what_no_standard_network_computes_is_refused_in_one_line(
    config: dict[str, Any], why: str
) -> None:
    with pytest.raises(UserError, match=why) as caught:
        exported(network(**config))
    assert "\n" not in str(caught.value)


def test_weights_have_transformerlens_names() -> None:
    """Stacked over blocks; products of them factored."""
    ours = network()
    assert isinstance(ours, HookedTransformer)
    made = exported(ours)
    fused = made.transformer.h[1].attn.c_attn.weight  # [d_model, q k v]
    q, k, v = (part.unflatten(1, (4, 8)).transpose(0, 1) for part in fused.split(32, dim=1))
    for name, theirs in {"W_Q": q, "W_K": k, "W_V": v}.items():
        assert torch.equal(getattr(ours, name)[1], theirs)
    assert torch.equal(ours.W_out[0], made.transformer.h[0].mlp.c_proj.weight)
    torch.testing.assert_close(ours.QK.AB, ours.W_Q @ ours.W_K.mT)
    torch.testing.assert_close(ours.OV.AB[1, 2], ours.W_V[1, 2] @ ours.W_O[1, 2])
    assert ours.b_O.shape == (2, 32)
    bare = network(mlp="none")
    assert isinstance(bare, HookedTransformer)
    with pytest.raises(UserError, match="the model has no W_in: it was built without an mlp"):
        assert bare.W_in is None


PATCHES = (
    *("resid_pre", "resid_mid", "attn_out", "mlp_out", "attn_head_out_all_pos"),
    *("attn_head_q_all_pos", "attn_head_k_all_pos", "attn_head_v_all_pos"),
    "attn_head_pattern_all_pos",
)


def test_tools_of_transformerlens_say_the_same_of_ours_and_of_its_export() -> None:
    """Fourteen of them, unmodified, on the lab's own network and on the bridged export."""
    ours = network(positions="learned")
    clean, changed = tokens()[:1], tokens()[1:2]

    def answers(model: Any) -> dict[str, Tensor]:
        _, cache = model.run_with_cache(clean)
        said = {
            "accumulated_resid": cache.accumulated_resid(layer=-1),
            "decompose_resid": cache.decompose_resid(layer=-1),
            "stack_head_results": cache.stack_head_results(layer=-1),
            "stack_activation": cache.stack_activation("pattern"),
            "logit_lens": logit_lens(model, clean, targets=[END_ID]).values,
        }
        for name in PATCHES:
            patch = getattr(patching, f"get_act_patch_{name}")
            said[name] = patch(model, changed, cache, lambda logits: logits[0, -1, END_ID])
        return said

    theirs = answers(bridged(exported(ours)))
    for name, value in answers(ours).items():
        torch.testing.assert_close(theirs[name], value, rtol=1e-4, atol=1e-4, msg=name)


def test_a_run_is_written_for_other_programs(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = Run.create(tmp_path / "run", tiny_config(steps=2))
    train(run, "cpu")
    folder = tmp_path / "net"
    assert main(["report", str(run.path), "--network", str(folder)]) == 0
    assert "read it with from_pretrained" in capsys.readouterr().out
    assert json.loads((folder / "config.json").read_text())["model_type"] == "gpt2"
    assert main(["report", str(run.path), "--network", str(folder)]) == 2
    told = capsys.readouterr()
    assert "is there already: name a new folder" in told.err
    assert main(["report", "--network", str(tmp_path / "x")]) == 2
    assert "--network is of the report of a run" in capsys.readouterr().err
