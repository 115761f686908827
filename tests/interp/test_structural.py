"""Structural probes on activations in which a tree was planted, and on noise."""

from __future__ import annotations

import networkx as nx
import numpy as np
import pytest
import torch
from scipy.stats import spearmanr

from interp.probing.structural import Sentences, Structure, fit, spearman, swapped


def planted(count: int, seed: int, noise: float = 3.0) -> Sentences:
    """Random trees whose nodes are the words. A node's activation adds a direction of its own to
    that of its parent: squared distances are distances in the tree. Beside that there is strong
    noise, and all is turned."""
    rng, size, width = np.random.default_rng(seed), 8, 24
    x = np.zeros((count, size, width))
    distance, depth = np.zeros((count, size, size)), np.zeros((count, size))
    turn = np.linalg.qr(np.random.default_rng(99).normal(size=(width, width)))[0]
    mask = np.arange(size) < rng.integers(5, size + 1, count)[:, None]
    for row in range(count):
        tree = nx.random_labeled_rooted_tree(size, seed=int(rng.integers(2**31)))
        root = tree.graph["root"]
        lengths = dict(nx.all_pairs_shortest_path_length(tree))
        distance[row] = [[lengths[i][j] for j in range(size)] for i in range(size)]
        depth[row] = distance[row, root]
        for parent, child in nx.bfs_edges(tree, root):
            x[row, child] = x[row, parent]
            x[row, child, child] += 1
    x[..., size:] = rng.normal(size=(count, size, width - size)) * noise
    x = x @ turn * 3
    return Sentences(
        *(torch.as_tensor(a, dtype=torch.float64) for a in (x, distance, depth)),
        torch.as_tensor(mask),
    )


def words(sentences: Sentences) -> list[int]:
    return sentences.mask.sum(dim=1).tolist()


@pytest.mark.parametrize("of", ["distance", "depth"])
def test_a_planted_tree_is_found_and_another_is_not(of: Structure) -> None:
    train, test = planted(200, 0), planted(60, 1)
    probe = fit(train, of)
    score = spearman(probe(test.x), test, of)
    assert np.nanmean(score) > 0.95  # of equal depths, none is read as equal
    error = (probe(test.x) - test.truth(of)).abs()[test.cells(of)]
    assert error.mean() < 0.3  # the values themselves, not their order alone
    wrong = fit(swapped(train, words(train)), of)
    assert np.nanmean(spearman(wrong(test.x), test, of)) < 0.6
    drawn = torch.as_tensor(np.random.default_rng(2).normal(size=test.x.shape))
    noise = Sentences(drawn, test.distance, test.depth, test.mask)
    assert abs(np.nanmean(spearman(probe(noise.x), noise, of))) < 0.15


def test_the_score_is_spearman_s_word_by_word() -> None:
    test = planted(5, 2)
    read = torch.as_tensor(np.random.default_rng(0).normal(size=test.distance.shape))
    for row, size in enumerate(words(test)):
        by_hand = [
            spearmanr(
                *(np.delete(each[row, i, :size].numpy(), i) for each in (read, test.distance))
            )[0]
            for i in range(size)
        ]
        known = [value for value in by_hand if np.isfinite(value)]
        assert spearman(read, test, "distance")[row] == pytest.approx(np.mean(known))
    one = spearman(test.depth, test, "depth")
    assert one[np.isfinite(one)] == pytest.approx(1.0)


def test_what_stands_past_the_end_counts_for_nothing() -> None:
    train, test = planted(60, 3), planted(10, 4)
    other = Sentences(
        train.x + 50 * ~train.mask[..., None], train.distance, train.depth, train.mask
    )
    for of in ("distance", "depth"):
        one, two = fit(train, of), fit(other, of)
        torch.testing.assert_close(one(test.x), two(test.x))


def test_the_control_gives_each_sentence_a_tree_of_its_length() -> None:
    train = planted(40, 5)
    lengths = words(train)
    other = swapped(train, lengths, seed=1)
    assert torch.equal(other.x, train.x)
    moved = 0
    for row in range(40):
        same = [i for i in range(40) if torch.equal(other.distance[row], train.distance[i])]
        assert any(lengths[i] == lengths[row] for i in same)
        assert any(torch.equal(other.depth[row], train.depth[i]) for i in same)
        moved += row not in same
    assert moved > 20
