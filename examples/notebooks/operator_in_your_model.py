# %% [markdown]
# # The operator in a model of your own
#
# Nothing of Saccade but one function: your model has scores, `perturbed_topk` chooses K things by them, and the
# gradient of what happens to those reaches the scores. Here the things are 200 moments of a signal. Three of them
# carry the label; they are marked, but nobody tells the model by what.

# %%
import torch
from matplotlib.figure import Figure
from torch import nn

from saccade import hard_topk, linear_decay, normalize_scores, perturbed_topk

MOMENTS, WIDTH, K = 200, 12, 3


def make_signals(count: int, seed: int):
    """Noise; in three moments the first number is high, and there the second one has the sign of the label."""
    generator = torch.Generator().manual_seed(seed)
    signals = torch.randn(count, MOMENTS, WIDTH, generator=generator)
    labels = torch.randint(2, (count,), generator=generator)
    marked = torch.rand(count, MOMENTS, generator=generator).topk(K).indices
    row = torch.arange(count)[:, None]
    signals[row, marked, 0] = 4.0
    signals[row, marked, 1] = 1.5 * (2.0 * labels[:, None] - 1)
    return signals, labels, marked


# %% [markdown]
# The model scores every moment, takes K of them, and answers by those alone. While it learns, a slot is a blend of a
# few moments (`weight`: B K S, over the S candidates in `index`); later it is one of them.


# %%
class ByThreeMoments(nn.Module):
    def __init__(self):
        super().__init__()
        self.scorer = nn.Sequential(nn.Linear(WIDTH, 16), nn.ReLU(), nn.Linear(16, 1))
        self.answer = nn.Sequential(nn.Linear(WIDTH, 16), nn.ReLU(), nn.Linear(16, 2))

    def forward(self, signals, sigma: float = 0.0):
        scores = normalize_scores(self.scorer(signals).squeeze(-1))  # B N, in [0, 1]
        chosen = perturbed_topk(scores, K, sigma=sigma, num_samples=50) if sigma else hard_topk(scores, K)
        moments = torch.stack([signal[index] for signal, index in zip(signals, chosen.index, strict=True)])  # B S W
        slots = chosen.weight @ moments  # B K W
        return self.answer(slots).mean(dim=1), chosen


# %%
torch.manual_seed(0)
model, steps, losses = ByThreeMoments(), 150, []
optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
for step in range(steps):
    signals, labels, _ = make_signals(32, seed=step)
    logits, _ = model(signals, sigma=linear_decay(0.1, step=step, total_steps=steps))
    loss = nn.functional.cross_entropy(logits, labels)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    losses.append(loss.item())

# %%
figure = Figure(figsize=(6, 2.4), layout="constrained")
axes = figure.subplots()
axes.plot(losses)
axes.set(xlabel="step", ylabel="loss", ylim=0)
figure

# %% [markdown]
# On signals it has not seen, choosing hard. A single marked moment says it all, so nothing asks for the other two; by
# chance 1.5% of them would be chosen.

# %%
signals, labels, marked = make_signals(500, seed=10_000)
with torch.no_grad():
    logits, chosen = model(signals)
right = (logits.argmax(dim=1) == labels).float().mean().item()
found = (chosen.index[:, :, None] == marked[:, None]).any(dim=1).float().mean().item()
print(f"{right:.1%} answered right, {found:.1%} of the marked moments chosen")
assert right > 0.9
assert found > 0.3

# %% [markdown]
# [The operator](../operator.md) has its options and what its gradient is; [which selector?](../selectors.md) compares
# it with the others.
