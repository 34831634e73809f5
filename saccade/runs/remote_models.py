"""Models behind URLs: a run folder, one of folds, or what `save_pretrained` wrote; what a model needs is fetched.

hf://OWNER/MODEL is a model on the hub, as `from_pretrained("OWNER/MODEL")` has it.

Files are asked for by name, since a web server need not list them; what a run keeps beside its models is not fetched.
"""

from pathlib import Path

from saccade.places import RemoteFile, UnreachableError, fetch_from_hub, fetch_tree, hub_name_of, url_within
from saccade.plain_trees import check_types, read_json

MODEL = ("config.json", "model.safetensors")
RUN = ("recipe.yaml", *(f"best/{name}" for name in MODEL))
FOLDS = ("folds.json", *(f"fold-*/{name}" for name in RUN))


def fetch_model(url: str) -> Path:
    """The models of the folder at `url`, as a folder here."""
    if name := hub_name_of(url):
        return fetch_from_hub(name, [*MODEL, *RUN, *FOLDS])
    if _is_there(url, "folds.json"):
        folder = fetch_tree(url, ["folds.json"])
        facts = read_json(folder / "folds.json", "copy it anew")
        check_types(folder / "folds.json", facts, {"folds": list[str]}, "copy it anew")
        return fetch_tree(url, [f"fold-{name}/{file}" for name in facts.get("folds", []) for file in RUN])
    if _is_there(url, "recipe.yaml"):
        return fetch_tree(url, RUN)
    if _is_there(url, "config.json"):
        return fetch_tree(url, MODEL)
    raise FileNotFoundError(
        f"{url}: no model there; give the URL of a run folder, made by saccade train, or of one written by "
        "save_pretrained"
    )


def _is_there(url: str, name: str) -> bool:
    file = RemoteFile(url_within(url, name))
    try:
        return bool(file.key)
    except UnreachableError as error:
        if error.missing:
            return False
        raise
