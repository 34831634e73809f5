"""Fine-grained classification by parts among anchors: NTS-Net, and the paper's top-K in its place."""

from saccade.baselines.nts.nts_net import NTSNet
from saccade.baselines.nts.nts_topk import NTSTopK

__all__ = ["NTSNet", "NTSTopK"]
