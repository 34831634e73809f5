# %% [markdown]
# # Your own images, from a folder to a page
#
# A folder with a folder of images per class is all there has to be. This one is painted: a stripe of a few pixels,
# across or along, somewhere on a dark surface.

# %%
import json
import subprocess
import sys
import urllib.request
from pathlib import Path

import numpy as np
from PIL import Image

from saccade.cli import main as saccade  # what `saccade …` calls on the command line

rng = np.random.default_rng(0)
stripes = np.repeat(np.arange(12) % 2 * 255, 12).reshape(12, 12).astype(np.uint8)
for number in range(60):
    surface = rng.integers(0, 40, (96, 128, 3), dtype=np.uint8)
    x, y = int(rng.integers(116)), int(rng.integers(84))
    kind = ("across", "along")[number % 2]
    surface[y : y + 12, x : x + 12] = (stripes, stripes.T)[number % 2][..., None]
    Path("surfaces", kind).mkdir(parents=True, exist_ok=True)
    Image.fromarray(surface).save(f"surfaces/{kind}/{number:02d}.png")
Image.open("surfaces/along/01.png")

# %% [markdown]
# `saccade data check surfaces` says what is in the folder, and what is wrong with it.

# %%
saccade(["data", "check", "surfaces"])

# %% [markdown]
# `saccade train surfaces` chooses everything by itself and takes as long as `--minutes` says. For this page we say
# how small a model and how few steps.

# %%
small = ["--patch", "24", "--k", "2", "--view_scale", "0.5", "--model.features", '{"name": "ats", "width": 16}']
training = ["--training.name", "guided_by_scores", "--training.label_free.steps", "30", "--data.workers", "0"]
short = ["--steps", "40", "--batch", "8", "--validate_every", "20"]
saccade(["train", "surfaces", "--out", "runs/surfaces", *small, *training, *short])

# %% [markdown]
# `runs/surfaces/report.html` shows all of it. In Python, a `Predictor` answers for a file, and says where it looked:

# %%
from saccade import Predictor
from saccade.drawing import Caption, overlay

predictor = Predictor("runs/surfaces")
prediction = predictor("surfaces/along/01.png", crops=True, picture=True)
overlay(prediction.look, Caption(prediction.label, prediction.confidence, "along"), width_in=6)

# %% [markdown]
# Last, a page to drop images on, `saccade serve runs/surfaces`. It is a JSON API, too:

# %%
command = [sys.executable, "-m", "saccade.cli", "serve", "runs/surfaces", "--port", "0"]
with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
    assert server.stdout is not None
    try:
        address = server.stdout.readline().split()[4]  # drop an image on http://127.0.0.1:…
        part = b'--end\r\nContent-Disposition: form-data; name="file"; filename="01.png"\r\n\r\n'
        form = part + Path("surfaces/along/01.png").read_bytes() + b"\r\n--end--\r\n"
        kind = {"Content-Type": "multipart/form-data; boundary=end"}
        request = urllib.request.Request(f"{address}/api/predict", form, kind)
        with urllib.request.urlopen(request, timeout=60) as response:
            answer = json.load(response)
    finally:
        server.terminate()
print(answer["label"], answer["boxes"][0])
assert answer["label"] == prediction.label

# %% [markdown]
# [Your own data](../data.md), [training](../training.md), [predicting](../predict.md) and [the page](../serve.md)
# tell the rest.
