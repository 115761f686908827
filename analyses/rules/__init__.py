"""From labelled lines to the rule behind them."""
