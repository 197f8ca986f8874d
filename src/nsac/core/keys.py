r"""Keys of a query: those with the K largest $q \cdot k$, the softmax among them, the weighted sum of their values."""

import math
from typing import Literal, NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import pad

PROBES = 16  # blocks whose keys are scored per query; up to T = 256 every block, so the block search is exact there
WORKSPACE = 2**16  # scores in memory at once per batch row and head; it sets the number of queries per chunk
FOLDS = 8  # rows into which a long vector of scores is folded for the exact search; the fastest for T from 256 to 4096

Positions = tuple[Tensor, Tensor]  # of queries, (B or 1, Q), and of keys, (B or 1, T)


@torch.no_grad()
def select_topk(
    q: Tensor,
    k: Tensor,
    topk: int,
    mask: Tensor | None = None,
    causal: bool = False,
    method: Literal["exact", "sqrt"] = "exact",
    query_pos: Tensor | None = None,
    key_pos: Tensor | None = None,
) -> tuple[Tensor, Tensor]:
    r"""The K = min(topk, T) keys with the largest scores, per query.

    `"exact"` scores every key: $O(QT)$ time, $O(T)$ memory per query. `"sqrt"` bounds the best score within each block
    of $\lceil\sqrt T\rceil$ neighbouring keys by the corners of the block's bounding box, $\max_{k \in box} q \cdot k$,
    and scores the keys of the `PROBES` most promising blocks: $O(Q\sqrt T)$.

    Args:
        q, k: queries, (B, H, Q, D), and keys, (B, H, T, D).
        topk: number of keys per query, at least 1.
        mask: (B, T), True = never select this key.
        causal: a query attends only to keys at or before its own position.
        method: `"exact"` or `"sqrt"`.
        query_pos, key_pos: positions for `causal`, (B, Q) or (Q,), and (B, T) or (T,). The index by default; then Q
            must equal T.

    Returns:
        index: (B, H, Q, K), in ascending order; keys that are not kept come last.
        keep: (B, H, Q, K), False where fewer than K keys are allowed.
    """
    n_queries, n_keys = q.shape[-2], k.shape[-2]
    if topk < 1:
        raise ValueError(f"`topk` must be at least 1. Got {topk} instead. Pass the number of keys per query.")
    if method not in ("exact", "sqrt"):
        raise ValueError(f"`method` must be 'exact' or 'sqrt'. Got {method!r} instead.")
    if (query_pos is None) != (key_pos is None):
        raise ValueError("`query_pos` and `key_pos` must be given together, or neither. Got only one of them instead.")
    if causal and query_pos is None:
        if n_queries != n_keys:
            raise ValueError(
                "`causal=True` needs as many queries as keys when positions are not given. "
                f"Got {n_queries} queries and {n_keys} keys instead. Pass `query_pos` and `key_pos`."
            )
        query_pos = key_pos = torch.arange(n_keys, device=k.device)
    positions = None
    if causal and query_pos is not None and key_pos is not None:
        positions = torch.atleast_2d(query_pos), torch.atleast_2d(key_pos)
    search = _exact if method == "exact" else _sqrt
    index, keep = search(q, k, min(topk, n_keys), mask, positions)
    # Sorted by key, dropped ones last, so that the noise of a key does not depend on how many others were scored.
    if mask is None and not causal:
        return index.sort().values, keep
    index, order = index.masked_fill(~keep, n_keys).sort(-1)
    return index.clamp(max=n_keys - 1), keep.gather(-1, order)


def _exact(q: Tensor, k: Tensor, topk: int, mask: Tensor | None, positions: Positions | None) -> tuple[Tensor, Tensor]:
    batch, heads, n_queries, _ = q.shape
    n_keys = k.shape[-2]
    folds = FOLDS if n_keys >= 4 * FOLDS * topk else 1
    width = -(-n_keys // folds) * folds
    if width > n_keys:
        k = pad(k, (0, 0, 0, width - n_keys))
    k = k.mT
    step = max(1, WORKSPACE // width)
    # One buffer for all chunks: allocating memory would take as long as the product that fills it.
    buffer = None if step >= n_queries else q.new_empty(batch * heads * step * width)
    found = []
    for start in range(0, n_queries, step):
        rows = slice(start, start + step)
        queries = q[..., rows, :]
        if buffer is None:
            scores = queries @ k
        else:
            out = buffer[: queries[..., 0].numel() * width].view(batch, heads, queries.shape[-2], width)
            scores = torch.matmul(queries, k, out=out)
        if width > n_keys:
            scores[..., n_keys:] = -math.inf
        if mask is not None:
            scores[..., :n_keys].masked_fill_(mask[:, None, None, :], -math.inf)
        if positions is not None:
            query_pos, key_pos = positions
            later = key_pos[:, None, :] > query_pos[:, rows, None]
            scores[..., :n_keys].masked_fill_(later.unsqueeze(1), -math.inf)
        found.append(_topk(scores, topk, folds))
    scores, index = _concatenate(found)
    return index, scores > -math.inf


def _topk(scores: Tensor, topk: int, folds: int) -> tuple[Tensor, Tensor]:
    """Like `torch.topk`. The K largest scores lie in the K columns with the largest maxima: these are searched."""
    if folds == 1:
        return scores.topk(topk, sorted=False)
    columns = scores.unflatten(-1, (folds, -1)).amax(-2)
    best = columns.topk(topk, sorted=False).indices
    candidates = (best[..., None] + columns.shape[-1] * torch.arange(folds, device=best.device)).flatten(-2)
    top, place = scores.gather(-1, candidates).topk(topk, sorted=False)
    return top, candidates.gather(-1, place)


class _Blocks(NamedTuple):
    keys: Tensor  # (B, H, n, size, D)
    ignore: Tensor  # (B, n, size): masked, or padding of the last block
    low: Tensor  # (B, H, n, D): lower corner of the bounding box of the keys that are not ignored
    high: Tensor  # (B, H, n, D): upper corner
    pos: Tensor | None  # (B, n, size)


def _sqrt(q: Tensor, k: Tensor, topk: int, mask: Tensor | None, positions: Positions | None) -> tuple[Tensor, Tensor]:
    batch, heads, n_keys, dim = k.shape
    size = math.isqrt(n_keys - 1) + 1
    # The last block may be shorter. Its keys are the most recent ones, so they must not be dropped.
    n_blocks = -(-n_keys // size)
    tail = n_blocks * size - n_keys
    ignore = k.new_zeros(batch, n_keys, dtype=torch.bool) if mask is None else mask
    query_pos = key_pos = order = None
    if positions is not None:  # blocks of neighbours in time, whatever the order of the keys
        query_pos, key_pos = positions[0].expand(batch, -1), positions[1].expand(batch, -1)
        order = key_pos.argsort(stable=True)
    if mask is not None:  # masked keys go to the end, so that they take no space in other blocks
        order = torch.arange(n_keys, device=k.device).expand(batch, -1) if order is None else order
        order = order.gather(-1, mask.gather(-1, order).int().argsort(stable=True))
    if order is not None:
        k = k.gather(-2, order[:, None, :, None].expand_as(k))
        ignore = ignore.gather(-1, order)
    if key_pos is not None and order is not None:
        key_pos = pad(key_pos.gather(-1, order), (0, tail)).view(batch, n_blocks, size)
    keys = pad(k, (0, 0, 0, tail)).view(batch, heads, n_blocks, size, dim)
    ignore = pad(ignore, (0, tail), value=True).view(batch, n_blocks, size)
    low = keys.masked_fill(ignore[:, None, ..., None], math.inf).amin(-2)
    high = keys.masked_fill(ignore[:, None, ..., None], -math.inf).amax(-2)
    empty = ignore.all(-1)[:, None, :, None]  # no box; `_probe` never opens it, but 0 * inf would be NaN
    blocks = _Blocks(keys, ignore, low.masked_fill(empty, 0), high.masked_fill(empty, 0), key_pos)

    probes = min(n_blocks, max(PROBES, -(-topk // size)))
    step = max(1, WORKSPACE // max(n_blocks, probes * size))
    found = []
    for start in range(0, q.shape[-2], step):
        rows = slice(start, start + step)
        found.append(_probe(q[..., rows, :], None if query_pos is None else query_pos[:, rows], blocks, probes, topk))
    index, keep = _concatenate(found)
    index = index.clamp(max=n_keys - 1)
    if order is not None:
        index = order[:, None, None, :].expand(*index.shape[:-1], -1).gather(-1, index)
    return index, keep


def _probe(q: Tensor, query_pos: Tensor | None, blocks: _Blocks, probes: int, topk: int) -> tuple[Tensor, Tensor]:
    batch, heads, n_blocks, size, dim = blocks.keys.shape
    bound = q.clamp(min=0) @ blocks.high.mT + q.clamp(max=0) @ blocks.low.mT  # max of q.k over the box
    bound = bound.masked_fill_(blocks.ignore.all(-1)[:, None, None, :], -math.inf)
    if query_pos is not None:
        assert blocks.pos is not None
        info = torch.finfo if blocks.pos.is_floating_point() else torch.iinfo
        highest = info(blocks.pos.dtype).max
        first = blocks.pos.masked_fill(blocks.ignore, highest).amin(-1)[:, None, :]
        last = blocks.pos.masked_fill(blocks.ignore, -highest).amax(-1)[:, None, :]
        future, ended = first > query_pos[..., None], last <= query_pos[..., None]
        # A block with past and future keys is always scored: its box depends on future keys and must not be used.
        bound = bound.masked_fill(~(future | ended).unsqueeze(1), math.inf)
        bound = bound.masked_fill(future.unsqueeze(1), -math.inf)
    probed = bound.topk(probes, sorted=False).indices  # b h q p
    row = torch.arange(batch * heads, device=q.device).view(batch, heads, 1, 1) * n_blocks + probed
    keys = blocks.keys.reshape(-1, size * dim)[row].unflatten(-1, (size, dim))
    scores = (keys.flatten(-3, -2) @ q[..., None]).squeeze(-1)  # b h q (p s)
    example = torch.arange(batch, device=q.device).view(-1, 1, 1, 1)
    scores = scores.masked_fill_(blocks.ignore[example, probed].flatten(-2), -math.inf)
    if query_pos is not None:
        assert blocks.pos is not None
        later = blocks.pos[example, probed].flatten(-2) > query_pos[:, None, :, None]
        scores = scores.masked_fill_(later, -math.inf)
    scores, place = scores.topk(topk, sorted=False)
    return probed.gather(-1, place // size) * size + place % size, scores > -math.inf


def _concatenate(chunks: list[tuple[Tensor, Tensor]]) -> tuple[Tensor, Tensor]:
    if len(chunks) == 1:
        return chunks[0]
    return torch.cat([first for first, _ in chunks], -2), torch.cat([second for _, second in chunks], -2)


def masked_softmax(logits: Tensor, keep: Tensor | None = None, dim: int = -1) -> Tensor:
    """Softmax among the kept entries; exactly 0 elsewhere, and all 0 where nothing is kept."""
    if keep is None:
        return logits.softmax(dim)
    # The lowest finite number instead of -inf: a row with nothing kept has finite outputs and gradients.
    return logits.masked_fill(~keep, torch.finfo(logits.dtype).min).softmax(dim) * keep


def weigh(weights: Tensor, values: Tensor) -> Tensor:
    """Sum over keys of weight times value: (n, k, ...), (d, k, ...) -> (n, d, ...)."""
    # A loop over the few keys: one product for all would write and read k times the memory of the result.
    weight_of_key, value_of_key = weights.unsqueeze(1).unbind(2), values.unbind(1)
    total = weight_of_key[0] * value_of_key[0]
    for weight, value in zip(weight_of_key[1:], value_of_key[1:], strict=True):
        total.addcmul_(weight, value)  # in place: the gradient needs weight and value, not the sum
    return total
