"""What an installation may have beside its base, `pip install 'saccade[EXTRA]'`; errors ask for it by that name.

Here and in pyproject.toml, which names the packages as pip knows them; a test compares the two.
"""

import importlib.util

EXTRAS = {
    "serve": ("fastapi", "uvicorn", "python_multipart"),
    "export": ("onnx", "onnxscript", "onnxruntime"),
    "slides": ("openslide",),
    "remote": ("s3fs", "aiohttp"),
    "ray": ("ray",),
    "mlflow": ("mlflow",),
    "wandb": ("wandb",),
}


def is_installed(extra: str) -> bool:
    """Whether all modules of an extra can be imported."""
    return not missing_from(extra)


def missing_from(extra: str) -> list[str]:
    """The modules of an extra that cannot be imported."""
    return [module for module in EXTRAS[extra] if importlib.util.find_spec(module) is None]


def how_to_install(extra: str) -> str:
    """The command that brings an extra."""
    return f"pip install 'saccade[{extra}]'"


def require(extra: str, what: str) -> None:
    """Refuse `what` where its extra is not installed, and say how to install it."""
    if missing := missing_from(extra):
        raise ValueError(f"{what} needs {', '.join(missing)}: {how_to_install(extra)}")
