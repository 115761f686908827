"""Positions against the implementations in Hugging Face's transformers, and against what they
promise."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import get_args

import pytest
import torch
from transformers.models.bloom.modeling_bloom import build_alibi_tensor
from transformers.models.llama.configuration_llama import LlamaConfig
from transformers.models.llama.modeling_llama import (
    LlamaAttention,
    LlamaRotaryEmbedding,
    apply_rotary_pos_emb,
)
from transformers.models.marian.modeling_marian import MarianSinusoidalPositionalEmbedding
from transformers.models.mpt.modeling_mpt import build_mpt_alibi_tensor
from transformers.models.t5.configuration_t5 import T5Config
from transformers.models.t5.modeling_t5 import T5Attention

from models.choices import ABSOLUTE, Counting, Positions
from models.errors import UserError
from models.languages import Vocabulary
from models.model_config import ModelConfig
from models.transformer.attention import Attention
from models.transformer.model import HookedTransformer
from models.transformer.positions import (
    T5_BUCKETS,
    _frequencies,
    alibi,
    alibi_slopes,
    distances,
    rotate,
    rotations,
    sinusoidal,
    t5_buckets,
)
from models.transformer.relations import Relations

Make = Callable[..., HookedTransformer]

HEADS = [1, 2, 3, 4, 5, 6, 7, 8, 12, 16, 20]
BOUNDLESS = [kind for kind in get_args(Positions) if kind != "learned"]


def close(ours: torch.Tensor, theirs: torch.Tensor, tolerance: float = 1e-6) -> None:
    torch.testing.assert_close(ours, theirs, rtol=0, atol=tolerance)


def normal(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


# -- sinusoidal ---------------------------------------------------------------------------------


def marian(positions: int, width: int) -> torch.Tensor:
    """Its sines lie in the first half and its cosines in the second: interleaved they are ours."""
    table = MarianSinusoidalPositionalEmbedding(positions, width).create_weight()
    return table.view(positions, 2, width // 2).transpose(1, 2).flatten(1)


@pytest.mark.parametrize("width", [2, 6, 10, 16, 64])
def test_sinusoidal_is_marian_s(width: int) -> None:
    close(sinusoidal(torch.arange(300), width), marian(300, width))


def test_sinusoidal_is_the_lecture_s_formula() -> None:
    table = sinusoidal(torch.tensor([0, 1, 7, 2000]), 6)
    for row, position in zip(table.tolist(), (0, 1, 7, 2000), strict=True):
        for i in range(3):
            angle = position / 10000 ** (2 * i / 6)
            assert row[2 * i] == pytest.approx(math.sin(angle), abs=1e-6)
            assert row[2 * i + 1] == pytest.approx(math.cos(angle), abs=1e-6)


@pytest.mark.parametrize("step", [1, 5, 40])
def test_the_position_k_further_is_a_linear_function(step: int) -> None:
    """One matrix for all positions, which the table's row k alone decides."""
    table = sinusoidal(torch.arange(500), 12).double()
    matrix = torch.zeros(12, 12, dtype=torch.float64)
    for i in range(0, 12, 2):
        sine, cosine = table[step, i : i + 2]
        matrix[i : i + 2, i : i + 2] = torch.tensor([[cosine, sine], [-sine, cosine]])
    close(table[:-step] @ matrix.T, table[step:])
    assert (table[:-step] - table[step:]).abs().max() > 0.5


# -- rotary -------------------------------------------------------------------------------------


def llama(heads: int, width: int) -> LlamaConfig:
    return LlamaConfig(
        hidden_size=heads * width,
        num_attention_heads=heads,
        num_key_value_heads=heads,
        head_dim=width,
        attention_bias=True,
        attn_implementation="eager",
    )


@pytest.mark.parametrize("width", [2, 6, 8, 64])
def test_rotary_is_llama_s(width: int) -> None:
    q, k = normal(2, 9, 3, width), normal(2, 9, 3, width, seed=1)
    cosine, sine = LlamaRotaryEmbedding(llama(3, width))(q, torch.arange(9)[None])
    theirs = apply_rotary_pos_emb(q, k, cosine, sine, unsqueeze_dim=2)
    ours = rotations(9, width)
    close(rotate(q, *ours), theirs[0], 3e-6 if width > 6 else 1e-6)
    close(rotate(k, *ours), theirs[1], 3e-6 if width > 6 else 1e-6)


@pytest.mark.parametrize("width", [2, 6, 64])
def test_rotary_angles_are_those_of_the_sinusoids_far_out_too(width: int) -> None:
    """LLaMA's own angles are float32 and drift; the table's were computed in float64."""
    sines, cosines = marian(3000, width).view(3000, -1, 2).unbind(-1)
    cosine, sine = rotations(3000, width)
    close(cosine[:, 0], torch.cat([cosines, cosines], dim=1))
    close(sine[:, 0], torch.cat([sines, sines], dim=1))


def test_rotary_attention_is_llama_s() -> None:
    theirs = LlamaAttention(llama(4, 6), layer_idx=0).eval()
    ours = Attention(ModelConfig(n_heads=4, d_model=24, positions="rotary")).eval()
    names = {f"{n}.{kind}": f"{n}_proj.{kind}" for n in "qkvo" for kind in ("weight", "bias")}
    weights = theirs.state_dict()
    for name in weights:
        weights[name] = 0.3 * normal(*weights[name].shape, seed=len(name) + weights[name].dim())
    theirs.load_state_dict(weights)
    ours.load_state_dict({name: weights[old] for name, old in names.items()})
    x = normal(2, 9, 24)
    mask = torch.full((9, 9), float("-inf")).triu(1)[None, None]
    angles = LlamaRotaryEmbedding(theirs.config)(x, torch.arange(9)[None])
    expected, pattern = theirs(x, position_embeddings=angles, attention_mask=mask)
    close(ours(x, Relations(rotation=rotations(9, 6))), expected, 2e-6)
    seen = []
    ours.hook_pattern.add_hook(lambda activation, hook: seen.append(activation))
    ours(x, Relations(rotation=rotations(9, 6)))
    close(seen[0], pattern, 1e-6)


def test_under_rotation_a_score_hangs_on_the_distance_alone() -> None:
    q, k = normal(8).double(), normal(8, seed=1).double()
    table = [part.double() for part in rotations(50, 8)]
    turned = [rotate(x.expand(1, 50, 1, 8), *table)[0, :, 0] for x in (q, k)]
    scores = turned[0] @ turned[1].T
    for distance in range(-49, 50):
        close(scores.diagonal(distance), scores.diagonal(distance)[:1].expand(50 - abs(distance)))
    assert scores[0].std() > 0.1
    close(turned[0].norm(dim=1), q.norm().expand(50))


def test_a_rotary_score_in_the_model_hangs_on_the_distance_alone(small_model: Make) -> None:
    model = small_model(positions="rotary", n_layers=1)
    _, cache = model.run_with_cache(torch.full((1, 20), 2))
    scores = cache["blocks.0.attn.hook_attn_scores"][0]
    for distance in range(20):
        diagonal = scores.diagonal(-distance, 1, 2)
        close(diagonal, diagonal[:, :1].expand(4, 20 - distance), 2e-5)
    close(cache["blocks.0.attn.hook_q"][0, 3], cache["blocks.0.attn.hook_rot_q"][0, 0])
    assert (scores[:, -1].std(dim=-1) > 0.01).all()


# -- ALiBi --------------------------------------------------------------------------------------


@pytest.mark.parametrize("heads", HEADS)
def test_alibi_is_bloom_s_and_mpt_s(heads: int) -> None:
    """Theirs add a number per row, which softmax forgets; the last row of MPT's adds none."""
    ours = alibi(heads, 11)
    bloom = build_alibi_tensor(torch.ones(1, 11), heads, torch.float32)
    close(alibi_slopes(heads), bloom[:, 0, 1])
    for query in range(11):
        row = ours[:, query, : query + 1]
        close(row - row[:, :1], bloom[:, 0, : query + 1])
    close(ours[:, -1], build_mpt_alibi_tensor(heads, 11)[:, 0])


def test_alibi_looks_both_ways_alike() -> None:
    ours = alibi(6, 9)
    assert torch.equal(ours, ours.transpose(1, 2))
    assert (ours.diagonal(0, 1, 2) == 0).all()
    assert (ours.diff(dim=2)[:, 0] < 0).all()


# -- T5 -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("bidirectional", [True, False])
def test_t5_buckets_are_t5_s(bidirectional: bool) -> None:
    far = torch.arange(-1000, 1001)[None]
    theirs = T5Attention._relative_position_bucket(far, bidirectional, T5_BUCKETS, 128)
    assert torch.equal(t5_buckets(far, bidirectional), theirs)
    assert set(theirs.flatten().tolist()) == (
        set(range(32)) - {16} if bidirectional else set(range(32))
    )


@pytest.mark.parametrize("heads", [3, 4])
@pytest.mark.parametrize("mask", ["causal", "strictly_causal", "bidirectional"])
def test_t5_bias_is_t5_s(small_model: Make, heads: int, mask: str) -> None:
    model = small_model(positions="t5", n_heads=heads, head_width=4, mask=mask)
    config = T5Config(num_heads=heads, d_model=16, d_kv=4, is_decoder=mask != "bidirectional")
    theirs = T5Attention(config, has_relative_attention_bias=True, layer_idx=0)
    theirs.relative_attention_bias.weight.data = model.relative.weight.data.clone()
    bias = model.relations(torch.full((1, 150), 2)).bias
    close(bias, theirs.compute_bias(150, 150)[0])
    assert bias.abs().max() > 0.1


def test_distances_are_key_minus_query() -> None:
    assert distances(3).tolist() == [[0, 1, 2], [-1, 0, 1], [-2, -1, 0]]


# -- in the model -------------------------------------------------------------------------------


def seen(model: HookedTransformer, tokens: torch.Tensor, *offsets: int) -> torch.Tensor:
    """What is added for the positions."""
    out: list[torch.Tensor] = []
    with model.hooks(fwd_hooks=[("hook_pos_embed", lambda x, hook: out.append(x.detach()))]):
        model(tokens, torch.tensor(offsets) if offsets else None)
    return out[0]


@pytest.mark.parametrize("centred", [False, True])
def test_positions_stand_beside_the_embedding(
    small_model: Make, tokens: torch.Tensor, centred: bool
) -> None:
    """Appended: one number, which grows; concatenated: sinusoids of half the width."""
    counting = Counting(centred=centred)
    place = torch.arange(8).expand(4, 8)
    for positions, width in (("appended", 1), ("concatenated", 8)):
        model = small_model(positions=positions, counting=counting)
        own = place[..., None] / 32 if width == 1 else sinusoidal(place, width)
        expected = torch.cat([model.embed(tokens), own], dim=-1)
        assert model.embed.weight.shape == (5, 16 - width)
        cache = model.run_with_cache(tokens)[1]
        close(cache["blocks.0.hook_resid_pre"], expected)
        close(cache["hook_embed"], model.W_E[tokens])
        close(model(tokens), model.run_with_cache(tokens)[0], 1e-5)
        close(model.last_logits(tokens), model(tokens)[:, -1], 1e-5)


@pytest.mark.parametrize(
    ("positions", "d_model"), [("concatenated", 6), ("appended", 1), ("sinusoidal", 5)]
)
def test_a_stream_without_room_for_its_positions_is_refused(positions: str, d_model: int) -> None:
    with pytest.raises(UserError, match=rf"^{positions} positions [^\n]*: choose a[^\n]*$"):
        ModelConfig(positions=positions, d_model=d_model, n_heads=1)


@pytest.mark.parametrize("positions", ABSOLUTE)
def test_offsets_shift_absolute_positions(
    small_model: Make, tokens: torch.Tensor, positions: str
) -> None:
    model = small_model(positions=positions)
    table = seen(model, torch.zeros(1, 32, dtype=torch.long))[0]
    shifted = seen(model, tokens, 0, 3, 11, 24)
    for row, offset in zip(shifted, (0, 3, 11, 24), strict=True):
        close(row, table[offset : offset + 8])
    assert torch.equal(seen(model, tokens), table[:8].expand(4, 8, 16))
    plain, moved = model(tokens), model(tokens, torch.tensor([0, 3, 11, 24]))
    close(moved[0], plain[0], 1e-5)
    assert ((moved - plain).abs().amax(dim=(1, 2))[1:] > 0.01).all()


def test_offsets_are_the_same_as_another_start_of_the_table(
    small_model: Make, tokens: torch.Tensor
) -> None:
    model, other = small_model(positions="learned"), small_model(positions="learned")
    other.pos_embed.weight.data = model.pos_embed.weight.data.roll(-5, 0)
    close(model(tokens, torch.full((4,), 5)), other(tokens), 1e-5)


def test_a_word_shifted_beyond_the_learned_table_is_refused(
    small_model: Make, tokens: torch.Tensor
) -> None:
    model = small_model(positions="learned")
    model(tokens, torch.tensor([0, 0, 24, 0]))
    with pytest.raises(UserError, match=r"^a word of 7 symbols, shifted by 25, [^\n]*n-ctx$"):
        model(tokens, torch.tensor([0, 0, 25, 0]))
    with pytest.raises(UserError, match=r"^a word of 32 symbols [^\n]*\(31\)[^\n]*n-ctx$"):
        model(torch.zeros(1, 33, dtype=torch.long))


@pytest.mark.parametrize("mask", ["causal", "strictly_causal", "bidirectional"])
@pytest.mark.parametrize("positions", BOUNDLESS)
def test_without_a_table_words_of_any_length_are_read(
    small_model: Make, positions: str, mask: str
) -> None:
    model = small_model(positions=positions, mask=mask, n_ctx=4)
    for length in (1, 2, 5, 150):
        word = torch.full((2, length), 3)
        word[:, 0] = 0
        logits = model(word)
        assert logits.shape == (2, length, 5)
        assert logits.isfinite().all()


def test_a_table_made_while_inferring_serves_in_training(small_model: Make) -> None:
    """It is kept between passes; a length of its own, so that none was kept before."""
    model = small_model(positions="rotary")
    tokens = torch.full((1, 93), 2)
    with torch.inference_mode():
        expected = model(tokens)
    logits = model(tokens)
    logits.sum().backward()
    assert torch.equal(logits, expected)


@pytest.mark.parametrize("positions", [p for p in get_args(Positions) if p != "none"])
def test_positions_are_told(small_model: Make, positions: str) -> None:
    """Of two words with the same symbols an encoder with positions knows which came first."""
    first, second = torch.tensor([[0, 2, 3, 3]]), torch.tensor([[0, 3, 3, 2]])
    encoder = small_model(positions=positions, mask="bidirectional")
    assert (encoder(first) - encoder(second))[:, 0].abs().max() > 1e-3


def test_wavelengths_of_base_1000() -> None:
    """d = 4: the lecture prints 2 pi and 2 pi sqrt(1000)."""
    lengths = 2 * math.pi / _frequencies(4, 1000.0)
    assert lengths.tolist() == pytest.approx([2 * math.pi, 2 * math.pi * math.sqrt(1000)])
    assert (2 * math.pi / _frequencies(64)).diff().min() > 0  # high dimensions turn more slowly
    table = sinusoidal(torch.arange(40), 4, 1000.0).double()
    close(table[:, 2], (torch.arange(40).double() / math.sqrt(1000)).sin())


@pytest.mark.parametrize("positions", ["sinusoidal", "rotary"])
def test_the_base_of_a_model_is_the_one_that_is_asked_for(positions: str) -> None:
    vocabulary = Vocabulary(("a", "b"))
    tokens = torch.tensor([[0, 2, 3, 2, 3, 3]])
    shape = {"n_layers": 1, "n_heads": 2, "d_model": 8, "d_mlp": 8, "positions": positions}

    def logits(base: float) -> Tensor:
        config = ModelConfig(**shape, position_base=base)
        return HookedTransformer(config, vocabulary, 0)(tokens).detach()

    assert torch.equal(logits(10_000.0), logits(10_000.0))
    assert (logits(10_000.0) - logits(100.0)).abs().max() > 1e-5
    with pytest.raises(UserError, match=r"position_base is 0\.5: it must be at least 1"):
        logits(0.5)


@pytest.mark.parametrize("kind", ["rotary", "alibi", "sinusoidal", "appended"])
def test_a_model_in_float64_has_positions_in_float64(kind: str) -> None:
    """Tables in float32 moved the logits by up to 7e-6."""
    config = ModelConfig(n_heads=3, d_model=24, n_ctx=48, positions=kind)
    model = HookedTransformer(config, Vocabulary(("a", "b")), 0).double()
    tokens = torch.full((1, 40), 2)
    place = torch.arange(40, dtype=torch.float64)
    steps = 10_000.0 ** (-torch.arange(0, 8, 2, dtype=torch.float64) / 8)
    if kind == "rotary":
        rotation = model.relations(tokens).rotation
        assert rotation is not None
        close(rotation[0][:, 0, :4], (place[:, None] * steps).cos(), 1e-15)
    elif kind == "alibi":
        bias = model.relations(tokens).bias
        assert bias is not None
        slopes = torch.tensor([2**-4, 2**-8, 2**-2], dtype=torch.float64)
        close(bias[:, 39], -slopes[:, None] * (39 - place), 1e-15)
    else:
        added = model.position_embedding(tokens, None)[0]
        steps = 10_000.0 ** (-torch.arange(0, 24, 2, dtype=torch.float64) / 24)
        last = (place[:, None] * steps).cos()[:, -1] if kind == "sinusoidal" else place / 48
        close(added[:, -1], last, 1e-15)
