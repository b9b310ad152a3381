"""The APIs: one file per dialect and route, and what their requests have in common."""
