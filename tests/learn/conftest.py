"""What the lectures' tests need: the code of the app, no Streamlit."""

from tests.marks import skip_without

skip_without("app")
