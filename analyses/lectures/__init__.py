"""Pictures and worked numbers of the lectures: tokens, costs, one example step by step."""
