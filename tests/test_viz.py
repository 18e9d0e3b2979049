"""Drawing functions take arrays and return axes; the style makes figures reproducible."""

from __future__ import annotations

import io

import matplotlib
import matplotlib.pyplot as plt
import numpy as np
import pytest
import torch

from allyouneed import viz

matplotlib.use("agg")


@pytest.mark.parametrize("kind", [np.asarray, torch.tensor])
def test_attention_map_shows_the_weights(kind):
    weights = [[0.1, 0.9], [0.5, 0.5], [1.0, 0.0]]
    ax = viz.attention_map(kind(weights), ["a", "b", "c"], ["x", "y"])
    image = ax.images[0]
    assert np.allclose(image.get_array(), weights)
    assert image.get_clim() == (0, 1)
    assert [t.get_text() for t in ax.get_yticklabels()] == ["a", "b", "c"]
    assert [t.get_text() for t in ax.get_xticklabels()] == ["x", "y"]
    plt.close("all")


def test_attention_map_names_a_wrong_shape():
    with pytest.raises(
        ValueError, match=r"weights: expected shape \(2 queries, 3 keys\), got \(3, 2\)"
    ):
        viz.attention_map(np.ones((3, 2)), ["a", "b"], ["x", "y", "z"])


def test_same_figure_same_bytes():
    def drawn() -> bytes:
        with plt.rc_context(viz.STYLE):
            fig, ax = plt.subplots()
            ax.plot([1, 2, 3], label="a")
            ax.legend()
            file = io.BytesIO()
            fig.savefig(file, format="svg", metadata={"Date": None})
            plt.close(fig)
        return file.getvalue()

    assert drawn() == drawn()


def test_ribbons_join_what_has_weight():
    ax = viz.alignment_ribbons([[0.9, 0.1], [0.0, 1.0]], ["a", "b"], ["x", "y"])
    assert len(ax.collections) == 3  # one for each weight that can be seen
    assert [text.get_text() for text in ax.texts] == ["x", "y", "a", "b"]
    with pytest.raises(ValueError, match=r"weights: expected shape \(1 queries, 2 keys\)"):
        viz.alignment_ribbons(np.ones((2, 2)), ["a"], ["x", "y"])
    plt.close("all")
