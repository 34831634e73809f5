# %% [markdown]
# # Writing a selector
#
# A selector is a module from scores, B N, to a `Selection`: which candidates matter, and how much of each is in slot
# k. Registered under a name it is a part like any other, for recipes, configs and the command line. This one draws K
# candidates in proportion to the softmax of their scores, and learns by the score-function trick: a candidate's slot
# is weighed by one, with a gradient to the logarithm of its probability.

# %%
import torch
from matplotlib.figure import Figure
from torch import nn

import saccade


@saccade.register("selection", "drawn")
class Drawn(nn.Module, saccade.Selector):
    """K candidates drawn without putting back; the K best in evaluation."""

    def __init__(self, k: int, *, temperature: float = 0.1):
        super().__init__()
        self.k, self.temperature = k, temperature

    def forward(self, scores, grid=None):
        if not self.training:
            return saccade.hard_topk(scores, self.k)
        share = (scores / self.temperature).softmax(dim=1)
        index = torch.multinomial(share.detach(), self.k).sort(dim=1).values  # B K, ascending
        log_share = share.log().gather(1, index)
        weight = torch.diag_embed(1 + log_share - log_share.detach())  # one, with a gradient
        return saccade.Selection(index, weight)


# %% [markdown]
# It takes its place in a model by its name; its options are the keyword arguments of the constructor, and are
# checked.

# %%
config = saccade.ModelConfig(
    num_classes=2,
    image_size=(96, 128),
    selection={"name": "drawn", "k": 3, "temperature": 0.2},
    extraction={"patch": 24},
    features={"name": "thin"},
)
model = saccade.build_model(config)
output = model(torch.rand(2, 3, 96, 128))
output.logits.sum().backward()
print("boxes", tuple(output.boxes.shape), "| scorer learns:", model.scorer.layers[0].weight.grad.abs().sum().item() > 0)

try:
    saccade.build_model(saccade.ModelConfig(**{**vars(config), "selection": {"name": "drawn", "temprature": 1}}))
except ValueError as error:
    print(error)

# %% [markdown]
# Does it learn to choose? Of 50 candidates five are worth something. We ask for a high worth of what is chosen, and
# compare with the perturbed top-K on the same scores.

# %%
worth = torch.zeros(50)
worth[::10] = 1.0


def learn(selector, steps=150):
    torch.manual_seed(0)
    scores = torch.zeros(1, 50, requires_grad=True)
    optimizer, gained = torch.optim.Adam([scores], lr=0.05), []
    for _ in range(steps):
        selection = selector(scores)
        won = (selection.weight * worth[selection.index][:, None]).sum()
        optimizer.zero_grad()
        (-won).backward()
        optimizer.step()
        gained.append(won.item())
    return gained


curves = {
    "drawn": learn(Drawn(3).train()),
    "perturbed": learn(saccade.PerturbedTopK(3, sigma=0.5, num_samples=20).train()),
}
figure = Figure(figsize=(6, 2.6), layout="constrained")
axes = figure.subplots()
for name, gained in curves.items():
    axes.plot(gained, label=name)
axes.set(xlabel="step", ylabel="worth of the 3 chosen", ylim=(0, 3.1))
axes.legend()
figure

# %%
print({name: round(sum(gained[-20:]) / 20, 2) for name, gained in curves.items()})
assert all(sum(gained[-20:]) / 20 > 2 for gained in curves.values())

# %% [markdown]
# [Write your own selector](../write_your_own_selector.md) goes on with a recipe and the command line, and names the
# other stages.
