"""Do the scores of heads follow the cosine of the embeddings?"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd

from analyses.answers import Progress, quiet
from interp.comparisons import corrected
from interp.heads.cosine import agreement_with_cosine
from interp.heads.qk_and_ov import has_rotary_positions, qk_circuit
from models.base import EmbeddingModel, LanguageModel
from models.errors import UserError
from models.languages import END_ID
from models.runs.run import Run


def cosine(runs: Sequence[Run], seed: int = 0, progress: Progress = quiet) -> pd.DataFrame:
    """Rank correlation of each head's scores q.k with the cosine of the tokens' embeddings.

    Scores are those of the embeddings alone (``interp.heads.qk_and_ov.qk_circuit``; with rotary
    positions, of a key right before the query). END is never read, and left out.

    Args:
        seed: of the permutations.

    Returns:
        One row per run, model and head: run, model ("trained", "untrained"), head, correlation
        (Spearman's, over all ordered pairs of different tokens), corrected (p of Mantel's test, by
        Holm's method over the heads of a model), with_self (the correlation where a token is paired
        with itself too), tokens, pairs.

    Raises:
        UserError: a run has no heads that read one residual stream.
    """
    rows = []
    for number, run in enumerate(runs):
        config = run.config.model
        if not (config.family.attends and config.residual) or config.family.two_sided:
            raise UserError(
                f"{run.name} has no heads on one residual stream: ask a Transformer of one side"
            )
        for done, name in enumerate(("trained", "untrained")):
            progress(2 * number + done, 2 * len(runs), f"{run.name}, {name}")
            model = run.model() if name == "trained" else run.untrained()
            rows.append(_of_model(model, seed).assign(run=run.name, model=name))
    progress(2 * len(runs), 2 * len(runs), "cosine")
    columns = ["run", "model", "head", "correlation", "corrected", "with_self", "tokens", "pairs"]
    return pd.concat(rows, ignore_index=True)[columns]


def _of_model(model: LanguageModel, seed: int) -> pd.DataFrame:
    assert isinstance(model, EmbeddingModel)
    read = np.delete(np.arange(len(model.vocabulary)), END_ID)
    embeddings = model.W_E.detach().double().numpy()[read]
    distance = 1 if has_rotary_positions(model) else None
    rows = []
    for layer in range(model.config.n_layers):
        for head in range(model.config.n_heads):
            scores = qk_circuit(model, layer, head, distance).double().numpy()[np.ix_(read, read)]
            found = agreement_with_cosine(scores, embeddings, seed)
            rows.append(
                {
                    "head": f"L{layer}H{head}",
                    "correlation": found.others,
                    "corrected": found.p,
                    "with_self": found.everything,
                    "tokens": len(read),
                    "pairs": len(read) * (len(read) - 1),
                }
            )
    table = pd.DataFrame(rows)
    return table.assign(corrected=corrected(table["corrected"].to_numpy()))


def in_words(table: pd.DataFrame) -> str:
    """What the table says of all heads together."""
    said = []
    for run, own in table.groupby("run", sort=False):
        trained, untrained = (own[own["model"] == name] for name in ("trained", "untrained"))
        like = (trained["corrected"] < 0.05) & (trained["correlation"] > 0)
        unlike = (trained["corrected"] < 0.05) & (trained["correlation"] < 0)
        said.append(
            f"{run}: mean correlation {trained['correlation'].mean():.2f} over {len(trained)} "
            f"heads (untrained {untrained['correlation'].mean():.2f}); {like.sum()} score "
            f"like tokens higher and {unlike.sum()} unlike ones (p < 0.05, Holm)"
        )
    return f"{'. '.join(said)}. {table['pairs'].min()} pairs of different tokens."
