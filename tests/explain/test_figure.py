import nsac
from explain.conftest import table


def test_a_figure_has_a_bar_per_feature_and_names_the_row(regressor):
    figure = nsac.explain(regressor, table(3, seed=1)[0]).plot(1)
    assert [ax.get_title(loc="left") for ax in figure.axes][:2] == ["Mean", "Aleatoric variance"]
    assert len(figure.axes[0].patches) == 4 and "Row 1" in figure.get_suptitle()
