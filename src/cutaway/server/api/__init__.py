"""The APIs: one file per dialect and route, and the parts that their requests share."""
