"""The workbench: a Streamlit app that shows run records and starts fusions. No algorithm lives here."""
