"""scores → Selection by greedy non-maximum suppression, as NTS-Net chooses its proposals.

The best anchor is taken, all that overlap it by more than a given IoU are dropped, and so on. This has no gradient:
NTS-Net teaches its scores by ranking instead.
"""

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from saccade.selection import Candidates, Selector
from saccade.selection.normalize import inside_of
from saccade.selection.refusals import check_k, check_scores
from saccade.selection.selection import Selection, identity_selection
from saccade.selection.suppression import best_apart


def nms_topk(
    scores: Float[Tensor, "B N"],
    boxes: Int[Tensor, "N 4"],
    k: int,
    *,
    iou: float = 0.25,
    inside: Bool[Tensor, "B N"] | None = None,
) -> Int[Tensor, "B K"]:
    """The K best candidates of which no two overlap by more than `iou`, best first.

    Where fewer than K are left, the best of those that were dropped fill up, and at last what is not `inside`.

    >>> boxes = torch.tensor([[0, 0, 10, 10], [1, 0, 11, 10], [20, 0, 30, 10]])
    >>> nms_topk(torch.tensor([[0.8, 0.9, 0.1]]), boxes, 2)
    tensor([[1, 2]])
    """
    check_scores(scores)
    check_k(k, scores.shape[1])
    return best_apart(scores, k, boxes, max_overlap=iou, inside=inside)


class NonMaximumTopK(nn.Module, Selector):
    """`nms_topk`: `proposals` of them in training, to be ranked; the best `k` are looked at, and in evaluation are all.

    Slots come best first, not in index order: the part that a slot of NTS-Net's classifier sees is the k-th best.
    """

    k: int

    def __init__(self, k: int = 4, *, proposals: int = 6, iou: float = 0.25):
        super().__init__()
        if not 1 <= k <= proposals:
            raise ValueError(f"k is {k} and proposals {proposals}, expected 1 ≤ k ≤ proposals: k of them are looked at")
        if not 0 <= iou <= 1:
            raise ValueError(f"iou is {iou}, expected a share from 0 (no overlap at all) to 1")
        self.k, self.proposals, self.iou = k, proposals, iou

    def forward(self, scores: Float[Tensor, "B N"], grid: Candidates) -> Selection:
        """Select the best that do not overlap."""
        boxes = grid.boxes(torch.arange(scores.shape[1], device=scores.device))
        count = self.proposals if self.training else self.k
        picks = nms_topk(scores, boxes, count, iou=self.iou, inside=inside_of(grid))
        return identity_selection(picks, scores.dtype)
