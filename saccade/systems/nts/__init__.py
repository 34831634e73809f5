"""Fine-grained classification by parts among anchors: NTS-Net, and the paper's top-K in its place."""

from saccade.systems.nts.nts_net import NTSNet
from saccade.systems.nts.nts_topk import NTSTopK

__all__ = ["NTSNet", "NTSTopK"]
