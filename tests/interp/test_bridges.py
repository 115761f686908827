"""Every lens on every kind of TransformerLens' bridges: right, or refused by name.

Right is what the same model of ``transformers`` says when its own modules are read and changed by
hand (tests/bridges.py). Which lens is refused on which kind stands in a table of
docs/pages/how_to/your_model.md, and this test holds the table.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import bridges_causal as causal
import bridges_explanations as explanations
import bridges_heads as heads
import pytest
import torch
from bridges import GPT2, GROUPED, KINDS, Pair, made, pair, words
from test_transformer_lens import Make
from transformer_lens import patching
from transformer_lens.tools.analysis import direct_logit_attribution as peer
from transformers import GPT2Config, OPTConfig, Qwen2Config

from interp.causal.patching import patch
from interp.circuits.circuits import connected
from interp.circuits.edges import writes
from interp.circuits.graph import Edge, Graph, parts_of
from interp.explanations.attention import direct
from interp.heads.attention import attention
from interp.heads.logit_attribution import direct_logit_attribution
from interp.heads.qk_and_ov import ov_circuit, qk_circuit
from models.transformer.model import HookedTransformer

PAGE = Path(__file__).parents[2] / "docs" / "pages" / "how_to" / "your_model.md"
CHECKS: dict[str, Callable[[Pair], None]] = {
    "activation patching: stream, attention, MLP": causal.patching,
    "activation patching: q, k, v, z, pattern": causal.patching_inside_attention,
    "activation patching between attention and MLP": causal.mid_stream,
    "path patching of edges, EAP, EAP-IG": causal.paths,
    "circuits": causal.circuits,
    "ablation of heads": causal.ablation,
    "interchange (DAS)": causal.das,
    "types of heads": heads.types_of_heads,
    "attention against effect": heads.looks_and_effects,
    "rollout, flow": heads.rolled_out,
    "direct logit attribution, by part": heads.attribution,
    "direct logit attribution, by position": heads.attribution_by_position,
    "QK circuit by the weights": heads.qk_by_weights,
    "QK circuit at a distance": heads.qk_at_a_distance,
    "OV circuit": heads.ov,
    "probes": causal.activations_for_probes,
    "erasure, steering": causal.steering,
    "LIME, SHAP": explanations.scores_alone,
    "gradients": explanations.gradients,
    "DeepLift": explanations.rescale_rule,
}
"""By the lens, as the page has it: fails unless the lens is right; refusals pass through."""


def told() -> dict[tuple[str, str], str]:
    """What the page says of each lens on each kind: "right" or "refused"."""
    rows = [
        [cell.strip() for cell in line.strip().strip("|").split("|")]
        for line in PAGE.read_text(encoding="utf-8").splitlines()
        if line.startswith("|")
    ]
    kinds = rows[0][1:]
    return {
        (row[0], kind): cell for row in rows[2:] for kind, cell in zip(kinds, row[1:], strict=True)
    }


TOLD = told()


def test_the_page_has_a_row_for_every_lens_and_a_column_for_every_kind() -> None:
    assert set(TOLD) == {(lens, kind) for lens in CHECKS for kind in KINDS}
    assert set(TOLD.values()) == {"right", "refused"}


@pytest.mark.sampled
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("lens", CHECKS)
def test_a_lens_is_right_or_refuses_as_the_page_says(lens: str, kind: str) -> None:
    models = pair(kind, positions="circuit" not in lens)  # circuits leave positions out
    if TOLD[lens, kind] == "right":
        CHECKS[lens](models)
    else:
        with pytest.raises(ValueError, match=r"^[^\n]+: [^\n]+$"):
            CHECKS[lens](models)


# -- TransformerLens' own tables, where it has them ------------------------------------------------


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind != "Gemma 2"])
def test_direct_attribution_equals_transformerlens_in_compatibility_mode(kind: str) -> None:
    """Its own attribution asks for this mode, which folds the final norm's weights into W_U."""
    bridge = pair(kind, compatible=True).bridge
    tokens, _ = words()
    at = torch.full((len(tokens),), 3)
    table = direct_logit_attribution(bridge, tokens, at, 2)
    ours = table.pivot(index="part", columns="word", values="value")
    bridge.set_use_attn_result(True)
    try:
        units = [peer(bridge, tokens, 2, unit=unit) for unit in ("head", "component")]
    finally:
        bridge.set_use_attn_result(False)
    theirs = {label: row for u in units for label, row in zip(u.labels, u.attribution, strict=True)}
    for part in Graph.of(bridge).senders:
        name = part.replace("L", "").replace(" mlp", "_mlp_out") if "mlp" in part else part
        expected = theirs[name] + (theirs.get("pos_embed", 0) if part == "embed" else 0)
        assert ours.loc[part].to_numpy() == pytest.approx(expected.numpy(), abs=1e-6)


def test_parts_of_transformerlens_that_miss_the_logit() -> None:
    """Outside compatibility mode they lack the final norm's weights, and with a softcap the cap."""
    tokens, _ = words()
    for kind, compatible in (("Llama", False), ("Gemma 2", True)):
        bridge = pair(kind, compatible=compatible).bridge
        logits, cache = bridge.run_with_cache(tokens)
        stack = cache.decompose_resid(apply_ln=False, pos_slice=-1)
        parts = cache.logit_attrs(stack, 2, pos_slice=-1)
        if compatible:
            torch.testing.assert_close(peer(bridge, tokens, 2).attribution, parts)
        missed = (parts.sum(dim=0) + bridge.b_U[2] - logits[:, -1, 2]).abs()
        assert missed.max() > 1e-3


@pytest.mark.parametrize("component", ["q", "k", "v"])
@pytest.mark.parametrize("kind", ["Llama", "NeoX"])
def test_patching_equals_transformerlens(kind: str, component: str) -> None:
    """With grouped queries TransformerLens has a row per group too."""
    bridge = pair(kind).bridge
    clean, corrupted = words()
    _, cache = bridge.run_with_cache(clean)
    sweep = getattr(patching, f"get_act_patch_attn_head_{component}_by_pos")
    with torch.no_grad():
        theirs = sweep(bridge, corrupted, cache, lambda logits: causal.METRIC(logits).mean())
    table = patch(bridge, clean, corrupted, causal.METRIC, [component])
    ours = table.groupby(["layer", "position", "head"])["patched"].mean().to_numpy()
    assert ours == pytest.approx(theirs.flatten().numpy(), abs=1e-6)


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind != "Gemma 2"])
def test_patching_says_the_same_in_compatibility_mode(kind: str) -> None:
    """It folds weights and centres what is written: the model stays the same function."""
    tables = [
        patch(pair(kind, compatible=mode).bridge, *words(), causal.METRIC, ["resid_pre", *"zqkv"])
        for mode in (False, True)
    ]
    patched = [table["patched"].to_numpy() for table in tables]
    assert patched[1] == pytest.approx(patched[0], abs=1e-5)


@pytest.mark.parametrize("kind", ["GPT-2", "Llama", "NeoX", "Qwen 3"])
def test_circuits_equal_the_factored_matrices_of_transformerlens(kind: str) -> None:
    """In compatibility mode no bias of a value and no weight of a norm is left.

    Its QK knows no rotations: it holds at distance 0 alone. Nor does it know the norms of queries
    and keys (Qwen 3).
    """
    bridge = pair(kind, positions=False, compatible=True).bridge
    x = bridge.blocks[0].ln1(bridge.W_E[None])[0]
    for head in range(4):
        by_peer = x @ bridge.OV[0, head].AB @ bridge.W_U
        torch.testing.assert_close(ov_circuit(bridge, 0, head), by_peer, rtol=0, atol=1e-5)
    if kind in ("Llama", "Qwen 3"):
        by_peer = x @ bridge.QK[0, 1].AB @ x.T / bridge.cfg.d_head**0.5
        equal = [(qk_circuit(bridge, 0, 1, d) - by_peer).abs().max() < 1e-5 for d in (0, 1)]
        assert equal == [kind == "Llama", False]


# -- what is refused, and what the graph of edges looks like ---------------------------------------


def test_a_parallel_block_has_no_edge_from_its_heads_to_its_mlp() -> None:
    parallel, sequential = (Graph.of(pair(kind).bridge) for kind in ("NeoX", "NeoX sequential"))
    missing = set(sequential.edges) - set(parallel.edges)
    assert missing == {(f"L{layer}H{h}", f"L{layer} mlp") for layer in (0, 1) for h in range(4)}
    assert set(parallel.edges) < set(sequential.edges)


def test_heads_of_a_group_have_one_key_and_one_value() -> None:
    graph = Graph.of(pair("Llama").bridge)
    layer = [r for r in graph.receivers if r.startswith("L1H")]
    queries = [f"L1H{head}.q" for head in range(4)]
    shared = [f"L1H{group}.{slot}" for group in ("0-1", "2-3") for slot in "kv"]
    assert layer == [*queries[:2], *shared[:2], *queries[2:], *shared[2:]]
    assert parts_of("L1H2-3.k") == ["L1H2", "L1H3"]
    assert parts_of("L1H3.q") == ["L1H3"]
    assert parts_of("L1 mlp") == ["L1 mlp"]
    way = {Edge("embed", "L0H2-3.v"), Edge("L0H3", "logits")}
    assert connected([*way, Edge("embed", "L0H0-1.v"), Edge("L0H2", "L1 mlp")]) == way


def scaled(model: HookedTransformer, by: float) -> HookedTransformer:
    """The model with logits that nobody is told are multiplied."""
    model.hook_dict["blocks.1.hook_resid_post"].add_hook(lambda x, hook: by * x, is_permanent=True)
    return model


def test_parts_that_do_not_sum_to_the_logit_are_refused(small_model: Make) -> None:
    tokens = torch.tensor([[0, 2, 3, 4]])
    last = torch.tensor([3])
    fault = r"^the parts of HookedTransformer sum to \S+ where \S+ is read: "
    with pytest.raises(ValueError, match=fault + r"something [^\n]*$"):
        direct_logit_attribution(scaled(small_model(norm="none"), 1.001), tokens, last, 2)
    with pytest.raises(ValueError, match=fault + r"[^\n]*bfloat16: load it in float32$"):
        direct_logit_attribution(small_model().bfloat16(), tokens, last, 2)


def test_scores_that_are_not_those_of_the_weights_are_refused() -> None:
    """GPT-2 may divide the scores of a layer by its number; the model's own scores know it."""
    bridge = made(GPT2Config(**GPT2, scale_attn_by_inverse_layer_idx=True))[0]
    plain = made(GPT2Config(**GPT2))[0]
    torch.testing.assert_close(qk_circuit(bridge, 0, 1), qk_circuit(plain, 0, 1))
    with pytest.raises(
        ValueError, match=r"^layer 1 of TransformerBridge does not score by [^\n]*$"
    ):
        qk_circuit(bridge, 1, 1)
    torch.testing.assert_close(2 * qk_circuit(bridge, 1, 1, 1), qk_circuit(plain, 1, 1))


def test_windows_are_seen_and_different_masks_refused() -> None:
    tokens, _ = words()
    one = {**GROUPED, "sliding_window": 2, "use_sliding_window": True}
    _, may = attention(made(Qwen2Config(**one, layer_types=["sliding_attention"] * 2))[0], tokens)
    ones = torch.ones(4, 4, dtype=torch.bool)
    assert torch.equal(may, (ones.tril() & ones.triu(-1)).expand(3, -1, -1))
    mixed = made(Qwen2Config(**one, layer_types=["full_attention", "sliding_attention"]))[0]
    with pytest.raises(ValueError, match=r"^the layers of TransformerBridge have different masks"):
        attention(mixed, tokens)


def test_a_block_that_nobody_can_compute_anew_has_no_edges() -> None:
    config = OPTConfig(
        vocab_size=5,
        hidden_size=8,
        num_hidden_layers=2,
        num_attention_heads=4,
        ffn_dim=3,
        word_embed_proj_dim=8,
        max_position_embeddings=16,
    )
    with pytest.raises(ValueError, match=r"^edges compute queries, keys, values and MLPs anew, "):
        writes(made(config)[0], words()[0])


def test_gated_mlps_without_modules_have_no_rescale_rule() -> None:
    models = pair("Llama", compatible=True)
    with pytest.raises(ValueError, match=r"^TransformerBridge computes the activation functions"):
        explanations.rescale_rule(models)


def test_a_softmax_is_not_explained_by_one_logit() -> None:
    models = pair("GPT-2")
    with pytest.raises(ValueError, match=r"^direct logit attribution explains a logit, and "):
        direct(explanations.case(models, models.bridge))
