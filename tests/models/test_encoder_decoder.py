"""Models of two sides, against PyTorch's and transformers' own on the same weights."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any, get_args

import numpy as np
import pytest
import torch
from conftest import stir, tiny_config, tiny_of
from torch import Tensor, nn

from models.base import EmbeddingModel, build
from models.choices import ABSOLUTE, NormPlacement, Positions
from models.decoding.search import Generator
from models.encoder_decoders.attending import CrossBlock, HookedEncoderDecoder
from models.encoder_decoders.recurrent import HookedLSTMPair
from models.encoder_decoders.sides import Sides
from models.errors import UserError
from models.families import FAMILIES
from models.languages import BORDER, Words, language
from models.model_config import ModelConfig
from models.objectives import objective
from models.rivals.recurrent import Recurrence
from models.runs.run import Run
from models.training.evaluation import predict, verdicts
from models.training.loop import train
from models.training.recipes import recipe
from models.transformer.attention import Attention
from models.transformer.block import Block

COPY = language("copy")
LONG = ["a > a", "a b c > a b c", "d d a b > d d a b", "b c > b d c a", "a b c d a >"]
"""Pairs of several lengths, right and wrong, and one that has no target yet."""
KINDS = [name for name, family in FAMILIES.items() if family.two_sided]


def words(lines: list[str] = LONG) -> Words:
    return COPY.vocabulary.words([line.split() for line in lines])


def tokens_of(lines: list[str] = LONG) -> Tensor:
    return torch.as_tensor(words(lines).tokens)


def made(architecture: str, **changes: Any) -> EmbeddingModel:
    """In float64, with random numbers in every weight."""
    sizes = {"n_layers": 4, "output": "conditional", **changes}
    model = build(tiny_of(architecture, **sizes), COPY.vocabulary, 1)
    assert isinstance(model, EmbeddingModel)
    return stir(model).double().eval()


# -- PyTorch's Transformer ----------------------------------------------------------------------


def put(layer: nn.MultiheadAttention, own: Attention) -> None:
    layer.in_proj_weight.data = torch.cat([own.q.weight, own.k.weight, own.v.weight])
    layer.in_proj_bias.data = torch.cat([own.q.bias, own.k.bias, own.v.bias])
    layer.out_proj.load_state_dict(own.o.state_dict())


def theirs(model: HookedEncoderDecoder) -> nn.Transformer:
    """PyTorch's Transformer with the weights of ours."""
    config = model.config
    first = config.norm_placement == "pre"
    how: dict[str, Any] = {"dropout": 0.0, "activation": config.act_fn, "batch_first": True}
    how |= {"norm_first": first, "dtype": torch.float64}
    sizes = (config.d_model, config.n_heads, config.d_mlp)
    normed = nn.LayerNorm(config.d_model, dtype=torch.float64) if first else None
    n = config.n_layers // 2
    encoder = nn.TransformerEncoder(
        nn.TransformerEncoderLayer(*sizes, **how), n, normed, enable_nested_tensor=False
    )
    decoder = nn.TransformerDecoder(nn.TransformerDecoderLayer(*sizes, **how), n, normed)
    both = nn.Transformer(
        *sizes[:2], custom_encoder=encoder, custom_decoder=decoder, batch_first=True
    )
    for layer, block in zip([*encoder.layers, *decoder.layers], model.blocks, strict=True):
        assert isinstance(block, Block)
        assert block.mlp is not None
        put(layer.self_attn, block.attn)
        layer.norm1.load_state_dict(block.ln1.state_dict())
        layer.linear1.load_state_dict(block.mlp.fc_in.state_dict())
        layer.linear2.load_state_dict(block.mlp.fc_out.state_dict())
        last = layer.norm2
        if isinstance(block, CrossBlock):
            put(layer.multihead_attn, block.cross_attn)
            layer.norm2.load_state_dict(block.ln_cross.state_dict())
            last = layer.norm3
        last.load_state_dict(block.ln2.state_dict())
    return both.eval()


@pytest.mark.parametrize("positions", ["none", *ABSOLUTE])
@pytest.mark.parametrize("placement", ["pre", "post"])
def test_pytorch_s_transformer_says_the_same(placement: str, positions: str) -> None:
    model = made("encoder-decoder", norm_placement=placement, positions=positions, n_ctx=16)
    assert isinstance(model, HookedEncoderDecoder)
    reference = theirs(model)
    tokens = tokens_of()
    for row, border in enumerate(Sides.of(tokens, model.border).border.tolist()):
        line = tokens[row : row + 1, : int(words().lengths[row]) + 1]
        source, target = line[:, : border + 1], line[:, border:]
        x, y = model.embedded(source), model.embedded(target)
        if positions != "none":
            places = [torch.arange(part.shape[1])[None] for part in (source, target)]
            tables = (model.pos_embed, model.decoder_pos_embed)
            x, y = (
                part + model._placed(place, None, table)
                for part, place, table in zip((x, y), places, tables, strict=True)
            )
        mask = nn.Transformer.generate_square_subsequent_mask(target.shape[1], dtype=torch.float64)
        expected = model.unembed(model.ln_final(reference(x, y, tgt_mask=mask)))
        if placement == "pre":  # the reference ends with a norm of its own
            expected = model.unembed(reference(x, y, tgt_mask=mask))
        found = model(tokens)[row, border : line.shape[1]]
        torch.testing.assert_close(found, expected[0], atol=1e-6, rtol=1e-6)


@pytest.mark.parametrize("mlp", ["plain", "gated"])
def test_transformers_t5_says_the_same(mlp: str) -> None:
    from transformers import T5Config, T5ForConditionalGeneration

    shape: dict[str, Any] = {"positions": "t5", "norm": "rms", "bias": False, "scores": "dot"}
    model = made("encoder-decoder", **shape, mlp=mlp, act_fn="relu", eps=1e-6)
    assert isinstance(model, HookedEncoderDecoder)
    own = model.config
    config = T5Config(
        vocab_size=len(model.vocabulary),
        d_model=own.d_model,
        d_kv=own.d_head,
        d_ff=own.d_mlp,
        num_layers=2,
        num_decoder_layers=2,
        num_heads=own.n_heads,
        feed_forward_proj="relu" if mlp == "plain" else "gated-relu",
        tie_word_embeddings=False,
        dropout_rate=0.0,
        pad_token_id=1,
        decoder_start_token_id=0,
        attn_implementation="eager",
    )
    peer = T5ForConditionalGeneration(config).double().eval()
    with torch.no_grad():
        for table in (peer.shared, peer.encoder.embed_tokens, peer.decoder.embed_tokens):
            table.weight.copy_(model.embed.weight)
        model.unembed.linear.weight.copy_(model.embed.weight)  # transformers ties them
        model.unembed.linear.bias.zero_()
        for stack, relative in (
            (peer.encoder, model.relative),
            (peer.decoder, model.decoder_relative),
        ):
            assert relative is not None
            stack.block[0].layer[0].SelfAttention.relative_attention_bias.weight.copy_(
                relative.weight
            )
        for layer, block in zip(
            [*peer.encoder.block, *peer.decoder.block], model.blocks, strict=True
        ):
            assert isinstance(block, Block)
            assert block.mlp is not None
            parts = [(layer.layer[0].SelfAttention, block.attn, block.ln1)]
            if isinstance(block, CrossBlock):
                parts += [(layer.layer[1].EncDecAttention, block.cross_attn, block.ln_cross)]
            for number, (theirs, ours, norm) in enumerate(parts):
                for name in "qkvo":
                    getattr(theirs, name).weight.copy_(getattr(ours, name).weight)
                layer.layer[number].layer_norm.weight.copy_(norm.weight)
            dense = layer.layer[-1].DenseReluDense
            if mlp == "plain":
                dense.wi.weight.copy_(block.mlp.fc_in.weight)
            else:
                assert block.mlp.fc_gate is not None
                dense.wi_0.weight.copy_(block.mlp.fc_gate.weight)
                dense.wi_1.weight.copy_(block.mlp.fc_in.weight)
            dense.wo.weight.copy_(block.mlp.fc_out.weight)
            layer.layer[-1].layer_norm.weight.copy_(block.ln2.weight)
        tokens = tokens_of()
        sides = Sides.of(tokens, model.border)
        said = peer(
            input_ids=tokens, attention_mask=sides.source, decoder_input_ids=sides.cut()
        ).logits
        raw = said + model.normaliser(said)
        expected = sides.put_back(raw)
        found = model(tokens)
    inside = torch.arange(tokens.shape[1]) <= torch.as_tensor(words().lengths)[:, None]
    inside &= sides.target
    torch.testing.assert_close(found[inside], expected[inside], atol=1e-6, rtol=1e-6)


# -- the two ways of computing --------------------------------------------------------------------


@pytest.mark.parametrize("architecture", KINDS)
def test_hooks_hear_the_numbers_that_are_computed_without_them(architecture: str) -> None:
    changes: list[dict[str, Any]] = [{}, {"n_layers": 3}]
    if architecture == "encoder-decoder":
        both = itertools.product(get_args(Positions), get_args(NormPlacement))
        changes += [{"positions": p, "norm_placement": n} for p, n in both]
        changes += [{"mlp": "none"}, {"scores": "additive"}]
    lines = [*LONG, "a b", "c"]  # and words without a border
    for asked in changes:
        model = made(architecture, **asked)
        plain = model(tokens_of(lines))
        heard, cache = model.run_with_cache(tokens_of(lines))
        # Angles are numbers of single precision, and a side counts from another position.
        close = 1e-6 if asked.get("positions") == "rotary" else 1e-10
        torch.testing.assert_close(plain, heard, atol=close, rtol=close)
        assert plain.isfinite().all()
        assert all(value.isfinite().all() for name, value in cache.items() if "scores" not in name)
        assert (plain[-2:] == 0).all()  # nothing is said where there is no border
        assert (plain[:, 0] == 0).all()


@pytest.mark.parametrize("architecture", KINDS)
def test_gradients_are_the_same_with_hooks(architecture: str) -> None:
    found = []
    for hooks in ([], [("hook_embed", lambda value, hook: None)]):
        model = made(architecture)
        model.run_with_hooks(tokens_of(), fwd_hooks=hooks).pow(2).sum().backward()
        found.append({name: weight.grad for name, weight in model.named_parameters()})
    for name, grad in found[0].items():
        assert grad is not None, name
        torch.testing.assert_close(grad, found[1][name], atol=1e-9, rtol=1e-9)
        assert grad.isfinite().all()


@pytest.mark.parametrize("architecture", KINDS)
def test_the_company_of_a_batch_changes_nothing(architecture: str) -> None:
    model = made(architecture)
    together = model(tokens_of())
    for row, line in enumerate(LONG):
        alone = model(tokens_of([line]))[0]
        torch.testing.assert_close(together[row, : len(alone)], alone, atol=1e-10, rtol=1e-10)


# -- who sees what --------------------------------------------------------------------------------


@pytest.mark.parametrize("architecture", KINDS)
def test_a_target_is_seen_from_the_left_and_a_source_as_a_whole(architecture: str) -> None:
    model = made(architecture)
    base = model(tokens_of(["a b c > a b c"]))[0]
    later = model(tokens_of(["a b c > a b d"]))[0]
    torch.testing.assert_close(base[:7], later[:7])
    assert (base[7] - later[7]).abs().max() > 1e-6
    for other in ("d b c", "a d c", "a b d"):
        changed = model(tokens_of([f"{other} > a b c"]))[0]
        assert (base[4:] - changed[4:]).abs().amax(dim=1).min() > 1e-9


@pytest.mark.parametrize("architecture", KINDS)
def test_a_stream_tells_nothing_where_its_side_is_not(architecture: str) -> None:
    """Of a word of the same shape all symbols may change: what is not read is not written."""
    model = made(architecture)
    _, one = model.run_with_cache(tokens_of(["a b c > a b c"]))
    _, two = model.run_with_cache(tokens_of(["d d b > c c a"]))
    for layer in range(4):
        name = f"blocks.{layer}.hook_resid_post"
        own = slice(0, 5) if layer < 2 else slice(4, 8)
        differs = (one[name] - two[name]).abs().amax(dim=-1)[0] > 1e-9
        assert differs[own][1:].all()
        outside = torch.ones(8, dtype=torch.bool)
        outside[own] = False
        assert not differs[outside].any()


def test_without_a_residual_each_part_s_output_is_the_next_part_s_input() -> None:
    model = made("encoder-decoder", residual=False)
    heard = model.run_with_cache(tokens_of())[1]
    last = f"blocks.{model.config.n_layers - 1}.hook_"
    for out, stream in (
        ("attn_out", "resid_mid"),
        ("cross_attn_out", "resid_mid2"),
        ("mlp_out", "resid_post"),
    ):
        assert torch.equal(heard[last + out], heard[last + stream])
        assert heard[last + out].std() > 0.01


@pytest.mark.parametrize("architecture", ["encoder-decoder", "lstm-attention"])
def test_cross_attention_reads_the_source_alone(architecture: str) -> None:
    model = made(architecture)
    _, cache = model.run_with_cache(tokens_of(["a b c > a b c", "a b > a b"]))
    for name in (n for n in cache if n.endswith("cross_attn.hook_pattern")):
        pattern = cache[name]
        torch.testing.assert_close(pattern[0, :, 4:].sum(-1), torch.ones_like(pattern[0, :, 4:, 0]))
        assert (pattern[0, :, 4:, 5:] == 0).all()
        assert (pattern[1, :, 3:, 4:] == 0).all()
        assert (pattern[0, :, 4:, :5] > 0).all()
        assert (pattern[0, :, :4] == 0).all()  # no query stands before the border


def test_a_target_reads_a_mean_of_the_source() -> None:
    """The lecture's 0.15 je + 0.05 suis + 0.8 étudiant, by one head of cross-attention."""
    model = made("encoder-decoder", n_layers=2, n_heads=1, head_width=8)
    tokens, weights = tokens_of(["a b c > d"]), torch.tensor([0.15, 0.05, 0.8]).double()
    name = "blocks.1.cross_attn."

    def look(pattern: Tensor, hook: Any) -> Tensor:
        pattern = torch.zeros_like(pattern)
        pattern[0, 0, 4:, 1:4] = weights
        return pattern

    with model.hooks(fwd_hooks=[(name + "hook_pattern", look)]):
        _, cache = model.run_with_cache(tokens)
    je, suis, etudiant = cache[name + "hook_v"][0, 1:4, 0]
    expected = 0.15 * je + 0.05 * suis + 0.8 * etudiant
    torch.testing.assert_close(cache[name + "hook_z"][0, 5, 0], expected)


# -- recurrent ones -------------------------------------------------------------------------------


def test_all_that_an_lstm_tells_of_the_source_is_its_last_state() -> None:
    model = made("lstm-encoder-decoder", n_layers=2)
    one, two = tokens_of(["a b c > a b"]), tokens_of(["d d b > a b"])
    names = [f"blocks.0.hook_{name}" for name in ("cell", "resid_post")]
    _, cache = model.run_with_cache(two, names_filter=names)

    def last_of_two(value: Tensor, hook: Any) -> Tensor:
        return torch.cat([value[:, :4], cache[hook.name][:, 4:5], value[:, 5:]], dim=1)

    patched = model.run_with_hooks(one, fwd_hooks=[(name, last_of_two) for name in names])
    torch.testing.assert_close(patched, model(two))
    assert (patched - model(one)).abs().max() > 1e-3


def test_a_decoder_goes_on_where_the_encoder_stopped() -> None:
    """Step by step, by PyTorch's own cells."""
    model = made("lstm-encoder-decoder", n_layers=2)
    assert isinstance(model, HookedLSTMPair)
    tokens = tokens_of(["a b c > a b"])[0]
    cells = []
    for block in model.blocks:
        cell = nn.LSTMCell(8, 8, dtype=torch.float64)
        assert isinstance(block, Recurrence)
        for name, weight in block.rnn.named_parameters():
            getattr(cell, name.removesuffix("_l0")).data = weight.data
        cells.append(cell)
    state = (torch.zeros(1, 8).double(), torch.zeros(1, 8).double())
    for token in tokens[:5]:
        state = cells[0](model.embed(token)[None], state)
    for at, token in enumerate(tokens[4:], 4):
        state = cells[1](model.embed(token)[None], state)
        torch.testing.assert_close(model(tokens[None])[0, at], model.unembed(state[0][None])[0, 0])


def test_additive_attention_is_that_of_bahdanau() -> None:
    model = made("lstm-attention", n_layers=2)
    tokens = tokens_of(["a b c > a b"])
    _, cache = model.run_with_cache(tokens)
    attn = model.blocks[1].cross_attn
    assert isinstance(attn, Attention)
    h, states = cache["blocks.1.hook_resid_post"][0, 4:], cache["blocks.0.hook_resid_post"][0, :5]
    q, k = attn.q(h)[:, None], attn.k(states)[None]
    assert attn.W_score is not None
    weights = ((q + k).tanh() @ attn.W_score[0]).softmax(dim=1)
    torch.testing.assert_close(cache["blocks.1.cross_attn.hook_pattern"][0, 0, 4:, :5], weights)
    read = h + attn.o(weights @ attn.v(states))
    torch.testing.assert_close(model(tokens)[:, 4:], model.unembed(read[None]))


# -- what is taught -------------------------------------------------------------------------------

PAIRS = objective("sequence-to-sequence")


def test_the_teacher_speaks_from_the_border_on() -> None:
    batch = PAIRS.batch(COPY, words(["a b > a b", "c > c"]))
    ids = COPY.vocabulary.ids
    assert batch.target.nonzero().tolist() == [
        [0, 3, ids["a"]],
        [0, 4, ids["b"]],
        [0, 5, 1],
        [1, 2, ids["c"]],
        [1, 3, 1],
    ]
    assert torch.equal(batch.target, batch.weight)
    truth = PAIRS.truth(COPY, words(["a b > b b"]))
    assert (truth.weight[0, :3] == 0).all()
    assert truth.target[0, 3:].sum(dim=1).tolist() == [1, 0, 0]


def test_the_loss_is_that_of_the_target_given_the_source() -> None:
    model = made("encoder-decoder")
    batch = PAIRS.batch(COPY, words(["a b > a b"]))
    with torch.no_grad():
        logits = model(batch.tokens)
    said = logits[0, 3:].log_softmax(dim=-1)
    right = [COPY.vocabulary.ids["a"], COPY.vocabulary.ids["b"], 1]
    expected = -sum(float(said[i, token]) for i, token in enumerate(right)) / 3
    assert float(PAIRS.loss(logits, batch)) == pytest.approx(expected)


@pytest.mark.parametrize("architecture", [*KINDS, "transformer", "lstm", "ngram"])
def test_a_pair_is_accepted_by_its_target_alone(architecture: str) -> None:
    config = tiny_of(architecture, output="conditional")
    model = build(config, COPY.vocabulary, 3).eval()
    lines = words([*LONG, "a b c", ""])
    logits = model(torch.as_tensor(lines.tokens))
    found = verdicts(model, logits, lines)
    for row in range(len(lines)):
        word = COPY.vocabulary.decode(lines.ids[row, : lines.lengths[row]])
        border = word.index(BORDER) + 1 if BORDER in word else None
        tokens = [*(COPY.vocabulary.ids[s] for s in word), 1]
        likely = border is not None and all(
            logits[row, at, tokens[at]] > 0 for at in range(border, len(tokens))
        )
        assert found[row] == likely
        follow, accepted = predict(model, word, PAIRS)
        assert accepted == likely
        assert all(not said for said in follow[: (border or len(word) + 1) - 1])


@pytest.mark.parametrize("architecture", [*KINDS, "transformer", "gru"])
def test_targets_are_made_after_a_source(architecture: str) -> None:
    model = build(tiny_of(architecture, output="conditional"), COPY.vocabulary, 0).eval()
    generator = Generator(model, PAIRS, 9, ("a", "b", BORDER))
    drawn = generator.sample(4)
    assert all(made.word[:3] == ("a", "b", BORDER) for made in drawn.words)
    assert all(BORDER not in made.word[3:] for made in drawn.words)
    for made in drawn.words:
        if made.ended:
            with torch.no_grad():
                said = model(tokens_of([" ".join(made.word)]))[0, 3:].double()
            steps = PAIRS.log_probabilities(said, COPY.vocabulary)
            tokens = [*(COPY.vocabulary.ids[s] for s in made.word[3:]), 1]
            total = sum(float(steps[i, token]) for i, token in enumerate(tokens))
            assert made.log_probability == pytest.approx(total, abs=1e-5)
    with pytest.raises(UserError, match=r"after a source: .*--prompt"):
        Generator(model, PAIRS, 9, ("a", "b"))


def test_what_has_no_pairs_is_refused_in_one_line(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"^no symbol is '>'"):
        Run.create(tmp_path / "run", tiny_config(objective=PAIRS.name, language="anbn"))
    with pytest.raises(UserError, match="an encoder-decoder is taught targets alone"):
        tiny_config(model=tiny_of("encoder-decoder"), objective="next-symbols")
    with pytest.raises(UserError, match="anbn has no pairs"):
        recipe("anbn", ModelConfig(architecture="lstm-attention"))
    with pytest.raises(UserError, match="a block for each side"):
        ModelConfig(architecture="encoder-decoder", n_layers=1)
    with pytest.raises(UserError, match="the output softmax is that of language-model"):
        tiny_config(objective=PAIRS.name, model=tiny_of("gru", output="softmax"))


@pytest.mark.parametrize("architecture", KINDS)
def test_a_run_is_trained_and_judged(architecture: str, tmp_path: Path) -> None:
    run = Run.create(tmp_path / "run", tiny_config(model=tiny_of(architecture)))
    train(run, "cpu")
    assert run.config.model.output == "conditional"
    losses = [line["loss"] for line in run.metrics()]
    assert losses[-1] < losses[0]


def test_learned_positions_end_somewhere() -> None:
    model = made("encoder-decoder", positions="learned", n_ctx=6)
    model(tokens_of(["a b c > a b c"]))
    with pytest.raises(UserError, match="longer than the learned positions reach"):
        model(tokens_of(["a b c d a b > a"]))
    with pytest.raises(UserError, match="longer than the learned positions reach"):
        model(tokens_of(["a > a b c d a b"]))


def test_a_side_is_cut_out_and_put_back() -> None:
    tokens = tokens_of()
    sides = Sides.of(tokens, COPY.vocabulary.border())
    assert sides.border.tolist() == [2, 4, 5, 3, 6]
    cut = sides.cut()
    whole = sides.put_back(cut[..., None].double())[..., 0].long()
    assert torch.equal(whole, tokens * sides.target)
    rng = np.random.default_rng(0)
    drawn = COPY.sample(rng, 50, COPY.lengths(9), True).words
    sides = Sides.of(torch.as_tensor(drawn.tokens), COPY.vocabulary.border())
    assert sides.source.sum(dim=1).tolist() == (drawn.lengths // 2 + 2).tolist()
