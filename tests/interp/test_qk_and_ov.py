"""QK and OV circuits against scores and direct logits of a word that they alone decide."""

from __future__ import annotations

import pytest
import torch
from test_transformer_lens import boot_native

from interp.heads.logit_attribution import direct_logit_attribution
from interp.heads.qk_and_ov import ov_circuit, qk_circuit
from interp.model import activations
from models.choices import Counting


@pytest.mark.parametrize("scores", ["scaled_dot", "dot", "additive", "identity"])
def test_the_qk_circuit_is_the_first_layers_scores(small_model: object, scores: str) -> None:
    """Without positions, whatever the norm. One token is the query, another the key."""
    for changes in ({"norm": "none", "mlp": "none", "n_layers": 1}, {}, {"norm": "rms"}):
        model = small_model(scores=scores, **changes).double()
        pairs = torch.cartesian_prod(torch.arange(5), torch.arange(5)).flip(1)  # key, query
        name = "blocks.0.attn.hook_attn_scores"
        found = activations(model, pairs, [name])[name][:, :, 1, 0]  # [pair, head]
        for head in range(4):
            expected = found[:, head].view(5, 5)
            assert expected.std() > 1e-2
            torch.testing.assert_close(qk_circuit(model, 0, head), expected)


def test_the_circuits_of_a_post_norm_block_read_the_stream(small_model: object) -> None:
    model = small_model(norm_placement="post", n_layers=1).double()
    x, attn = model.W_E, model.blocks[0].attn
    q, k = x @ attn.W_Q[1] + attn.b_Q[1], x @ attn.W_K[1] + attn.b_K[1]
    torch.testing.assert_close(qk_circuit(model, 0, 1), (q @ k.T / 2).detach())


def test_the_circuit_of_a_later_post_norm_block_passes_the_norms_before_it(
    small_model: object,
) -> None:
    """With attention and MLP of the first block silenced, the stream is the embedding alone."""
    model = small_model(norm_placement="post").double()
    block = model.blocks[0]
    with torch.no_grad():
        for linear in (block.attn.o, block.mlp.fc_out):
            linear.weight.zero_()
            linear.bias.zero_()
    pairs = torch.cartesian_prod(torch.arange(5), torch.arange(5)).flip(1)
    name = "blocks.1.attn.hook_attn_scores"
    found = activations(model, pairs, [name])[name][:, 2, 1, 0].view(5, 5)
    torch.testing.assert_close(qk_circuit(model, 1, 2), found)


@pytest.mark.parametrize("changes", [{}, {"counting": Counting(averaging_heads=2, counters=True)}])
def test_the_ov_circuit_explains_a_heads_direct_logits(
    small_model: object, changes: dict[str, object]
) -> None:
    """What a head adds to each logit is the OV circuit of the sources, weighted by its pattern;
    where it counts, what each number of z is divided by is held at 1."""
    model = small_model(norm="none", mlp="none", n_layers=1, **changes).double()
    tokens = torch.tensor([[0, 2, 4, 3, 2]])
    name = "blocks.0.attn.hook_pattern"
    pattern = activations(model, tokens, [name])[name][0]
    if changes:
        scale = model.blocks[0].attn.norm_z.hook_scale
        scale.add_hook(lambda scale, hook: torch.ones_like(scale))
    for token in range(5):
        table = direct_logit_attribution(model, tokens, torch.tensor([4]), token)
        for head in range(4):
            direct = table.query(f"part == 'L0H{head}'")["value"].item()
            explained = pattern[head, 4] @ ov_circuit(model, 0, head)[tokens[0], token]
            assert explained.item() == pytest.approx(direct, abs=1e-12)
            assert abs(direct) > 1e-4


@pytest.mark.parametrize("placement", ["pre", "post", "sandwich"])
@pytest.mark.parametrize("norm", ["layer", "rms"])
def test_the_ov_circuit_leaves_out_the_norms_scale_alone(
    small_model: object, norm: str, placement: str
) -> None:
    """Where all scales on the way are held at 1, a word of BOS alone gets the circuit's row."""
    model = small_model(norm=norm, norm_placement=placement, n_layers=1).double()
    bos = torch.zeros(1, 1, dtype=torch.long)
    way = [f"{name}.hook_scale" for name in model.norms_on_the_way(0, "attn")]

    def one(scale: torch.Tensor, hook: object) -> torch.Tensor:
        return torch.ones_like(scale)

    with model.hooks(fwd_hooks=[(name, one) for name in way]):
        table = [
            direct_logit_attribution(model, bos, torch.tensor([0]), token) for token in range(5)
        ]
    for head in range(4):
        direct = [t.query(f"part == 'L0H{head}'")["value"].item() for t in table]
        assert ov_circuit(model, 0, head)[0].tolist() == pytest.approx(direct, abs=1e-9)


def test_circuits_of_a_bridge(small_model: object) -> None:
    model = small_model(positions="learned")
    bridge = boot_native(model)
    for circuit in (qk_circuit, ov_circuit):
        for layer in range(2):
            torch.testing.assert_close(circuit(bridge, layer, 1), circuit(model, layer, 1))
