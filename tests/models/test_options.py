"""What a block can have beyond the lectures' own: against other libraries and closed forms."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from conftest import TINY, stir, tiny_config, tiny_of
from torch import Tensor, nn
from transformers import CohereConfig, Qwen3Config
from transformers.models.cohere.modeling_cohere import CohereDecoderLayer
from transformers.models.qwen3.modeling_qwen3 import Qwen3Attention

from models.base import build
from models.errors import UserError
from models.languages import Vocabulary
from models.model_config import ModelConfig
from models.runs.run import Run
from models.training.evaluation import judge
from models.training.loop import train
from models.training.trainer import Trainer
from models.transformer.attention import Attention
from models.transformer.block import Block
from models.transformer.linear import features, linear_attention
from models.transformer.masks import allowed
from models.transformer.positions import rotations
from models.transformer.relations import Relations

Heard = dict[str, Tensor]

D, N = 16, 37
SHAPE = ModelConfig(n_layers=2, n_heads=4, d_model=D, d_mlp=24)


def drawn(*shape: int, seed: int = 5) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed)).double()


def close(ours: Tensor, expected: Tensor, tolerance: float = 1e-10) -> None:
    torch.testing.assert_close(ours.detach(), expected.detach(), rtol=0, atol=tolerance)


def spectator(activation: Tensor, hook: object) -> None:
    """A hook that only looks."""


# -- parallel blocks and norms of queries and keys, as others have them ---------------------------


def test_a_parallel_block_is_cohere_s() -> None:
    """x + Attention(norm(x)) + MLP(norm(x)), with a gated MLP and a norm without bias."""
    config = replace(SHAPE, parallel=True, mlp="gated", act_fn="silu", bias=False)
    block = stir(Block(config)).double().eval()
    sizes = {"hidden_size": D, "intermediate_size": 24, "num_attention_heads": 4}
    theirs = CohereConfig(
        **sizes, vocab_size=8, eos_token_id=1, attn_implementation="eager", layer_norm_eps=1e-5
    )
    layer = CohereDecoderLayer(theirs, 0)
    layer.input_layernorm = nn.LayerNorm(D, bias=False)  # theirs computes in float32
    layer.double().eval()
    names = {
        "self_attn.q_proj": "attn.q",
        "self_attn.k_proj": "attn.k",
        "self_attn.v_proj": "attn.v",
    }
    names |= {
        "self_attn.o_proj": "attn.o",
        "mlp.gate_proj": "mlp.fc_gate",
        "mlp.up_proj": "mlp.fc_in",
    }
    names |= {"mlp.down_proj": "mlp.fc_out", "input_layernorm": "ln1"}
    own = block.state_dict()
    layer.load_state_dict({f"{new}.weight": own[f"{old}.weight"] for new, old in names.items()})
    x, still = drawn(2, N, D), torch.ones(1, N, 4).double()
    hidden = torch.full((N, N), float("-inf")).double().triu(1)[None, None]
    out = layer(x, attention_mask=hidden, position_embeddings=(still, 0 * still))
    out = out[0] if isinstance(out, tuple) else out
    close(block(x), out, 1e-6)  # their softmax computes in float32
    assert (block(x) - x).abs().max() > 0.5


@pytest.mark.parametrize("positions", ["none", "rotary"])
def test_queries_and_keys_are_normed_as_in_qwen3(positions: str) -> None:
    config = replace(SHAPE, qk_norm="rms", bias=False, positions=positions, eps=1e-6)
    attention = stir(Attention(config)).double().eval()
    sizes = {"hidden_size": D, "num_attention_heads": 4, "num_key_value_heads": 4, "head_dim": 4}
    theirs = Qwen3Attention(Qwen3Config(**sizes, attn_implementation="eager"), 0)
    theirs.q_norm, theirs.k_norm = (nn.RMSNorm(4, 1e-6) for _ in "qk")  # in float64, as ours
    theirs.double().eval()
    own = attention.state_dict()
    names = {f"{x}_proj": x for x in "qkvo"} | {"q_norm": "q_norm", "k_norm": "k_norm"}
    theirs.load_state_dict({f"{new}.weight": own[f"{old}.weight"] for new, old in names.items()})
    x, turn = drawn(2, N, D), None
    cosine, sine = torch.ones(N, 1, 4), torch.zeros(N, 1, 4)
    if positions == "rotary":
        cosine, sine = turn = rotations(N, 4)
    hidden = torch.full((N, N), float("-inf")).double().triu(1)[None, None]
    out = theirs(x, (cosine[None, :, 0].double(), sine[None, :, 0].double()), hidden)[0]
    close(attention(x, Relations(rotation=turn)), out, 1e-6)  # their softmax, in float32
    assert (attention(x) - Attention.forward(stir(Attention(SHAPE)).double(), x)).abs().max() > 0.1


def test_large_queries_no_longer_saturate_the_softmax() -> None:
    """What the norm is for: scores stay within sqrt(d_head), however large the weights are."""
    for kind, bounded in (("none", False), ("layer", True), ("rms", True)):
        attention, scores = Attention(replace(SHAPE, qk_norm=kind)).double(), list[Tensor]()
        attention.q.weight.data *= 100
        attention.hook_attn_scores.add_hook(lambda x, hook, scores=scores: scores.append(x))
        attention(drawn(2, N, D))
        largest = scores[0][scores[0].isfinite()].abs().max()
        assert (largest <= 4**0.5 + 1e-9) == bounded


def test_attention_without_parameters_is_a_head_of_identities() -> None:
    """Y = softmax(X X^T) X: four maps that change nothing, and dot scores without a scale."""
    config = replace(SHAPE, n_heads=1, scores="dot", mask="bidirectional", bias=False)
    attention, x = Attention(config).double(), drawn(2, N, D)
    for name in "qkvo":
        getattr(attention, name).weight.data = torch.eye(D).double()
    found = attention(x, Relations(may=allowed("bidirectional", N)[:, None]))
    close(found, (x @ x.transpose(1, 2)).softmax(dim=-1) @ x)


@pytest.mark.parametrize("positions", ["none", "rotary"])
@pytest.mark.parametrize("mask", ["causal", "bidirectional"])
def test_identity_scores_are_those_of_identity_maps(mask: str, positions: str) -> None:
    """Each head compares its own slice; values and output are learned, queries and keys are not."""
    config = replace(SHAPE, mask=mask, positions=positions)
    plain = stir(Attention(config)).double()
    own = Attention(replace(config, scores="identity")).double()
    own.load_state_dict({n: w for n, w in plain.state_dict().items() if n[0] in "vo"})
    for name in "qk":
        getattr(plain, name).weight.data = torch.eye(D).double()
        getattr(plain, name).bias.data.zero_()
    turned = rotations(N, 4) if positions == "rotary" else None
    may = allowed(mask, N)[:, None] if mask == "bidirectional" else None
    x = drawn(2, N, D)
    close(own(x, Relations(may, rotation=turned)), plain(x, Relations(may, rotation=turned)))
    close(own.W_Q, plain.W_Q)
    assert {name.split(".")[0] for name, _ in own.named_parameters()} == {"v", "o"}


def test_identity_scores_with_identity_values_are_attention_without_parameters() -> None:
    """Y = softmax(X X^T / sqrt(d)) X."""
    config = replace(SHAPE, n_heads=1, scores="identity", mask="bidirectional", bias=False)
    attention, x = Attention(config).double(), drawn(2, N, D)
    for name in "vo":
        getattr(attention, name).weight.data = torch.eye(D).double()
    found = attention(x, Relations(may=allowed("bidirectional", N)[:, None]))
    close(found, (x @ x.transpose(1, 2) / D**0.5).softmax(dim=-1) @ x)
    with pytest.raises(UserError, match=r"^identity scores compare slices [^\n]*head_width out$"):
        replace(SHAPE, scores="identity", head_width=3)


# -- linear attention -----------------------------------------------------------------------------


@pytest.mark.parametrize("strict", [False, True])
@pytest.mark.parametrize("positions", [1, 2, 15, 16, 17, 64, 100])
def test_the_running_sum_is_the_loop(positions: int, strict: bool) -> None:
    q, k, v = (
        drawn(2, 3, positions, 4),
        drawn(2, 3, positions, 4, seed=1),
        drawn(2, 3, positions, 5),
    )
    found = linear_attention(features(q), features(k), v, strict)
    state, norm = torch.zeros(2, 3, 4, 5).double(), torch.zeros(2, 3, 4).double()
    for i in range(positions):
        phi_q, phi_k = (torch.where(x > 0, x + 1, x.exp())[:, :, i] for x in (q, k))
        sums = torch.einsum("bhd,bhdv->bhv", phi_q, state), (phi_q * norm).sum(dim=-1)
        state = state + phi_k[..., None] * v[:, :, i, None]
        norm = norm + phi_k
        if not strict:
            sums = torch.einsum("bhd,bhdv->bhv", phi_q, state), (phi_q * norm).sum(dim=-1)
        close(found[:, :, i], (sums[0] / sums[1][..., None]).nan_to_num(0.0))


@pytest.mark.parametrize("mask", ["causal", "strictly_causal", "bidirectional"])
def test_the_running_sum_is_the_pattern_that_a_lens_sees(mask: str) -> None:
    """Without a hook no matrix of all pairs is made; with one the logits and gradients are same."""
    config = replace(SHAPE, scores="linear", mask=mask, value_width=3)
    model = stir(build(config, Vocabulary(("a", "b")))).double().eval()
    tokens = torch.randint(2, 4, (3, N), generator=torch.Generator().manual_seed(0))
    tokens[:, 0], tokens[1, 20:] = 0, 1  # one word is shorter
    found = []
    for hooks in ([], [(f"blocks.{k}.attn.hook_pattern", spectator) for k in (0, 1)]):
        model.zero_grad()
        logits = model.run_with_hooks(tokens, fwd_hooks=hooks)
        logits[tokens != 1].square().sum().backward()
        found.append([logits[tokens != 1], *(p.grad.clone() for p in model.parameters())])
    for summed, paired in zip(*found, strict=True):
        torch.testing.assert_close(summed, paired, rtol=1e-9, atol=1e-9)
    pattern = model.run_with_cache(tokens)[1]["blocks.1.attn.hook_pattern"]
    assert (pattern[..., 1:, :].sum(dim=-1) - 1).abs().max() < 1e-9
    assert pattern[..., -1, :].std() > 1e-3


def test_no_matrix_of_all_pairs_is_made() -> None:
    """The largest tensor grows with the length, not with its square."""
    attention, largest = Attention(replace(SHAPE, scores="linear")), []
    for positions in (512, 1024):
        seen = [0]

        def note(packed: Tensor, seen: list[int] = seen) -> Tensor:
            seen.append(packed.numel())
            return packed

        with torch.autograd.graph.saved_tensors_hooks(note, lambda x: x):
            attention(drawn(1, positions, D).float())
        largest.append(max(seen))
    assert largest[1] <= 2 * largest[0] < 512 * 512


# -- dropout --------------------------------------------------------------------------------------


@pytest.mark.parametrize("placement", ["pre", "post"])
@pytest.mark.parametrize("p", [0.3, 0.0])
def test_dropout_is_that_of_pytorch_s_encoder_layer(placement: str, p: float) -> None:
    """The same seed drops the same numbers; PyTorch's dropout inside the MLP is left out."""
    block = stir(Block(replace(SHAPE, dropout=p, norm_placement=placement))).double()
    theirs = nn.TransformerEncoderLayer(
        D, 4, 24, p, "gelu", 1e-5, batch_first=True, norm_first=placement == "pre"
    )
    theirs.dropout.p = 0.0
    own = block.state_dict()
    names = {"mlp.fc_in": "linear1", "mlp.fc_out": "linear2", "ln1": "norm1", "ln2": "norm2"}
    names["attn.o"] = "self_attn.out_proj"
    kinds = ("weight", "bias")
    moved = {f"{new}.{kind}": own[f"{old}.{kind}"] for old, new in names.items() for kind in kinds}
    for kind in kinds:
        stacked = torch.cat([own[f"attn.{name}.{kind}"] for name in "qkv"])
        moved[f"self_attn.in_proj_{kind}"] = stacked
    theirs.double().load_state_dict(moved)
    x, hidden = drawn(1, N, D), torch.ones(N, N, dtype=torch.bool).triu(1)
    with torch.random.fork_rng():
        torch.manual_seed(3)
        ours = block(x)
        torch.manual_seed(3)
        close(ours, theirs(x, hidden, is_causal=True))
    moved_by = (block(x) - block.eval()(x)).abs().max()
    assert (moved_by > 0.1) == (p > 0)
    close(block(x), theirs.eval()(x, hidden))


def test_a_share_of_the_weights_and_of_what_is_added_is_dropped() -> None:
    p, x = 0.25, drawn(40, N, D)
    with torch.random.fork_rng():
        torch.manual_seed(0)
        for scores in ("scaled_dot", "linear"):
            block = Block(replace(SHAPE, dropout=p, scores=scores)).double()
            heard: Heard = {}
            for name in ("hook_attn_out", "hook_mlp_out"):

                def keep(y: Tensor, hook: object, name: str = name, heard: Heard = heard) -> None:
                    heard[name] = y.detach()

                getattr(block, name).add_hook(keep)
            block(x)
            for name, added in heard.items():
                assert float((added == 0).double().mean()) == pytest.approx(p, abs=0.01), name
            attention = block.attn
            attention.v.weight.data.zero_()
            attention.v.bias.data.fill_(1.0)
            z: list[Tensor] = []
            attention.hook_z.add_hook(lambda y, hook, z=z: z.append(y.detach()))
            attention(x)  # what is left of the weights, each divided by 1 - p
            assert float(z[0].mean()) == pytest.approx(1.0, abs=0.01)
            assert float(z[0][:, -1].std()) > 0.01


def test_what_is_dropped_depends_on_seed_and_step_alone(tmp_path: Path) -> None:
    """And evaluation within training is without it."""
    config = tiny_config(model=replace(TINY, dropout=0.4), steps=4)
    run = Run.create(tmp_path / "run", config)
    trainers = [Trainer.at_start(run, torch.device("cpu")) for _ in range(2)]
    torch.manual_seed(1)
    before = torch.get_rng_state()
    first = [float(trainers[0].advance()) for _ in range(3)]
    assert torch.equal(torch.get_rng_state(), before)
    torch.manual_seed(2)
    assert [float(trainers[1].advance()) for _ in range(3)] == first
    still = Trainer.at_start(run, torch.device("cpu"))
    still.model.eval()
    assert float(still.advance()) != first[0]
    train(run, "cpu")
    words = run.language.sample(np.random.default_rng(0), 8, run.language.lengths(4))
    twice = [judge(run.model(), run.language, words, run.objective)[2] for _ in range(2)]
    assert twice[0] == twice[1]
    assert run.metrics()[-1]["validation_loss"] > 0


@pytest.mark.parametrize("architecture", ["transformer", "encoder-decoder"])
def test_an_even_start_is_small_queries_keys_and_embeddings(architecture: str) -> None:
    """All else is drawn alike from one seed; attention is then nearly even."""
    vocabulary = Vocabulary(("a", "b", ">"))
    even, usual = (
        dict(build(tiny_of(architecture, even_start=small), vocabulary).named_parameters())
        for small in (True, False)
    )
    for name, value in even.items():
        times = 1.0
        if name.endswith(("attn.q.weight", "attn.k.weight")):
            times = 10.0
        if name == "embed.weight":
            times = 50.0
        torch.testing.assert_close(times * value, usual[name], msg=name)
