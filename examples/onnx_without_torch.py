"""Classify an image with an exported model; needs numpy, Pillow and onnxruntime, not torch.

python examples/onnx_without_torch.py model.onnx photo.jpg
"""

import json
import sys

import numpy as np
import onnxruntime
from PIL import Image, ImageOps

model, photo = sys.argv[1:]
session = onnxruntime.InferenceSession(model, providers=["CPUExecutionProvider"])
facts = {name: json.loads(value) for name, value in session.get_modelmeta().custom_metadata_map.items()}
picture = ImageOps.exif_transpose(Image.open(photo)).convert("RGB")
preparation = facts["preparation"]
if preparation["resize"]:  # height, width: the model was trained on images brought to one size
    picture = picture.resize(preparation["resize"][::-1], Image.Resampling.BILINEAR)
if preparation["crop"]:  # height, width: of that it saw the center
    height, width = preparation["crop"]
    left, top = round((picture.width - width) / 2), round((picture.height - height) / 2)
    picture = picture.crop((left, top, left + width, top + height))
pixels = np.asarray(picture, dtype=np.float32) / 255
answer = session.run(None, {"image": pixels.transpose(2, 0, 1)[None]})
output = {place.name: np.asarray(value)[0] for place, value in zip(session.get_outputs(), answer, strict=True)}
print(facts["classes"][output["logits"].argmax()])
for box, score in zip(output.get("boxes", []), output.get("scores", []), strict=False):
    print(*box, f"{score:.3f}")
