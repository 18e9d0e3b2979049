"""All You Need: the Transformer, cell by cell."""

__version__ = "0.2.0.dev0"


def start() -> str:
    """Say what is installed, set the figure style, return the best of "cuda", "mps" and "cpu".

    The second line of every notebook.
    """
    import torch

    from . import viz

    viz.use_style()
    device = (
        "cuda"
        if torch.cuda.is_available()
        else "mps"
        if torch.backends.mps.is_available()
        else "cpu"
    )
    print(f"allyouneed {__version__} with torch {torch.__version__}, computing on {device}")
    return device


def pretrained(name: str, device: str = "cpu"):
    """A translator that ships with the package, in eval mode, and its tokenizer.

    `name`: "tatoeba-en-fr", everyday sentences, English to French; or "multi30k-en-de", captions of
    photographs, English to German, for non-commercial use as the data it comes from.
    Raises ValueError for another name.
    """
    from . import saving

    return saving.pretrained(name, device)
