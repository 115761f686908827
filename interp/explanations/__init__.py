"""Which symbols decide: LIME, SHAP and gradients, and how right they are."""
