"""All You Need: the Transformer, cell by cell."""

__version__ = "0.2.0.dev0"


def start() -> str:
    """Say what is installed and what computes, set the figure style, and return "cuda" or "cpu".

    The second line of every notebook. Of a GPU it tells the name, the memory and the half precision
    that it has units for; in Colab without one, how to get one. Apple's GPUs are not offered: they
    have no float64, and no chapter has been tried on one.
    """
    import sys

    import torch

    from . import kernels, viz

    viz.use_style()
    device = "cuda" if torch.cuda.is_available() else "cpu"
    where = "computing on cpu" if device == "cpu" else 'device = "cuda"'
    print(f"allyouneed {__version__} with torch {torch.__version__}, {where}")
    if device == "cuda":
        half = str(kernels.half_dtype(torch.device(device))).removeprefix("torch.")
        gigabytes = torch.cuda.get_device_properties(device).total_memory / 1e9
        print(f"{torch.cuda.get_device_name()}, {gigabytes:.0f} GB; half precision: {half}")
    elif "google.colab" in sys.modules:
        print("For a GPU: Runtime, Change runtime type, T4 GPU; then run the notebook again.")
    return device


def pretrained(name: str, device: str = "cpu"):
    """A translator that ships with the package, in eval mode, and its tokenizer.

    `name`: "tatoeba-en-fr", everyday sentences, English to French; or "multi30k-en-de", captions of
    photographs, English to German, for non-commercial use as the data it comes from.
    Raises ValueError for another name.
    """
    from . import saving

    return saving.pretrained(name, device)
