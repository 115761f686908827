"""A Transformer of the lab as a network of ``transformers``, with the same logits.

Networks with a table of positions, or none, become a GPT-2; rotary ones a GPT-NeoX.
"""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn

from models.base import LanguageModel
from models.choices import ABSOLUTE, Counting
from models.errors import UserError
from models.languages import BOS, END, Vocabulary
from models.languages.vocabulary import UNK
from models.transformer.attention import bias_of
from models.transformer.model import HookedTransformer

ROUNDING = 1e-5


@torch.no_grad()
def exported(model: LanguageModel) -> Any:
    """A ``GPT2LMHeadModel`` or a ``GPTNeoXForCausalLM`` with the weights of a network.

    Its logits are x W_U + b_U: those of the network, or, where its output is a softmax, these but
    for one number at each position, which a softmax does not see. Neither kind has b_U. The bias of
    the last norm, which ours does not have, gives the same where the tokens are no more than the
    dimensions.

    Raises:
        UserError: neither kind computes what the network does; or no bias of the last norm gives
            b_U.
    """
    ours = _standard(model)
    made = (_neox if ours.config.positions == "rotary" else _gpt2)(ours).eval()
    _copy(made.get_output_embeddings(), ours.W_U.T)
    _copy(made.get_input_embeddings(), ours.embedded(torch.arange(len(ours.vocabulary))))
    return made


def network_files(model: LanguageModel) -> dict[str, bytes]:
    """The files of the network as ``save_pretrained`` writes them, by their names, with those of a
    tokenizer that cuts at blanks.

    Raises:
        UserError: see ``exported``.
    """
    from transformers.utils import logging

    made = exported(model)
    logging.disable_progress_bar()  # one file, and a line of its own for it
    with TemporaryDirectory() as folder:
        made.save_pretrained(folder)
        _tokenizer(model.vocabulary).save_pretrained(folder)
        return {file.name: file.read_bytes() for file in sorted(Path(folder).iterdir())}


def _standard(model: LanguageModel) -> HookedTransformer:
    """The network. Raises UserError if no standard one computes what it does."""
    if not isinstance(model, HookedTransformer):
        raise UserError(
            f"a network of architecture {model.config.architecture} is no standard Transformer: "
            "export a run of architecture transformer"
        )
    c = model.config
    heads = c.n_heads * c.d_head, c.n_heads * c.d_value
    strange = {
        "another mask than the causal one": c.mask != "causal" or c.window > 0,
        "another norm than LayerNorm": c.norm != "layer",
        f"{c.norm_placement}-norm blocks": c.norm_placement != "pre",
        "a norm of queries and keys": c.qk_norm != "none",
        "no residual stream": not c.residual,
        "a gated MLP": c.mlp == "gated",
        "other scores than dot products": c.scores not in ("dot", "scaled_dot"),
        "heads that do not make up the stream's width": heads != (c.d_model, c.d_model),
        "heads that count": c.counting != Counting(),
        f"{c.positions} positions": c.positions not in ("none", "rotary", *ABSOLUTE),
        "parallel blocks without rotary positions": c.parallel and c.positions != "rotary",
    }
    for what, there in strange.items():
        if there:
            raise UserError(
                f"the network has {what}, and neither GPT-2 nor GPT-NeoX has: export another run"
            )
    return model


def _gpt2(model: HookedTransformer) -> Any:
    from transformers import GPT2Config, GPT2LMHeadModel

    config, sizes = model.config, _sizes(model)
    made = GPT2LMHeadModel(
        GPT2Config(
            **sizes,
            n_embd=config.d_model,
            n_layer=config.n_layers,
            n_head=config.n_heads,
            n_inner=config.d_mlp,
            n_positions=config.n_ctx,
            activation_function=config.act_fn,
            layer_norm_epsilon=config.eps,
            resid_pdrop=0.0,
            embd_pdrop=0.0,
            attn_pdrop=0.0,
        )
    )
    places: Tensor | int = 0
    if config.positions != "none":
        places = model.position_embedding(torch.zeros(1, config.n_ctx, dtype=torch.long), None)[0]
    _copy(made.transformer.wpe, places)
    for block, layer in zip(model.blocks, made.transformer.h, strict=True):
        attn, mlp = block.attn, block.mlp
        _copy(layer.ln_1, block.ln1.weight, block.ln1.bias)
        weight, bias = _queries_keys_values(attn)
        _copy(layer.attn.c_attn, weight.flatten(0, 2).T, bias.flatten())
        _copy(layer.attn.c_proj, attn.o.weight.T, attn.o.bias)
        _copy(layer.ln_2, *(block.ln2.weight, block.ln2.bias) if mlp else (1.0, 0.0))
        _copy(layer.mlp.c_fc, *(mlp.fc_in.weight.T, mlp.fc_in.bias) if mlp else (0.0, 0.0))
        _copy(layer.mlp.c_proj, *(mlp.fc_out.weight.T, mlp.fc_out.bias) if mlp else (0.0, 0.0))
    _copy(made.transformer.ln_f, 1.0, _last_bias(model))
    return made


def _neox(model: HookedTransformer) -> Any:
    from transformers import GPTNeoXConfig, GPTNeoXForCausalLM

    config, sizes = model.config, _sizes(model)
    made = GPTNeoXForCausalLM(
        GPTNeoXConfig(
            **sizes,
            hidden_size=config.d_model,
            num_hidden_layers=config.n_layers,
            num_attention_heads=config.n_heads,
            intermediate_size=config.d_mlp,
            max_position_embeddings=config.n_ctx,
            hidden_act=config.act_fn,
            layer_norm_eps=config.eps,
            use_parallel_residual=config.parallel,
            rope_parameters={
                "rope_type": "default",
                "rope_theta": config.position_base,
                "partial_rotary_factor": 1.0,
            },
        )
    )
    for block, layer in zip(model.blocks, made.gpt_neox.layers, strict=True):
        attn, mlp = block.attn, block.mlp
        _copy(layer.input_layernorm, block.ln1.weight, block.ln1.bias)
        second = block.ln1 if config.parallel else getattr(block, "ln2", None)
        _copy(
            layer.post_attention_layernorm,
            *(second.weight, second.bias) if second is not None else (1.0, 0.0),
        )
        weight, bias = (part.transpose(0, 1) for part in _queries_keys_values(attn))
        _copy(layer.attention.query_key_value, weight.flatten(0, 2), bias.flatten())
        _copy(layer.attention.dense, attn.o.weight, attn.o.bias)
        inside = (mlp.fc_in.weight, mlp.fc_in.bias) if mlp else (0.0, 0.0)
        outside = (mlp.fc_out.weight, mlp.fc_out.bias) if mlp else (0.0, 0.0)
        _copy(layer.mlp.dense_h_to_4h, *inside)
        _copy(layer.mlp.dense_4h_to_h, *outside)
    _copy(made.gpt_neox.final_layer_norm, 1.0, _last_bias(model))
    return made


def _sizes(model: HookedTransformer) -> dict[str, Any]:
    """What both kinds of configurations call the same."""
    ids = model.vocabulary.ids
    return {
        "vocab_size": len(model.vocabulary),
        "bos_token_id": ids[BOS],
        "eos_token_id": ids[END],
        "tie_word_embeddings": False,
    }


def _copy(part: nn.Module, weight: Tensor | float, bias: Tensor | float | None = 0.0) -> None:
    """Writes weights and bias of a module; a number stands for a tensor of it, None for 0."""
    for name, value in (("weight", weight), ("bias", 0.0 if bias is None else bias)):
        there = getattr(part, name, None)
        if isinstance(there, Tensor):
            there.copy_(torch.as_tensor(value, dtype=there.dtype, device=there.device))


def _queries_keys_values(
    attn: Any,
) -> tuple[Float[Tensor, "3 head d_head d_model"], Float[Tensor, "3 head d_head"]]:
    """The weights and biases of all three. Both kinds of networks divide scores by the root of
    d_head: where ours do not, queries are larger by it."""
    parts, heads = (attn.q, attn.k, attn.v), (attn.n_heads, attn.d_head)
    weight = torch.stack([part.weight.unflatten(0, heads) for part in parts])
    bias = torch.stack([bias_of(part).unflatten(0, heads) for part in parts])
    larger = attn.scale * attn.d_head**0.5  # 1 where they are scaled
    weight[0] *= larger
    bias[0] *= larger
    return weight, bias


def _last_bias(model: HookedTransformer) -> Tensor:
    """The bias of the last norm that stands in for b_U."""
    unembed, wanted = model.W_U.T.double().cpu(), model.b_U.double().cpu()
    if model.softmax:  # one number more or less at all tokens makes no difference
        unembed, wanted = unembed - unembed.mean(dim=0), wanted - wanted.mean()
    bias = torch.linalg.lstsq(unembed, wanted[:, None], driver="gelsd").solution[:, 0]
    missed = float((unembed @ bias.float().double() - wanted).abs().max())
    if missed > ROUNDING * max(1.0, float(wanted.abs().max())):
        raise UserError(
            f"the biases of {len(wanted)} logits do not fit into {len(bias)} dimensions, and GPT-2 "
            "has none: train a wider network"
        )
    return bias


def _tokenizer(vocabulary: Vocabulary) -> Any:
    """A tokenizer that cuts at blanks."""
    from tokenizers import Tokenizer, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    unknown = UNK if UNK in vocabulary.ids else END
    words = Tokenizer(models.WordLevel(vocabulary.ids, unk_token=unknown))
    words.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    return PreTrainedTokenizerFast(tokenizer_object=words, bos_token=BOS, eos_token=END)
