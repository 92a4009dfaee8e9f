"""Streamlit's command line, without its only question to another host."""

from streamlit import net_util
from streamlit.web.cli import main

if __name__ == "__main__":
    # A websocket from another origin is compared with this machine's address outside, which Streamlit asks a host of Amazon for;
    # no option switches that off.
    net_util.get_external_ip = lambda: None
    main()
