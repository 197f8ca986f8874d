"""Read-out of stochastic attention: linear in the draws, nonlinear in the quantities that all draws share."""

from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.nn.functional import gelu, linear

from nsac.layers.attention import Project
from nsac.layers.init import seeded_linear, seeded_mlp
from nsac.layers.novelty import Epistemic
from nsac.layers.tails import tail_width

LOG_STD_RANGE = (-10.0, 3.0)  # of the logarithm of a standard deviation: a linear read-out is unbounded far from data
MIN_DRAW_STD = 1e-6  # standard deviation over draws of the mean below which draws count as equal

Attend = Callable[[Tensor | None, Project | None], Tensor]


class LinearReader(nn.Module):
    r"""Mean and log standard deviation of each draw, linear in the attended values.

    $o_n = W\,(g \odot a_n) + V h$, with the attended values $a_n$ of draw n, hidden layers $h(q, \bar a)$ on the query
    and on its attended values without noise, and a gate $g = 1 + G h$. The nonlinear part is the same for all draws
    and is computed once; the rest is linear in $a_n$, so W can be applied to the values before they are weighed. A
    draw then costs a softmax and a few sums.

    Args:
        query_dim, d_model, num_heads: features of a query, attended values over all heads, and heads.
        hidden, output_dim: neurons of the hidden layers, and numbers to predict per query.
        skip_dim: features with a direct linear path to the mean; 0 for none.
        project_values: whether W is applied before values are weighed; cheaper if 2 * output_dim is below
            d_model / num_heads, and the same function in any case.
        join_queries: whether the outputs of all queries make one row: output i of query q is column i * Q + q.
        skip_weight: initial weight of the direct path; None: random.
        tails: whether every output also has the width of its tail, see `layers.tails`.
    """

    def __init__(
        self,
        query_dim: int,
        d_model: int,
        num_heads: int,
        hidden: int,
        output_dim: int,
        skip_dim: int = 0,
        project_values: bool = True,
        join_queries: bool = False,
        seed: int = 0,
        skip_weight: float | None = None,
        tails: bool = False,
    ):
        super().__init__()
        self.num_heads, self.project_values, self.join_queries = num_heads, project_values, join_queries
        self.hidden = seeded_mlp(query_dim + d_model, hidden, hidden, seed)
        self.gate = seeded_linear(hidden, d_model, seed + 1)
        self.per_output = 3 if tails else 2
        self.attended = seeded_linear(d_model, self.per_output * output_dim, seed + 2)
        self.direct = seeded_linear(hidden, self.per_output * output_dim, seed + 3)
        self.skip = seeded_linear(skip_dim, output_dim, seed + 4) if skip_dim else None
        if self.skip is not None and skip_weight is not None:
            nn.init.constant_(self.skip.weight, skip_weight)
        with torch.no_grad():  # standard deviations start near 1, that of a standardised target
            for layer in (self.attended, self.direct):
                layer.weight[output_dim:] *= 0.1

    def forward(
        self,
        attend: Attend,
        query: Tensor,
        noise: Tensor | None,
        skip: Tensor | None = None,
        epistemic: Callable[[], Epistemic] | None = None,
    ) -> tuple[Tensor, ...]:
        """Draws of mean and log standard deviation, (N, B, Q, output_dim), or (N, B, Q * output_dim) if joined.

        With `tails`, the width of the tail of each is the third result.

        Args:
            attend: attended values under some noise and projection; `Attention.attend` of selected keys.
            query, skip: (B, Q, query_dim) and (B, Q, skip_dim).
            noise: noise of the logits, (N, topk, B or 1, H, Q); None in the noise-free pass, which has no `epistemic`.
            epistemic: if given, the variance over draws of the mean, averaged over outputs, is scaled to its
                `variance`, and standard deviations are at least its minimum.
        """
        read = self._project_values if self.project_values else self._read_attended
        mean, log_std, *tail = read(attend, query, noise).chunk(self.per_output, -1)
        if self.join_queries:
            mean, log_std = join_queries(mean).unsqueeze(-2), join_queries(log_std).unsqueeze(-2)
        low, high = LOG_STD_RANGE
        if epistemic is None or noise is None:
            log_std = log_std.clamp(low, high)
        else:
            variance, min_log_std = epistemic()
            mean = scale_draws(mean, variance.unsqueeze(-1), noise[:, 0, :, 0, : mean.shape[-2]].unsqueeze(-1))
            log_std = torch.maximum(log_std, min_log_std.clamp(min=low)).clamp(max=high)
        if self.join_queries:
            mean, log_std = mean.squeeze(-2), log_std.squeeze(-2)
        if self.skip is not None and skip is not None:
            direct = self.skip(skip)
            mean = mean + (join_queries(direct) if self.join_queries else direct)
        return mean, log_std, *(tail_width(join_queries(raw) if self.join_queries else raw) for raw in tail)

    def _project_values(self, attend: Attend, query: Tensor, noise: Tensor | None) -> Tensor:
        weight = self.attended.weight.unflatten(-1, (self.num_heads, -1))  # c h d
        narrow = weight.shape[0] <= weight.shape[2]
        hidden = []

        def project(values: Tensor, expected: Tensor, rows: slice) -> Tensor:
            known = torch.cat([query[:, rows], expected.permute(1, 3, 2, 0).flatten(-2)], -1)  # b q (e + h d)
            hidden.append(gelu(self.hidden(known)))
            gate = 1 + self.gate(hidden[-1]).unflatten(-1, (self.num_heads, -1)).permute(3, 0, 2, 1).unsqueeze(1)
            gated = values * gate  # d k b h q
            if not narrow:
                return gated
            flat = gated.permute(3, 0, 1, 2, 4)  # h d k b q
            product = torch.bmm(weight.transpose(0, 1), flat.flatten(2))
            return product.unflatten(2, flat.shape[2:]).permute(1, 2, 3, 0, 4)  # c k b h q

        out = attend(noise, project)
        if narrow:  # the sum over heads remains; a matrix product is the fastest way to compute it
            eye = torch.eye(len(weight), dtype=out.dtype, device=out.device)
            out = linear(out, eye.repeat(1, self.num_heads), self.attended.bias)
        else:
            out = self.attended(out)
        return out + self.direct(hidden[0] if len(hidden) == 1 else torch.cat(hidden, 1))

    def _read_attended(self, attend: Attend, query: Tensor, noise: Tensor | None) -> Tensor:
        """Gate and W are applied to the attended values; the noise-free pass is one more draw."""
        attended = attend(None if noise is None else torch.cat([noise, torch.zeros_like(noise[:1])]), None)
        hidden = gelu(self.hidden(torch.cat([query, attended[-1]], -1)))
        draws = attended if noise is None else attended[:-1]
        return self.attended((1 + self.gate(hidden)) * draws) + self.direct(hidden)


def join_queries(outputs: Tensor) -> Tensor:  # n b q o -> n b (o q)
    """Outputs of all queries as one row."""
    return outputs.mT.flatten(-2)


def scale_draws(mean: Tensor, variance: Tensor, noise: Tensor) -> Tensor:  # n b q o, b q 1, n b q 1 -> n b q o
    """Scale draws about their mean so that their variance is `variance`, on average over outputs.

    To first order the difference of a draw to the mean is proportional to psi, so this scales psi, query by query. The
    result is exact beyond first order too, and the mean does not change. Where draws are equal, because a query has
    at most one key, the noise itself is used.
    """
    centre = mean.mean(0)
    difference = torch.add(mean - centre, noise, alpha=MIN_DRAW_STD)
    draw_variance = difference.square().mean((0, -1)).unsqueeze(-1)
    return torch.addcmul(centre, difference, (variance / draw_variance.clamp(min=MIN_DRAW_STD**4)).sqrt())
