import math
import time

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from nsac.core import masked_softmax, select_topk, weigh

METHODS = ("exact", "sqrt")


def recall(found, wanted):
    return (found[..., :, None] == wanted[..., None, :]).any(-1).double().mean().item()


def smooth(n, generator, waves=8, dim=4):
    """Band-limited sequences, (1, heads, n, dim): the first `waves` harmonics with random weights."""
    angle = 2 * math.pi * torch.arange(1, waves + 1)[:, None] * torch.arange(n) / n
    basis = torch.cat([angle.sin(), angle.cos()])
    return torch.einsum("hdf,fn->hnd", torch.randn(8, dim, 2 * waves, generator=generator), basis)[None]


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("n_keys", range(1, 201))
def test_every_key_can_be_selected(n_keys, method, seed):
    keys = torch.nn.functional.normalize(
        torch.randn(1, 1, n_keys, 4, generator=torch.Generator().manual_seed(seed)), dim=-1
    )
    index, keep = select_topk(keys, keys, 1, method=method)  # the nearest unit vector to a unit vector is itself
    assert keep.all()
    assert torch.equal(index.flatten(), torch.arange(n_keys))


@given(st.integers(1, 300), st.integers(1, 40), st.integers(0, 2**31))
@settings(max_examples=40, deadline=None)
def test_exact_selection_finds_the_largest_scores(n_keys, topk, seed):
    g = torch.Generator().manual_seed(seed)
    q, k = torch.randn(2, 2, 5, 3, generator=g), torch.randn(2, 2, n_keys, 3, generator=g)
    scores = q @ k.mT
    index, keep = select_topk(q, k, topk)
    assert keep.all() and index.shape[-1] == min(topk, n_keys)
    torch.testing.assert_close(scores.gather(-1, index).sort(-1).values, scores.topk(index.shape[-1]).values.flip(-1))
    assert (index.diff(dim=-1) > 0).all()  # by key, each once


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("n_keys", [7, 400])
def test_masked_keys_are_never_selected(n_keys, method, generator):
    q, k = torch.randn(3, 2, 11, 4, generator=generator), torch.randn(3, 2, n_keys, 4, generator=generator)
    mask = torch.rand(3, n_keys, generator=generator) < 0.8
    mask[1] = True  # nothing left
    mask[2] = False
    index, keep = select_topk(q, k, 5, mask=mask, method=method)
    picked_masked = mask[torch.arange(3).view(3, 1, 1, 1), index] & keep
    assert not picked_masked.any()
    assert not keep[1].any() and keep[2].all()
    assert torch.equal(keep[0].sum(-1), (~mask[0]).sum().clamp(max=5).expand(2, 11))


@pytest.mark.parametrize("method", METHODS)
def test_causal_selection_does_not_depend_on_the_future(method, generator):
    q, k = torch.randn(1, 2, 600, 4, generator=generator), torch.randn(1, 2, 600, 4, generator=generator)
    changed = k.clone()
    changed[..., 301:, :] = 100 * torch.randn(1, 2, 299, 4, generator=generator)
    (one, keep), (two, _) = (select_topk(q, keys, 8, causal=True, method=method) for keys in (k, changed))
    assert torch.equal(one[..., :301, :], two[..., :301, :])
    assert (one <= torch.arange(600)[:, None])[keep].all()
    assert torch.equal(keep[0, 0].sum(-1), torch.arange(1, 601).clamp(max=8))


@pytest.mark.parametrize("method", METHODS)
def test_causal_positions_may_be_in_any_order(method, generator):
    k, q = torch.randn(2, 1, 500, 4, generator=generator), torch.randn(2, 1, 9, 4, generator=generator)
    key_pos, query_pos = torch.rand(2, 500, generator=generator), torch.rand(2, 9, generator=generator)
    index, keep = select_topk(q, k, 8, causal=True, method=method, query_pos=query_pos, key_pos=key_pos)
    chosen = key_pos[:, None, None].expand(2, 1, 9, 500).gather(-1, index)
    assert (chosen <= query_pos[:, None, :, None])[keep].all()
    assert torch.equal(keep.sum(-1)[:, 0], (key_pos[:, None] <= query_pos[..., None]).sum(-1).clamp(max=8))


def test_masked_keys_take_no_space_in_the_block_search(generator):
    """32 keys that count among 1024, one in every block: all are found."""
    q, k = torch.randn(1, 1, 5, 4, generator=generator), torch.randn(1, 1, 1024, 4, generator=generator)
    mask = torch.ones(1, 1024, dtype=torch.bool)
    mask[:, ::32] = False
    index, keep = select_topk(q, k, 32, mask=mask, method="sqrt")
    assert keep.all() and torch.equal(index[0, 0, 0], torch.arange(0, 1024, 32))


def test_block_search_is_exact_up_to_256_keys(generator):
    q, k = torch.randn(2, 2, 20, 4, generator=generator), torch.randn(2, 2, 256, 4, generator=generator)
    assert torch.equal(select_topk(q, k, 8, method="sqrt")[0], select_topk(q, k, 8)[0])


def test_block_search_finds_the_keys_of_a_smooth_sequence(generator, record_property):
    q, k = smooth(1024, generator), smooth(1024, generator)
    found = recall(select_topk(q, k, 8, method="sqrt")[0], select_topk(q, k, 8)[0])
    q, k = torch.randn(2, 1, 8, 1024, 4, generator=generator).unbind(0)
    noise = recall(select_topk(q, k, 8, method="sqrt")[0], select_topk(q, k, 8)[0])
    record_property("recall", {"smooth": found, "independent": noise})
    print(f"recall of the block search at T = 1024: smooth {found:.3f}, independent random keys {noise:.3f}")
    assert found >= 0.8


@pytest.mark.slow
def test_cost_of_the_block_search_grows_no_faster_than_n_to_the_1_6(generator):
    lengths, seconds = [2048, 8192, 32768], []
    for n in lengths:
        q = torch.randn(1, 2, n, 4, generator=generator, dtype=torch.float32)
        best = math.inf
        for _ in range(3):
            start = time.process_time()
            select_topk(q, q, 8, method="sqrt")
            best = min(best, time.process_time() - start)
        seconds.append(best)
    (slope,) = torch.linalg.lstsq(
        torch.tensor([[math.log(n), 1.0] for n in lengths]), torch.tensor([[math.log(s)] for s in seconds])
    ).solution[0]
    print(f"block search: {dict(zip(lengths, seconds, strict=True))} s of CPU, exponent {slope:.2f}")
    assert slope < 1.6


@pytest.mark.parametrize("method", METHODS)
def test_memory_of_the_search_does_not_grow_with_the_square_of_the_length(method, generator):
    def peak(n):
        q = torch.randn(1, 1, n, 4, generator=generator, dtype=torch.float32)
        with torch.profiler.profile(profile_memory=True) as profile:
            select_topk(q, q, 8, method=method)
        held = highest = 0
        for event in profile.profiler.kineto_results.events():
            if event.name() == "[memory]":
                held += event.nbytes()
                highest = max(highest, held)
        return highest

    small, large = peak(2000), peak(8000)
    assert large < 8 * small  # four times the length; the square would be 16


def test_invalid_arguments_are_refused_by_name():
    q = torch.randn(1, 1, 3, 2)
    with pytest.raises(ValueError, match="`topk`"):
        select_topk(q, q, 0)
    with pytest.raises(ValueError, match="`method`"):
        select_topk(q, q, 1, method="fast")  # pyright: ignore[reportArgumentType]
    with pytest.raises(ValueError, match="together"):
        select_topk(q, q, 1, causal=True, query_pos=torch.arange(3))
    with pytest.raises(ValueError, match="`query_pos`"):
        select_topk(q, torch.randn(1, 1, 4, 2), 1, causal=True)


def test_softmax_with_nothing_kept_is_zero_and_its_gradient_finite():
    logits = torch.randn(3, 4, requires_grad=True)
    keep = torch.tensor([[True] * 4, [True, False, False, True], [False] * 4])
    weights = masked_softmax(logits, keep)
    torch.testing.assert_close(weights.sum(-1), torch.tensor([1.0, 1.0, 0.0]))
    assert (weights[~keep] == 0).all()
    weights.square().sum().backward()
    assert logits.grad.isfinite().all() and (logits.grad[~keep] == 0).all()


def test_weigh_is_a_sum_over_keys(generator):
    weights, values = torch.rand(2, 3, 4, 5, generator=generator), torch.randn(6, 3, 4, 5, generator=generator)
    torch.testing.assert_close(weigh(weights, values), torch.einsum("nkab,dkab->ndab", weights, values))


def direct(q, k, topk, mask=None, causal=False, positions=None):
    """The same selection without chunks, folds and blocks: keys in order, and which of them are kept."""
    scores = q @ k.mT
    if mask is not None:
        scores = scores.masked_fill(mask[:, None, None], -math.inf)
    if causal:
        query_pos, key_pos = positions or (torch.arange(q.shape[-2]), torch.arange(k.shape[-2]))
        query_pos, key_pos = torch.atleast_2d(query_pos), torch.atleast_2d(key_pos)
        scores = scores.masked_fill((key_pos[:, None] > query_pos[..., None])[:, None], -math.inf)
    best = scores.topk(min(topk, k.shape[-2]))
    return [sorted(i for i, s in zip(*row, strict=True) if s > -math.inf) for row in zip(
        best.indices.flatten(0, -2).tolist(), best.values.flatten(0, -2).tolist(), strict=True
    )]  # fmt: skip


def selected(index, keep):
    return [[i for i, kept in zip(*row, strict=True) if kept] for row in zip(
        index.flatten(0, -2).tolist(), keep.flatten(0, -2).tolist(), strict=True
    )]  # fmt: skip


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize("n_keys, topk", [(1, 1), (2, 3), (10, 10), (63, 2), (64, 2), (65, 2), (70, 2), (200, 6)])
def test_selection_is_that_of_all_scores(n_keys, topk, masked, causal, method, generator):
    """At 4 * 8 * topk keys the exact search begins to fold its scores; up to 256 keys the block search is exact."""
    q, k = torch.randn(2, 3, n_keys, 4, generator=generator), torch.randn(2, 3, n_keys, 4, generator=generator)
    mask = torch.rand(2, n_keys, generator=generator) < 0.4 if masked else None
    found = selected(*select_topk(q, k, topk, mask, causal, method))
    assert found == direct(q, k, topk, mask, causal)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("workspace", [1, 130, 260, 1300, 2600, 5200])
def test_chunks_of_queries_select_what_one_pass_does(workspace, method, generator, monkeypatch):
    q, k = torch.randn(2, 2, 20, 4, generator=generator), torch.randn(2, 2, 130, 4, generator=generator)
    mask = torch.rand(2, 130, generator=generator) < 0.2
    positions = torch.randint(0, 130, (2, 20), generator=generator), torch.arange(130)
    expected = direct(q, k, 5, mask, True, positions)
    monkeypatch.setattr("nsac.core.keys.WORKSPACE", workspace)
    assert selected(*select_topk(q, k, 5, mask, True, method, *positions)) == expected
    assert selected(*select_topk(q, k, 5, None, False, method)) == direct(q, k, 5)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("n_keys", [5, 50, 99, 130])
def test_padding_is_not_preferred_to_negative_scores(n_keys, method, generator):
    q, k = torch.ones(1, 1, 3, 4), -1 - torch.rand(1, 1, n_keys, 4, generator=generator)
    index, keep = select_topk(q, k, 3, method=method)
    assert keep.all() and selected(index, keep) == direct(q, k, 3)


@pytest.mark.parametrize("method", METHODS)
def test_keys_that_are_not_kept_come_last_and_are_valid_indices(method, generator):
    q, k = torch.randn(2, 1, 6, 4, generator=generator), torch.randn(2, 1, 6, 4, generator=generator)
    index, keep = select_topk(q, k, 4, causal=True, method=method)
    assert ((index >= 0) & (index < 6)).all()
    assert (keep.int().diff(dim=-1) <= 0).all()


@pytest.mark.parametrize("dtype", [torch.int64, torch.float64, torch.float32])
@pytest.mark.parametrize("method", METHODS)
def test_positions_may_have_any_type_and_equal_positions_are_not_later(method, dtype, generator):
    q, k = torch.randn(1, 1, 4, 4, generator=generator), torch.randn(1, 1, 400, 4, generator=generator)
    positions = torch.tensor([-3, 0, 0, 5]).to(dtype), torch.randint(-3, 6, (400,), generator=generator).to(dtype)
    index, keep = select_topk(q, k, 400, causal=True, method=method, query_pos=positions[0], key_pos=positions[1])
    assert selected(index, keep) == direct(q, k, 400, None, True, positions)


def test_the_block_search_opens_enough_blocks_for_all_keys_that_are_wanted(generator):
    """1024 keys lie in blocks of 32; 600 need 19 of them, more than it usually opens."""
    q, k = torch.randn(1, 1, 2, 4, generator=generator), torch.randn(1, 1, 1024, 4, generator=generator)
    for topk in (600, 608, 609, 1024):
        index, keep = select_topk(q, k, topk, method="sqrt")
        assert index.shape[-1] == topk and keep.all() and (index.diff(dim=-1) > 0).all()


@pytest.mark.parametrize("n_keys", [4096, 4000], ids=["full blocks", "a short last block"])
@pytest.mark.parametrize("masked", [False, True])
def test_the_block_search_opens_the_blocks_with_the_largest_bounds(masked, n_keys):
    """One key points towards the query; it is found in whichever block it is, for any sign of the query."""
    for place in (0, 63, 64, 2000, n_keys - 1):
        for sign in (1.0, -1.0):
            k = torch.zeros(1, 1, n_keys, 2)
            k[..., place, :] = torch.tensor([sign, -sign])
            mask = torch.arange(n_keys)[None] % 5 == (place + 1) % 5 if masked else None
            index, _ = select_topk(10 * k[..., place : place + 1, :], k, 1, mask, method="sqrt")
            assert index.item() == place


def test_a_softmax_may_run_over_any_axis(generator):
    logits, keep = torch.randn(3, 4, generator=generator), torch.rand(3, 4, generator=generator) < 0.7
    torch.testing.assert_close(masked_softmax(logits, keep, dim=0), masked_softmax(logits.T, keep.T).T)
    torch.testing.assert_close(masked_softmax(logits), logits.softmax(1))
    torch.testing.assert_close(masked_softmax(logits, torch.ones(3, 4, dtype=torch.bool)), logits.softmax(1))


def test_the_weighted_value_of_one_key_is_its_value(generator):
    values = torch.randn(6, 1, 4, generator=generator)
    torch.testing.assert_close(weigh(torch.ones(2, 1, 4), values), values[:, 0].expand(2, 6, 4))
