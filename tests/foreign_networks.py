"""Small language models as others make them: of ``transformers``, saved in a folder."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from tokenizers import Tokenizer
from tokenizers.models import WordLevel
from tokenizers.pre_tokenizers import WhitespaceSplit
from torch.nn.functional import cross_entropy
from transformers import (
    AutoModelForCausalLM,
    GPT2Config,
    LlamaConfig,
    PretrainedConfig,
    PreTrainedTokenizerFast,
)
from transformers.utils import logging

VOCABULARY = {"<s>": 0, "</s>": 1, "<unk>": 2, "a": 3, "b": 4}
BORDER = {"bos_token_id": 0, "eos_token_id": 1, "pad_token_id": None}
NO_DROPOUT = {"resid_pdrop": 0.0, "embd_pdrop": 0.0, "attn_pdrop": 0.0}
CONTEXT = 25
KINDS: Mapping[str, Callable[[], PretrainedConfig]] = {
    "gpt2": lambda: GPT2Config(
        vocab_size=5,
        n_embd=32,
        n_layer=2,
        n_head=2,
        n_positions=CONTEXT,
        **BORDER,
        **NO_DROPOUT,
    ),
    "llama": lambda: LlamaConfig(
        vocab_size=5,
        hidden_size=32,
        intermediate_size=64,
        num_hidden_layers=2,
        num_attention_heads=2,
        num_key_value_heads=1,
        max_position_embeddings=CONTEXT,
        **BORDER,
    ),
}


def made(kind: str, words: Sequence[str] = (), steps: int = 100, d_vocab: int = 5) -> Any:
    """A network with random weights; with words, it is taught to continue them."""
    with torch.random.fork_rng():
        torch.manual_seed(0)
        config = KINDS[kind]()
        config.vocab_size = d_vocab
        model = AutoModelForCausalLM.from_config(config)
        if words:
            taught(model, words, steps)
    return model.eval()


def taught(model: Any, words: Sequence[str], steps: int) -> None:
    """The next token of every word, the end token after it; words are drawn evenly."""
    rows = [[0, *(VOCABULARY[symbol] for symbol in word), 1] for word in words]
    longest = max(map(len, rows))
    tokens = torch.tensor([row + [1] * (longest - len(row)) for row in rows])
    inside = torch.arange(1, longest) < torch.tensor([len(row) for row in rows])[:, None]
    target = tokens[:, 1:].where(inside, -100)
    optimizer = torch.optim.AdamW(model.parameters(), lr=5e-3)
    for _ in range(steps):
        chosen = torch.randint(len(rows), (32,))
        logits = model(input_ids=tokens[chosen]).logits[:, :-1]
        optimizer.zero_grad()
        cross_entropy(logits.flatten(0, 1), target[chosen].flatten()).backward()
        optimizer.step()


def saved(model: Any, folder: Path, vocabulary: Mapping[str, int] = VOCABULARY) -> Path:
    """The folder with the network and a tokenizer that cuts at spaces."""
    logging.disable_progress_bar()
    tokenizer = Tokenizer(WordLevel(dict(vocabulary), unk_token="<unk>"))
    tokenizer.pre_tokenizer = WhitespaceSplit()
    special = {"bos_token": "<s>", "eos_token": "</s>", "unk_token": "<unk>"}
    PreTrainedTokenizerFast(tokenizer_object=tokenizer, **special).save_pretrained(folder)
    model.save_pretrained(folder)
    return folder
