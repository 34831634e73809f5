"""One's own images → a recipe: every value that depends on them, each with its reason.

A handful of sizes, the number of images per class and what the user has already set are all that is looked at; boxes
are for measuring and never for choosing. What the user set is kept, and the rest is chosen to fit it.
"""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from saccade.data.records import Records
from saccade.data.typical_size import look_at
from saccade.images.decode import MAX_PIXELS
from saccade.places import is_hub_name
from saccade.training.defaults.choices import Choice, Known, Size, show
from saccade.training.defaults.patch_grid import WITH_WEIGHTS, choose_k, choose_patch, choose_sizes, choose_view
from saccade.training.defaults.probe import weights_within_reach

BACKBONE = "tf_efficientnet_lite0"
FINE_TUNING_LR = 3e-4
AFTER_FROZEN_LR = 1e-4  # three times that lost more of what the heads knew than it gained (elpv, docs/experiments.md)
BATCH = 16
BATCH_IMAGE_PX = 64_000_000  # as bytes and as floats: 1 GB
BATCH_PATCH_PX = 4_000_000  # with a ResNet-18's activations: about 2 GB
BATCH_TUNED_PX = 2_000_000  # of views and patches, with those of tf_efficientnet_lite0: about 3 GB, reckoned
PASSES = 60
FEWEST_STEPS, MOST_STEPS = 500, 20_000
IMBALANCE = 3
EVENLY = 0.5  # of the steps: rare classes must be learnt, and then how rare they are
LR, WEIGHT_DECAY = 3e-3, 1e-2
FOCUS = 2.0
FEWEST_JUDGES = 100  # validation images; with fewer, a third of the training images judges in a trial
FEWEST_TRIED = 90  # training images; with fewer, nobody can tell what tuning gains
NOISY = ("perturbed", "diverse")
SELECTION = {"sigma": 0.02, "num_samples": 100, "gradient_per_sigma": True}
TRANSFORMER = {
    "name": "transformer",
    **{"dim": 96, "hidden": 192, "layers": 1, "dropout": 0.0, "pre_norm": True, "encoding": "sines"},
}


def propose(
    records: Records,
    *,
    seen: Sequence[Size],
    given: Mapping[str, Any],
    within_reach: Callable[[str], bool] = weights_within_reach,
) -> list[Choice]:
    """A value for each key of the recipe that depends on the images and that the user has not `given`.

    seen:         heights and widths, see `sample_sizes`
    given:        what the user set, by dotted key; what does not fit the images is an error with the fix
    within_reach: whether the published weights of a timm model can be had
    """
    values = flatten(given)
    resize = values.get("model.preparation.resize")
    images = look_at([(resize[0], resize[1])] if resize else seen)
    known = Known(records, images, values, within_reach)
    choices = []
    for choose in CHOOSERS:
        for choice in choose(known):
            if choice.key not in values:
                values[choice.key] = choice.value
                choices.append(choice)
    return choices


def flatten(tree: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """A tree by dotted keys.

    >>> flatten({"model": {"selection": {"k": 5}}, "steps": 10})
    {'model.selection.k': 5, 'steps': 10}
    """
    flat: dict[str, Any] = {}
    for key, value in tree.items():
        nested = isinstance(value, Mapping) and len(value) > 0
        flat |= flatten(value, f"{prefix}{key}.") if nested else {f"{prefix}{key}": value}
    return flat


def choose_stream(known: Known) -> Iterator[Choice]:
    """Images that cannot be decoded whole are read in parts."""
    largest = max(known.images.ordinary, key=math.prod)  # one that is a mistake is refused when it is read
    if known.selects and math.prod(largest) > (known.values.get("model.preparation.max_pixels") or MAX_PIXELS):
        reason = f"images of up to {show(largest)} px are too large to decode: only parts of them are read"
        yield Choice("model.preparation.stream", True, reason)


def choose_features(known: Known) -> Iterator[Choice]:
    """The feature network, with weights that are already good for something wherever there are any."""
    given = known.options("features")
    settled = "name" in given and ("weights" in given or "pretrained" in given or given["name"] != "backbone")
    if settled:
        return
    name = given.get("name") or ("cells" if known.selects else "backbone")
    network = {"name": name, "model": given.get("model") or _model_of(given.get("weights")), **given}
    if "weights" in given:
        yield Choice("model.features", network, f"the network of {Path(given['weights']).name}")
    elif "pretrained" in given:
        yield Choice("model.features", network, "as asked")
    elif known.within_reach(network["model"]):
        yield Choice("model.features", {**network, "pretrained": True}, "ImageNet weights can be fetched from the hub")
    else:
        reason = "no ImageNet weights within reach, so it starts from nothing; pass --weights FILE if you have some"
        yield Choice("model.features", {**network, "name": "backbone"} if given else {"name": "thin"}, reason)


def _model_of(weights: str | None) -> str:
    """The timm model that weights are named after, as resnet18.a1_in1k.safetensors is, or timm/resnet18.a1_in1k."""
    if weights is None:
        return BACKBONE
    import timm

    on_hub = is_hub_name(weights)
    model = Path(weights.partition("@")[0] if on_hub else weights).name.split(".")[0]
    if not timm.is_model(model):
        missing = "" if on_hub or Path(weights).is_file() else " (and give a file: there is none of this name)"
        raise ValueError(
            f"{weights}: which network are these weights for? {model!r} is none of timm's; name it with --backbone, "
            f"which is short for --model.features.model{missing}"
        )
    return model


def choose_balance(known: Known) -> Iterator[Choice]:
    """Classes of very different size must count the same, in training and in the choice of the best model."""
    if known.records.task != "single":
        return
    counts = [count for count in known.records.counts()["train"].values() if count]
    if max(counts) <= IMBALANCE * min(counts):
        return
    reason = f"the largest class has {max(counts):,} training images, the smallest {min(counts):,}"
    if "class_weights" not in known.values:
        yield Choice("training.evenly", EVENLY, f"{reason}: at first batches hold as many of each", "dealt evenly")
    yield Choice("best_by", "balanced_accuracy", f"{reason}: plain accuracy would reward naming the largest")


def choose_length(known: Known) -> Iterator[Choice]:
    """Images per step, and how many steps."""
    count, processes = known.training_images, known.values.get("devices", 1) * known.values.get("nodes", 1)
    patch_px, most_px = known.k * math.prod(known.patch) if known.selects else 1, BATCH_PATCH_PX
    if known.values.get("training.frozen"):
        patch_px, most_px = patch_px + WITH_WEIGHTS.view_px, BATCH_TUNED_PX
    limits = {
        "the usual number": BATCH,
        f"there are {count:,} training images": max(count // 4, 1),
        f"the memory for images of up to {show(known.images.largest)} px": _fitting(known) * processes,
        f"the memory for {known.k} patches of each image": max(most_px // patch_px, 1) * processes,
    }
    reason = min(limits, key=lambda why: limits[why])
    batch = 2 ** int(math.log2(max(limits[reason], 1)))
    yield Choice("batch", max(batch // processes, 1) * processes, reason)
    batch = known.values["batch"]
    steps = 100 * max(1, round(PASSES * count / batch / 100))
    bounded = min(max(steps, FEWEST_STEPS), MOST_STEPS)
    passes = bounded * batch / count
    yield Choice("steps", bounded, f"{passes:.3g} passes over {count:,} training images")


def _fitting(known: Known) -> int:
    """How many images can be in a batch. Those that are read in parts take little, and must be of one size."""
    if known.values.get("model.preparation.stream"):
        return BATCH if len({*known.images.ordinary, *known.images.odd}) == 1 else 1
    return BATCH_IMAGE_PX // math.prod(known.images.largest)


def choose_augmentation(known: Known) -> Iterator[Choice]:
    """What is safe for any picture: neither mirrored nor turned, since letters and signs must not be."""
    if "data.augmentation.name" in known.values or known.values.get("model.preparation.stream"):
        return
    if known.values.get("steps") == 0:
        return
    shift_px = known.images.shortest // 20
    value = {"name": "color"} if known.selects else {"name": "shift,color", "max_px": shift_px}
    reason = (
        "in other light, but not moved: the black border of a moved picture is the strongest detail in it"
        if known.selects
        else f"moved by up to {shift_px} px and in other light, as in the paper"
    )
    reason += "; if a mirrored picture means the same, --augment color,flip, and if a turned one does, rotate90 too"
    yield Choice("data.augmentation", value, reason)


def choose_start(known: Known) -> Iterator[Choice]:
    """How training gets going."""
    features = known.values.get("model.features") or known.options("features")
    if known.reads:
        yield Choice("optimizer.lr", AFTER_FROZEN_LR, "lower still, since the heads answer already")
    elif features.get("pretrained") or features.get("weights"):
        yield Choice("optimizer.lr", FINE_TUNING_LR, "lower than usual, since the weights are already good")
    else:
        yield Choice("optimizer.lr", LR, "what small networks without weights learnt fastest with")
    yield Choice("optimizer.weight_decay", WEIGHT_DECAY, "few images are soon known by heart")
    yield Choice("optimizer.clip_norm", 1.0, "one bad batch cannot undo much")
    if known.reads:
        yield from _choose_frozen(known)
    elif known.selects and known.options("selection").get("name", "perturbed") in (*NOISY, "random"):
        yield from _choose_guided(known)


def _choose_frozen(known: Known) -> Iterator[Choice]:
    judges, reason = known.records.sizes()["val"], "heads are fitted to the network as it is"
    if judges >= FEWEST_JUDGES:
        said, reason = "frozen start, tuned", f"{reason}; it learns itself only where validation gains by it"
    elif known.training_images >= FEWEST_TRIED:
        said = "frozen start, tuned on trial"
        reason += f"; it learns itself if a third of the training images say so, since {judges} for validation are few"
        yield Choice("training.trial", True, reason)
    else:
        said, reason = "frozen start", f"{reason}; so few images cannot tell what tuning gains"
        yield Choice("steps", 0, reason)
    yield Choice("training.name", "tuned", reason, said)
    yield Choice("training.frozen", True, reason)
    yield Choice("model.scorer", {"name": "backbone", "glance": True}, "the same network looks at the view")
    yield Choice("model.selection.name", "diverse", "patches overlap by a quarter at most")
    yield from _choose_noise(known)
    yield Choice("model.aggregation", {"name": "max"}, "the strongest evidence of any patch counts")
    yield Choice("model.prediction", {"name": "linear"}, "what view and patches say is added up")
    yield Choice("best_by", "loss", "a few validation images are soon all answered right")


def _choose_guided(known: Known) -> Iterator[Choice]:
    reason = "the scorer first learns, without labels, where detail is lost; patches lie there until the network reads"
    yield Choice("training.name", "guided_by_scores", reason)
    yield Choice("model.selection.name", "diverse", "patches overlap by a quarter at most")
    if known.values.get("model.preparation.stream"):
        yield Choice("training.label_free.focus", FOCUS, "few of the many candidates of such an image show anything")
    elif len(known.sizes) > 1:
        yield Choice("training.label_free.focus", FOCUS, "which size fits shows where most detail is missing")
    yield from _choose_noise(known)
    if not known.options("aggregation"):
        yield Choice("model.aggregation", TRANSFORMER, "patches answer one by one, and all of them together")


def _choose_noise(known: Known) -> Iterator[Choice]:
    if known.options("selection").get("name", "perturbed") in NOISY:
        for key, value in SELECTION.items():
            yield Choice(f"model.selection.{key}", value, "less noise than in the paper: the scorer is no longer new")


# In this order: later ones may depend on what earlier ones chose.
CHOOSERS: tuple[Callable[[Known], Iterator[Choice]], ...] = (
    choose_features,
    choose_sizes,
    choose_stream,
    choose_patch,
    choose_k,
    choose_view,
    choose_start,
    choose_balance,
    choose_length,
    choose_augmentation,
)
